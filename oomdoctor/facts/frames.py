"""What a stack frame says about the work in hand: which phase it belongs to, which kind of operation asks for memory.

Frames are classified by what the code does (its text, function and file), never by a project's name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..model.events import LogEvent
from ..model.run import StackFrame
from .frame_calls import computes

_LIBRARY = re.compile(
    r"site-packages|dist-packages|lib/python\d|lib64/python\d|<frozen|^\.\.\./(?:torch|transformers|tensorflow|jax|numpy)/"
)


_PACKAGE = re.compile(r"(?:site-packages|dist-packages|^\.\.\.)/(\w+)/")


_TRAINER = re.compile(r"(?:^|/)transformers/trainer\w*\.py$|(?:^|/)(?:trl|axolotl|llamafactory)/")


@dataclass(frozen=True)
class _Sign:
    """A pattern over `file|function|code` and what it stands for."""

    name: str
    pattern: re.Pattern[str]


_CONSTRUCTS = r"/(?:(?:models|custom_modeling)/(?:\w{1,40}/){0,2}|modeling_)\w{1,60}\.py\|__init__\|"
"""A constructor in a file that defines models: the model's parts are made, whole or one by one."""


def _sign(name: str, *patterns: str) -> _Sign:
    return _Sign(name, re.compile("|".join(patterns), re.IGNORECASE))


_OPERATIONS = (
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
        r"/optim/\w+\.py\|",
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
        r"state_dict",
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
        r"(?:layers|sample|v1|worker)/(?:\w+/)*\w*sampler\.py\|",
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
        r"logits\b",
        r"compute_logits",
        r"vocab_parallel",
        r"float16_to_fp32\(outputs?\)",
    ),
    _sign(
        "decoder",
        r"vae\b.*decode",
        r"vae_?decode",
        r"VAEDecode",
        r"autoencoder\w*\.py\|_?(?:tiled_)?decode",
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
        r"siglip",
        r"image_encoder",
        r"audio_?(?:tower|encoder)",
        r"embed_multimodal",
        r"get_multimodal_embeddings",
        r"execute_mm_encoder",
        r"/models/(?:clip|\w*vision\w*)\.py\|forward\|",
        r"vae_?encode",
        r"autoencoder\w*\.py\|_?(?:tiled_)?encode",
        r"\|encode_first_stage\|",
    ),
    _sign(
        "attention-scores",
        r"torch\.(?:matmul|bmm|baddbmm)\(\s*(?:q|query)",
        r"softmax\(\s*(?:att|scores|sim|qk|attn)",
        r"\bq(?:uery)?\w*\s*@\s*k",
        r"einsum\([^)]*\bq\w*\s*,\s*k",
        r"\|\w*att(?:n|end|ention)\w*\|.*(?:softmax\(|einsum\(|matmul\(|bmm\(|baddbmm\(|\w\s@\s\w)",
        r"attn_weights",
        r"\batt(?:n|ention)?\w{0,20}\s*=\s*(?:torch\.|F\.|tf\.)?(?:matmul|bmm|einsum|softmax)\(",
        r"\b(?:matmul_result|attn_scores?|att_scores?|attention_weights)\w*\s*=",
        r"attention_scores",
        r"attention_probs",
        r"eager_attention_forward",
    ),
    _sign(
        "attention",
        r"scaled_dot_product_attention",
        r"flash_attn",
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
        r"\|(?:\w+ = )?(?:self\.)?(?:model|net|network|unet|transformer|pipe|pipeline)\.(?:cuda|to)\(",
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
        r"process_weights_after_loading",
        r"/diffusers/pipelines/pipeline_utils\.py\|to\|",
        r"create_weights?\b",
        r"get_(?:multi_|partial_)?(?:sharded|weights?)\w{0,20}\(",
        _CONSTRUCTS,
        r"from_pretrained",
        r"_load_state_dict_into",
        r"weight_loader",
        r"caching_allocator_warmup",
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

_EVALUATING = (
    r"\|_?(?:evaluate|evaluation|validate|validation|eval|valid|val|test|predict|prediction)(?:_(?:loop|step|epoch|model|one_epoch|batch|loss))?\|"
    r"|\|(?:run|compute|do)_(?:eval|evaluation|validation|val|test)(?:_(?:loop|step|epoch))?\|"
)

_PHASES = (
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
    _sign("optimizer-step", r"optim\w*\.step\(", r"/optim/\w+\.py\|"),
    _sign("backward", r"\.backward\(", r"autograd/__init__\.py", r"run_backward"),
    _sign("evaluation", _EVALUATING, r"\bevaluate\(", r"trainer_pt_utils\.py\|"),
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
        r"create_weights?\b",
        r"\|\w{0,20}(?:UNET|Checkpoint|Diffusion|Model|CLIP|VAE)\w{0,20}Loader\w{0,20}\|",
        _CONSTRUCTS,
        r"\|_?(?:init|initialize|make|create|build|load)_(?:model|params|parameters|weights)\|",
        r"/nn/modules/\w+\.py\|(?:__init__|reset_parameters)",
        r"/nn/modules/module\.py\|(?:_apply|convert)\|",
        r"caching_allocator_warmup",
        r"variables_initializer\(",
        r"\b_init_param_handle_from_\w+",
    ),
    _sign("loss", r"criterion\(", r"cross_entropy", r"loss_fn", r"compute_loss", r"\|loss\|", r"loss_function"),
    _sign("decode", r"\|_?(?:sample|greedy_search|beam_search|_decode|decode_step|generate_token)\|", r"\|decode\|"),
    _sign("prefill", r"prefill"),
    _sign("forward", r"\|forward\|", r"\|_call_impl\|", r"\|__call__\|", r"\|training_step\|"),
)
"""The outermost-to-innermost order does not matter: the first sign of this table that any frame shows is the phase."""

_EVALUATES = re.compile(_EVALUATING, re.IGNORECASE)

_PLACES = {"encoder", "decoder", "checkpoint", "graph", "sampler", "collect", "gradient", "weights"}
"""Operations that hold for all that is called inside them."""

_PARTS = {"logits", "encoder", "decoder", "attention-scores", "attention"}
"""Operations named after parts of a model: a constructor makes the part, and computes nothing with it."""

_TORCH = re.compile(r"(?:^|[/\\])torch[/\\]")

_TRAINING = re.compile(
    r"\.backward\(|optim\w*\.step\(|\|train(?:ing_step|_one_epoch|_step|_epoch|ing_loop|_loop|er)?\||\|fit\||criterion\(|compute_loss|trainer\.py\|",
    re.IGNORECASE,
)


_EVALUATES_WITHOUT = re.compile(r"transformers/trainer|lightning/")
_EVALUATIONS = {"evaluate", "evaluation_loop", "prediction_step", "validation_step", "predict", "_run_evaluate", "run"}

_BRINGS_BACK = re.compile(r"accelerate/hooks\.py\|(?:pre_forward|init_hook)\||cpu_offload_with_hook|model_cpu_offload")

_CONVOLVES = re.compile(
    r"/nn/modules/conv\.py\|(?:_conv_forward|forward)\||\b(?:F|functional|torch)\.conv(?:_transpose)?[123]d\("
)
_RESTORES = re.compile(r"torch/serialization\.py\|(?:_cuda_deserialize|_deserialize|_hpu_deserialize)\|")
_LOADS = re.compile(r"torch\.load\(")
_CHAT_PROGRAMS = re.compile(r"\b(?:KoboldAI|TavernAI|SillyTavern|oobabooga|text-generation-webui)\b", re.IGNORECASE)
_CONVERSES = re.compile(
    r"\.(?:chat|stream_chat)\(.{0,200}\bhistory\b|\|(?:chat|stream_chat|chatbot)\|.{0,300}\bhistory\b"
    r"|[/\\](?:KoboldAI|text-generation-webui|Langchain-Chatchat)[/\\-]",
    re.IGNORECASE,
)
_ADAPTERS = re.compile(
    r"\|(?:create_lora_weights|_?load_adapter|add_(?:lora|adapter)(?:_adapter)?|activate_adapter|set_lora"
    r"|init_lora_manager|_?create_lora_manager|load_lora_(?:adapter|weights)|init_memory_pool|init_buffers"
    r"|from_(?:local_checkpoint|lora_tensors)|set_active_loras|maybe_setup_dummy_loras)\|"
)

_GATHERS = re.compile(
    r"_full_(?:pre|post)_state_dict_hook|_unshard_(?:params|pre)|_common_unshard|full_state_dict"
    r"|gather_16bit|consolidated_16bit|summon_full_params",
    re.IGNORECASE,
)


def frames_of(event: LogEvent) -> tuple[StackFrame, ...]:
    """The frames of an EXCEPTION event, outermost first."""
    frames = event.fields.get("frames")
    found = []
    for frame in frames if isinstance(frames, tuple) else ():
        if isinstance(frame, tuple) and len(frame) >= 3:
            line = frame[1] if isinstance(frame[1], int) else 0
            found.append(StackFrame(str(frame[0]), line, str(frame[2]), str(frame[3] or "") if len(frame) > 3 else ""))
    return tuple(found)


def operation_of(frames: Iterable[StackFrame]) -> str | None:
    """The kind of operation that asked for memory; `activation` inside a module's forward without a closer sign.

    From the innermost frame outwards, past torch's own. Once a module's forward of another project was passed, what is
    outside of it says where the module stands (`_PLACES`), no longer what was computed: in
    `cross_entropy(model(x), y)` a failure inside the model is not about the loss.
    """
    inside_module = in_forward = False
    frames = list(frames)
    for frame in reversed(frames):
        text = _text(frame)
        for sign in _OPERATIONS:
            if sign.pattern.search(text) and not (inside_module and sign.name not in _PLACES):
                return "weights" if frame.function == "__init__" and sign.name in _PARTS else sign.name
        forward = frame.function == "forward"
        inside_module = inside_module or (forward and not _TORCH.search(frame.file))
        in_forward = in_forward or forward
    return "activation" if in_forward or computes(frames) else None


def operation_of_node(name: str | None) -> str | None:
    """The kind of work of a node of a graph: of TensorFlow's by the scopes in its name, of ComfyUI's by its name."""
    if name is None:
        return None
    return next((kind for kind, regex in _NODES if regex.search(name)), None)


_NODES = (
    ("decoder", re.compile(r"^(?:\w{0,40}[a-z_])?(?:VAE|Vae)?Decode(?:Tiled|r)?$")),
    ("gradient", re.compile(r"(?:^|/)gradients?(?:_\d+)?/")),
    ("optimizer-state", re.compile(r"(?:^|/)(?:Adam\w*|RMSProp|Momentum|Adagrad|Adadelta|Ftrl|LAMB)(?:_\d+)?/")),
)


def phase_of(frames: Iterable[StackFrame]) -> str | None:
    """The phase the program was in."""
    texts = [_text(frame) for frame in frames]
    return next((sign.name for sign in _PHASES if any(sign.pattern.search(text) for text in texts)), None)


def evaluating_frame(frames: Iterable[StackFrame]) -> StackFrame | None:
    """The frame of the innermost function that evaluates, by its name."""
    return next((f for f in reversed(list(frames)) if _EVALUATES.search(f"|{f.function}|")), None)


def gathers_full_state(frames: Iterable[StackFrame]) -> bool:
    """Whether the frames unshard parameters or gather a full state dict."""
    return any(_GATHERS.search(_text(frame)) for frame in frames)


def moves_offloaded(frames: Iterable[StackFrame]) -> bool:
    """Whether an offloaded component is being brought to the device, whole."""
    return any(_BRINGS_BACK.search(_text(frame)) for frame in frames)


def is_convolution(frames: Iterable[StackFrame]) -> bool:
    """Whether the innermost frame calls a convolution."""
    known = list(frames)
    return bool(known) and _CONVOLVES.search(_text(known[-1]).replace("\\", "/")) is not None


def restores_saved_device(frames: Iterable[StackFrame]) -> bool | None:
    """Whether torch.load was putting tensors back where they were saved from.

    None where no tensors were being put on a device, or the line that calls torch.load is not to be seen.
    """
    texts = [_text(frame).replace("\\", "/") for frame in frames]
    if not any(map(_RESTORES.search, texts)):
        return None
    calls = [text for text in texts if _LOADS.search(text)]
    return not any("map_location" in text for text in calls) if calls else None


def holds_conversation(frames: Iterable[StackFrame]) -> bool:
    """Whether a call passes the history of a conversation, or a front end for chats runs."""
    return any(_CONVERSES.search(_text(frame)) for frame in frames)


def is_chat_program(text: str) -> bool:
    """Whether a sentence or a launch line names a front end that keeps conversations."""
    return _CHAT_PROGRAMS.search(text) is not None


def places_adapters(frames: Iterable[StackFrame]) -> bool:
    """Whether an engine's own code was placing adapters. Those of PEFT are part of a model that is trained."""
    own = [frame for frame in frames if "lora" in frame.file and "/peft/" not in frame.file]
    return any(_ADAPTERS.search(_text(frame)) for frame in own)


def in_data_parallel(frames: Iterable[StackFrame]) -> bool:
    """Whether the frames pass through DataParallel (one process, results gathered on the first device)."""
    return any("parallel/data_parallel" in frame.file or "parallel/scatter_gather" in frame.file for frame in frames)


def autograd_of(frames: Iterable[StackFrame]) -> bool | None:
    """Whether gradients were recorded, where the frames show it.

    `decorate_context` is how torch wraps a function in no_grad or inference_mode; trainers evaluate without gradients.
    """
    known = list(frames)
    for frame in known:
        text = f"{frame.function} {frame.code}"
        if frame.function == "decorate_context" or any(word in text for word in ("no_grad", "inference_mode")):
            return False
        if _EVALUATES_WITHOUT.search(frame.file) and frame.function in _EVALUATIONS:
            return False
    return True if any(".backward(" in frame.code for frame in known) else None


def is_training(frames: Iterable[StackFrame]) -> bool:
    """Whether the frames show a training step."""
    return any(_TRAINING.search(_text(frame)) for frame in frames)


def users_frame(frames: Iterable[StackFrame]) -> StackFrame | None:
    """The innermost frame outside the standard library and installed packages; else the innermost."""
    known = list(frames)
    own = [frame for frame in known if not _LIBRARY.search(frame.file)] or known
    return own[-1] if own else None


def caller_of_torch(frames: Iterable[StackFrame]) -> str | None:
    """Who called torch: `own` for the user's code, else the installed package's name; None where only torch is seen."""
    for frame in reversed(list(frames)):
        package = _PACKAGE.search(frame.file)
        if package is None:
            if not _LIBRARY.search(frame.file) and not frame.file.startswith("<"):
                return "own"
        elif package[1] not in ("torch", "torchvision"):
            return package[1]
    return None


def serving_engine(frames: Iterable[StackFrame]) -> str | None:
    """The serving engine whose own code is nearest to the failing call."""
    for frame in reversed(list(frames)):
        if found := _ENGINES_CODE.search(frame.file.replace("\\", "/")):
            return "tgi" if found[1] == "text_generation_server" else found[1]
    return None


_ENGINES_CODE = re.compile(r"(?:^|/)(vllm|sglang|text_generation_server|lmdeploy)/\w")


def describe(frame: StackFrame) -> str:
    """`train.py:29 in train: optimizer.step()`."""
    place = f"{frame.file}:{frame.line} in {frame.function}"
    return f"{place}: {frame.code.strip()}" if frame.code.strip() else place


def describe_function(frame: StackFrame) -> str:
    """`evaluate() (train.py:29)`."""
    return f"{frame.function}() ({frame.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{frame.line})"


def _text(frame: StackFrame) -> str:
    return f"{frame.file.replace(chr(92), '/')}|{frame.function}|{frame.code}"


def uses_trainer(frames: Iterable[StackFrame]) -> bool:
    """Whether transformers' Trainer, or a package that is built on it, runs the loop: its options can be set then."""
    return any(_TRAINER.search(frame.file.replace("\\", "/")) for frame in frames)
