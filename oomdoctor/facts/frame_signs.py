"""Patterns over a stack frame's file, function and code, and the kind of operation or the phase each stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Sign:
    """A pattern over `file|function|code` and what it stands for."""

    name: str
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when the first stack is looked at: many inputs have none."""
        return re.compile(self.expression, re.IGNORECASE)


_CONSTRUCTS = r"/(?:(?:models|custom_modeling)/(?:\w{1,40}/){0,2}|modeling_)\w{1,60}\.py\|__init__\|"
"""A constructor in a file that defines models: the model's parts are made, whole or one by one."""


def _sign(name: str, *patterns: str) -> Sign:
    return Sign(name, "|".join(patterns))


_MOVES_MODULE = (
    r"\|(?:\w+ = )?(?:self\.)?(?:\w{1,30}_)?"
    r"(?:model|net|network|unet|vae|transformer|pipe|pipeline|generator|discriminator|backbone|encoder|decoder)"
    r"(?:_(?!in|out|kw|arg|batch|data|dev|state|hidden|feat|emb|x)\w{1,20})?\.(?:cuda|to)\("
)
"""A module moved to the device whole, by what it is called; not what goes into one or comes out of it."""

OPERATIONS = (
    _sign(
        "pinned-memory",
        r"pin_memory=True",
        r"\.pin_memory\(",
        r"allocate_cpu_cache",
        r"cudaHostAlloc",
        r"cudaMallocHost",
    ),
    _sign(
        "optimizer-state",
        r"exp_avg",
        r"_init_group",
        r"/optim/\w+\.py\|(?!load_state_dict\b|state_dict\b)",
        r"optim\w*\.step\(",
        r"momentum_buffer",
        r"\|_multi_tensor_\w+\|",
        r"\binitialize_optimizer_states\b",
        r"\b_configure_(?:zero|fp16|bf16|fp32)_optimizer\b",
        r"\bDeepSpeedZeroOptimizer\w*\(",
        r"zero/stage\w*\.py\|__init__",
        r"optimizer_apply_gradients|optimizer\.apply_gradients\(",
    ),
    _sign(
        "checkpoint",
        r"state_dict(?!_into_(?:meta_)?model|_index)",
        r"save_checkpoint",
        r"save_model",
        r"save_pretrained",
        r"torch\.save",
        r"save_\w{0,40}checkpoint",
        r"\b_?load_opt(?:im\w*)?(?:_and_scheduler)?(?:_state\w*)?\(",
        r"\|_?load_opt(?:im\w*)?(?:_and_scheduler)?(?:_state\w*)?\|",
        r"torch/serialization\.py\|_?save\|",
        r"safetensors/\w+\.py\|(?:save_file|_flatten|_tobytes|save)\|",
        r"_unshard_params_for_summon",
        r"fsdp_save",
        r"\|_?merge_(?:and_\w{1,40}_)?lora\w*\|",
        r"\|\w{0,40}save_pretrained_(?:merged|gguf)\|",
    ),
    _sign(
        "kv-pool",
        r"(?:\bk|\bv|key|value|kv|past)_?(?:cache|states?|buffers?)s?\b.*torch\.(?:zeros|empty|ones|full)\(",
        r"static_?cache\w*\|",
        r"\|(?:allocate|init|create|make|setup)_(?:kv_|gpu_)?caches?\|",
        r"_kv_cache_tensors\|",
        r"/mem_cache/\w{0,30}memory_pool\.py\|_create_buffers\|",
    ),
    _sign(
        "kv-append",
        r"torch\.(?:cat|concat)\(\s*[\[(]\s*(?:past|self\.(?:key|value)|layer_past|cache)",
        r"torch\.(?:cat|concat)\(\s*[\[(]\s*(?:p|past|prev|old|cached?)_?(?:k|v|keys?|values?)\b\s*,",
        r"cache_utils\.py\|update",
        r"past_key_values?\b.*torch\.cat",
        r"\|_?(?:update|append)_(?:kv|cache)\|",
    ),
    _sign(
        "sampler",
        r"_dummy_sampler_run",
        r"(?:layers|sample|v1|worker)/(?:\w+/)*\w*sampler\.py\|(?!\w*logprobs\|)",
        r"\|apply_top_k",
        r"\|_?sample\|.*softmax",
        r"logits_sort\w* = |\blogits\.sort\(",
    ),
    _sign("collect", r"\b(?P<kept>\w+)\s*=\s*\w+\s+if\s+(?P=kept)\s+is\s+None\s+else\b"),
    _sign(
        "logits",
        r"cross_entropy",
        r"log_softmax",
        r"log_probs?\b",
        r"logprobs?\b",
        r"lm_head",
        r"(?<!return_)logits\b",
        r"compute_logits",
        r"vocab_parallel",
        r"float16_to_fp32\(outputs?\)",
        r"/utils/operations\.py\|_?convert_to_fp32\|",
    ),
    _sign(
        "decoder",
        r"vae\b.*decode",
        r"vae_?decode",
        r"VAEDecode",
        r"autoencoder\w*\.py\|(?:_?(?:tiled_)?decode|forward\|)",
        r"decode_first_stage",
        r"decode_latents",
    ),
    _sign(
        "encoder",
        r"vision_?(?:tower|model|encoder|transformer)",
        r"visual\.py",
        r"visual\(",
        r"\bvit\b",
        r"vit_\w+\.py",
        r"\w_vit\.py\|",
        r"siglip",
        r"image_encoder",
        r"audio_?(?:tower|encoder)",
        r"embed_multimodal",
        r"get_multimodal_embeddings",
        r"merge_multimodal_embeddings|_compute_deepstack_embeds",
        r"\bget_(?:vision|vllm_vision|visual|image|video|audio)_(?:hidden_states|embedd?ings?|embeds|features?)\b",
        r"\b_?process_(?:image|video|audio|vision)_input\b",
        r"\b(?:general_mm_embed_routine|embed_mm_inputs|_get_chunked_prefill_embedding)\b",
        r"\bencode_(?:images?|videos?|audio)\(",
        r"execute_mm_encoder",
        r"/models/(?:clip|\w*vision\w*)\.py\|forward\|",
        r"vae_?encode",
        r"\bvae\w*\.encode\(",
        r"autoencoder\w*\.py\|_?(?:tiled_)?encode",
        r"\|encode_first_stage\|",
    ),
    _sign(
        "attention-scores",
        r"torch\.(?:matmul|bmm|baddbmm)\(\s*(?:\w{1,12}_)?(?:q\b|query)",
        r"softmax\(\s*(?:att|scores|sim|qk|attn)",
        r"\bq(?:uery)?\w*\s*@\s*k",
        r"einsum\([^)]*\bq\w*\s*,\s*k",
        r"\|\w*att(?:n|end|ention)\w*\|.*(?:softmax\(|einsum\(|matmul\(|bmm\(|baddbmm\(|\w\s@\s\w)",
        r"attn_weights",
        r"\batt(?:n|ention)?\w{0,20}\s*=\s*(?:torch\.|F\.|tf\.)?(?:matmul|bmm|einsum|softmax)\(",
        r"\b(?:matmul_result|attn_scores?|att_scores?|attention_weights)\w*\s*=",
        r"\battn\s*=\s*attn\s*\+",
        r"attention_scores",
        r"attention_probs",
        r"eager_attention_forward",
    ),
    _sign(
        "attention",
        r"scaled_dot_product_attention",
        r"flash_attn(?!/bert_padding)",
        r"memory_efficient_attention",
        r"\|\w*att(?:ention|n)_(?:bias|mask)\w*(?:\|| = )",
    ),
    _sign(
        "collect",
        r"(?:preds?|outputs?|results?|logits_all|all_\w+)\.append\((?!getattr\()",
        r"torch\.cat\(\s*(?:\[)?(?:all_\w*|preds?|predictions|outputs)",
        r"\(\s*(?:results?|preds?|predictions|outputs)\s*,.*\ball_(?!gather|reduce|to_all)\w+",
        r"nested_concat",
        r"pad_and_concatenate",
        r"pad_across_processes",
        r"gather_for_metrics",
    ),
    _sign(
        "gradient", r"\.backward\(", r"autograd/__init__\.py", r"\|backward\|", r"run_backward", r"_engine_run_backward"
    ),
    _sign(
        "communication",
        r"all_?reduce",
        r"all_?gather",
        r"reduce_?scatter",
        r"broadcast_coalesced",
        r"ProcessGroupNCCL",
        r"_sync_params",
        r"nccl",
    ),
    _sign("graph", r"capture_begin", r"capture_end", r"cuda_?graph", r"graph_capture", r"torch\.cuda\.graph"),
    _sign(
        "weights",
        r"\b(?:weights?|params?|parameters|state_dict)\b[^=]{0,80}\.(?:cuda|to)\(",
        _MOVES_MODULE,
        r"\b_?move_model_to_device\(|\|_?(?:move_model|model)_to_device\|",
    ),
    _sign("activation", r"^\|\w*Sampler\w*\|$", r"/(?:ldm|diffusers/models)/\S{1,200}\.py\|\w+\|.*\w\]? [*+@] \w"),
    _sign(
        "copy-to-device",
        r"\.to\(\s*(?:device|[\"']?cuda|self\.device|torch\.device)",
        r"\.cuda\(",
        r"convert_to_eager_tensor",
        r"send_to_device",
        r"_?to_device\(",
        r"device_put\(",
    ),
    _sign(
        "weights",
        r"load_weights",
        r"load_model",
        r"\|_?load(?:_\w{1,30})?\|.*\b(?:self|model|module|layer|block|component)[\w.\[\]]{0,40}\.load(?:_\w{1,30})?\(",
        r"process_weights_after_loading",
        r"/diffusers/pipelines/pipeline_utils\.py\|to\|",
        r"create_(?:\w{1,20}_)?weights?(?:_func)?\b",
        r"get_(?:multi_|partial_)?(?:sharded|weights?)\w{0,20}\(",
        _CONSTRUCTS,
        r"from_pretrained",
        r"_load_state_dict_into",
        r"weight_loader",
        r"caching_allocator_warmup",
        r"\|set_module_(?:quantized_)?tensor_to_device\|",
        r"/nn/modules/\w+\.py\|(?:__init__|reset_parameters)",
        r"/nn/modules/module\.py\|(?:_apply|convert)\|",
        r"(?:UNET|Checkpoint|Diffusion|Model)\w*Loader",
        r"Parameter\(\s*torch\.(?:empty|zeros|randn)",
        r"init_empty",
        r"load_checkpoint",
        r"variables_initializer\(",
        r"\b(?:FSDP|FullyShardedDataParallel)\($",
        r"\b_init_param_handle_from_\w+",
    ),
)
"""First match from the innermost frame outwards names the operation; within a frame the order of this table decides."""

EVALUATING = (
    r"\|_?(?:evaluate|evaluation|validate|validation|eval|valid|val|test|predict|prediction)(?:_(?:loop|step|epoch|model|one_epoch|batch|loss))?\|"
    r"|\|(?:run|compute|do)_(?:eval|evaluation|validation|val|test)(?:_(?:loop|step|epoch))?\|"
)

PHASES = (
    _sign(
        "checkpoint",
        r"save_checkpoint",
        r"save_model",
        r"\|save_pretrained\|",
        r"torch\.save\(",
        r"\|save_\w{0,40}checkpoint\|",
        r"\|_?load_opt(?:im\w*)?(?:_and_scheduler)?(?:_state\w*)?\||\boptim\w*\.load_state_dict\(",
        r"torch/serialization\.py\|_?save\|",
        r"safetensors/\w+\.py\|(?:save_file|save)\|",
        r"fsdp_save",
        r"_full_pre_state_dict_hook",
        r"\.state_dict\(\)",
        r"\|_?merge_(?:and_\w{1,40}_)?lora\w*\|",
        r"\|\w{0,40}save_pretrained_(?:merged|gguf)\|",
    ),
    _sign(
        "graph-capture",
        r"capture_model",
        r"capture_begin",
        r"capture_end",
        r"cuda_graph_runner",
        r"\|capture\|",
        r"graph_capture",
        r"torch\.cuda\.graph\(",
    ),
    _sign(
        "profile",
        r"profile_run",
        r"determine_num_available_blocks",
        r"determine_available_memory",
        r"profile_num_available",
        r"_dummy_run",
    ),
    _sign("warm-up", r"compile_or_warm_up", r"warm_?up", r"_dummy_sampler_run"),
    _sign(
        "kv-allocation",
        r"cache_engine\.py\|",
        r"allocate_kv_cache",
        r"initialize_kv_cache",
        r"/mem_cache/\w{0,30}memory_pool\.py\|_create_buffers\|",
        r"\|init_kv_cache\|",
    ),
    _sign("optimizer-step", r"optim\w*\.step\(", r"/optim/\w+\.py\|(?!load_state_dict\b|state_dict\b)"),
    _sign("backward", r"\.backward\(", r"autograd/__init__\.py", r"run_backward"),
    _sign("evaluation", EVALUATING, r"\bevaluate\(", r"trainer_pt_utils\.py\|"),
    _sign(
        "data-loading",
        r"dataloader\.py",
        r"DataLoader\(",
        r"_MultiProcessingDataLoaderIter",
        r"dataset\.py\|__getitem__",
    ),
    _sign(
        "load",
        r"from_pretrained",
        r"\|load\|",
        r"load_weights",
        r"load_model",
        r"load_state_dict",
        r"torch\.load\(",
        r"load_checkpoint",
        r"process_weights_after_loading",
        r"/diffusers/pipelines/pipeline_utils\.py\|to\|",
        r"create_(?:\w{1,20}_)?weights?(?:_func)?\b",
        r"\|\w{0,20}(?:UNET|Checkpoint|Diffusion|Model|CLIP|VAE)\w{0,20}Loader\w{0,20}\|",
        _CONSTRUCTS,
        r"\|_?(?:init|initialize|make|create|build|load)_(?:model|params|parameters|weights)\|",
        r"/nn/modules/\w+\.py\|(?:__init__|reset_parameters)",
        r"/nn/modules/module\.py\|(?:_apply|convert)\|",
        r"\|set_module_(?:quantized_)?tensor_to_device\|",
        r"\b_?move_model_to_device\(|\|_?(?:move_model|model)_to_device\|",
        r"\|_?prepare_(?:model|one)\||\|_prepare_(?:fsdp2?|deepspeed)\|",
        _MOVES_MODULE,
        r"caching_allocator_warmup",
        r"variables_initializer\(",
        r"\b_init_param_handle_from_\w+",
    ),
    _sign("loss", r"criterion\(", r"cross_entropy", r"loss_fn", r"compute_loss", r"\|loss\|", r"loss_function"),
    _sign("decode", r"\|_?(?:sample|greedy_search|beam_search|_decode|decode_step|generate_token)\|", r"\|decode\|"),
    _sign("prefill", r"prefill"),
    _sign(
        "serving",
        r"\|(?:_process_engine_step|run_busy_loop|run_engine_loop|engine_step|_run_engine)\|",
        r"/sglang/\S{1,120}\.py\|(?:event_loop_\w{1,30}|forward_thread_func_?)\|",
    ),
    _sign("forward", r"\|forward\|", r"\|_call_impl\|", r"\|__call__\|", r"\|training_step\|"),
)
"""The outermost-to-innermost order does not matter: the first sign of this table that any frame shows is the phase."""
