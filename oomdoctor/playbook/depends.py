"""Of a change whose bytes cannot be computed: what they depend on that no input of this incident shows.

Said by what is set (the knob) or, for a change that is no setting, by its kind; where a rule has a formula, it is the
facts of the formula that are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..language import N_
from ..model.diagnosis import Effect
from ..model.facts import FactSpec
from .rule import RuleRemedy
from .terms import Lookup

_TOKENS = N_("how many bytes the keys and values of one token take, and how many tokens are kept now")
_REQUESTS = N_("how many requests run at once, how long they are, and what a token of them takes")
_STEP = N_("which part of the step's memory grows with its tokens")
_BATCH = N_("which part of the memory grows with the batch, and the size of the batch now")
_SAVED = N_("what the forward pass keeps for backward")
_LAYERS = N_("how large a layer is, and how many are on the device now")
_WEIGHTS = N_("how large the weights are now, and which of their layers take fewer bits")
_SHARE = N_("the share that is set now, and the size of the device")
_GRAPHS = N_("how many graphs are captured, and the pool that each of them keeps")
_HELD_BY_OTHERS = N_("what the other process holds on the device")
_ON_DEMAND = N_("how much of what the framework took beforehand it needs")
_WORKERS = N_("how much each worker holds by itself and does not share")
_LOADED = N_("how much of the checkpoint is held twice while it is read")
_COMPONENT = N_("the largest component of the pipeline, and the largest piece that is moved at a time")
_ADAPTERS = N_("the rank and number of the adapters, and the layers that they change")
_BUFFERS = N_("the number of channels and peers, each of which has buffers")
_WORKSPACE = N_("the ways of computing that the library tries, and the scratch memory that each asks for")
_LIBRARY = N_("the handles and streams of the program, each of which has a workspace")
_STORE = N_("what the program puts in there, and how long it stays")
_LIMIT = N_("the peak that the program reaches where no limit stops it")
_DRAFTS = N_("the size of the draft model, and the tokens that it drafts for each request")
_PICTURES = N_("how many items a request holds, and the tokens that each becomes")
_KEPT = N_("how many results are kept, and how large each of them is")
_STATE = N_("the full state of the model and its optimizer, and which rank gathers it")
_PIECES = N_("the layout of the idle pieces, and the sizes that are asked for from now on")
_ASLEEP = N_("what stays behind after sleep: the context, graphs, and the pieces that no level gives back")
_SEQUENCES = N_("how many sequences run at once, each of which has a state")
_SAME_START = N_("how long the common beginning is, and how many requests share it")
_OF_NODE = N_("what the other programs of the node hold at their peak")
_RESULT = N_("the shape of what is gathered: tokens × vocabulary × bytes a number")
_SMALLEST = N_("the smallest configuration that runs, which a try shows")
_SHAPES = N_("how much of the network's memory grows with the shapes")
_BLOCKS = N_("the block sizes and stages that the kernel is launched with")
_ENGINE = N_("what the other engine reserves and how long the requests are")

_BY_KNOB: dict[str, str] = {
    name: words
    for words, names in (
        (_TOKENS, "llamacpp.ctx_size ollama.context_length ollama.num_ctx lmstudio.context tgi.max_total_tokens "
                  "sglang.context_length lmdeploy.cache_max_entry_count hf.truncation hf.cache_implementation "
                  "tgi.max_input_tokens vllm.kv_offloading_size vllm.max_model_len deepspeed.max_out_tokens"),
        (_REQUESTS, "sglang.max_running_requests vllm.max_num_seqs sglang.schedule_conservativeness "
                    "llamacpp.parallel python.one_answer"),
        (_STEP, "vllm.max_num_batched_tokens sglang.chunked_prefill_size hf.prefill_chunk_size trtllm.max_num_tokens "
                "llamacpp.ubatch_size llamacpp.flash_attn"),
        (_BATCH, "torch.accumulate torch.dataloader_batch trtllm.max_batch_size torch.split "
                 "hf.per_device_eval_batch_size"),
        (_SAVED, "torch.autocast jax.checkpoint torch.no_grad"),
        (_LAYERS, "llamacpp.gpu_layers ollama.num_gpu vllm.cpu_offload_gb"),
        (_WEIGHTS, "mlc.quantization mlc.web_model hf.load_in_4bit peft.merge"),
        (_SHARE, "vllm.gpu_memory_utilization sglang.mem_fraction_static trtllm.free_gpu_memory_fraction "
                 "vllm.kv_cache_memory_bytes"),
        (_GRAPHS, "vllm.enforce_eager sglang.disable_cuda_graph sglang.cuda_graph_max_bs"),
        (_HELD_BY_OTHERS, "host.kill_process host.who_has_the_device lmstudio.unload cuda.visible_devices"),
        (_ON_DEMAND, "jax.preallocate tensorflow.allow_growth"),
        (_WORKERS, "torch.dataloader_workers python.numpy_array ray.cpus_of_a_task"),
        (_LOADED, "hf.dtype torch.load_mmap"),
        (_COMPONENT, "diffusers.sequential_cpu_offload diffusers.group_offloading"),
        (_ADAPTERS, "vllm.max_lora_rank vllm.max_loras sglang.max_loras_per_batch"),
        (_BUFFERS, "nccl.buffsize nccl.max_nchannels torch.limit_all_gathers"),
        (_WORKSPACE, "nvidia.trtexec_memory torch.workspace_buffer"),
        (_SHAPES, "nvidia.trtexec_shapes nvidia.trtexec_fp16"),
        (_LIBRARY, "cublas.workspace torch.blas_handle"),
        (_STORE, "vllm.swap_space llamacpp.cache_ram redis.maxmemory_policy"),
        (_LIMIT, "host.wsl_memory host.ulimit_memlock host.swap host.systemd_memory_max kubernetes.memory "
                 "java.max_ram_percentage torch.mps_high_watermark torch.set_per_process_memory_fraction "
                 "nvidia.rmm_pool"),
        (_DRAFTS, "sglang.speculative_num_draft_tokens"),
        (_PICTURES, "vllm.limit_mm_per_prompt"),
        (_KEPT, "torch.item torch.leave_the_handler"),
        (_STATE, "torch.sharded_checkpoint torch.full_state_on_the_host torch.to_cpu"),
        (_PIECES, "torch.max_split_size_mb torch.expandable_segments hf.pad_to_multiple"),
        (_ASLEEP, "vllm.sleep_level vllm.wake_in_two_steps"),
        (_SEQUENCES, "sglang.mamba_full_memory_ratio"),
        (_SAME_START, "vllm.enable_prefix_caching"),
        (_OF_NODE, "kubernetes.system_reserved"),
        (_RESULT, "torch.data_parallel_processes"),
        (_BLOCKS, "torch.triton_stages"),
    )
    for name in names.split()
}  # fmt: skip
_BY_KIND: dict[str, str] = {
    name: words
    for words, names in (
        (_SMALLEST, "work-upwards leave-room"),
        (_BATCH, "plan-by-the-longest smaller-step less-at-once-there"),
        (_RESULT, "gather-less loss-inside"),
        (_WEIGHTS, "smaller-model fewer-bits smaller-host-part"),
        (_HELD_BY_OTHERS, "close-programs free-the-device"),
        (_LIMIT, "loosen-the-guard clickhouse-limit"),
        (_KEPT, "smaller-results do-not-keep-elsewhere bound-the-kept-prompts"),
        (_LOADED, "one-after-another"),
        (_SHARE, "larger-pool"),
        (_SEQUENCES, "manager-on"),
        (_ENGINE, "another-engine"),
        (_TOKENS, "bound-the-conversation smaller-buffers"),
        (_DRAFTS, "without-drafts"),
        (_GRAPHS, "fewer-shapes"),
        (N_("how much the job writes"), "more-disk"),
    )
    for name in names.split()
}


def depends_on(remedy: RuleRemedy, lookup: Lookup, specs: Mapping[str, FactSpec]) -> tuple[str, ...]:
    """What the bytes of a change depend on, in words to be translated where they are shown; empty where unsaid."""
    if remedy.effect in (Effect.COUNTS, Effect.FINDS_OUT):
        return ()
    if remedy.frees is not None:
        unknown = tuple(dict.fromkeys(specs[name].meaning for name in remedy.frees.names if lookup(name) is None))
        if unknown:
            return unknown
    words = _BY_KNOB.get(remedy.set.knob) if remedy.set is not None else None
    words = words or _BY_KIND.get(remedy.id)
    return () if words is None else (words,)
