"""torch.*, command.* and what else the versions, variables and the launch line say."""

from __future__ import annotations

from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.source import Source
from .deriver import computed

_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_PROGRAMS = (
    ("torchrun", "torchrun"),
    ("torch.distributed", "torchrun"),
    ("accelerate", "accelerate"),
    ("deepspeed", "deepspeed"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("text-generation-launcher", "tgi"),
    ("llama-", "llama.cpp"),
    ("ollama", "ollama"),
    ("python", "python"),
)
_CONTEXT_OPTIONS = (
    "--max-model-len",
    "--max_model_len",
    "--context-length",
    "--ctx-size",
    "-c",
    "--max-total-tokens",
    "--session-len",
    "--max_seq_len",
)
_OFFLOAD_WORDS = ("--cpu-offload", "cpu_offload", "--offload", "offload_folder", "enable_model_cpu_offload", "--fit")


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The run's own records first, then the lines of the log, then the launch line."""
    for run in reversed(evidence.runs):
        source = Source(path=run.path, record="versions")
        facts.put("torch.version", run.versions.get("torch"), source)
        for process in run.processes:
            facts.put("torch.version", process.torch_version, Source(path=run.path, record=f"process {process.pid}"))
        for name in _ALLOCATOR_VARIABLES:
            facts.put("torch.allocator_settings", run.variables.get(name), Source(path=run.path, record="variables"))
    for event in reversed(evidence.of_kind(EventKind.VERSION)):
        if event.word("package") == "torch":
            facts.put("torch.version", event.word("version"), event.source)
        elif event.word("package") == facts.value("engine.name"):
            facts.put("engine.version", event.word("version"), event.source)
    _put_capacity(facts)
    if evidence.command:
        _put_command(evidence.command, facts)


def _put_capacity(facts: FactSet) -> None:
    """The largest device, and whether memory rose on any: what rules about the whole incident need of the devices."""
    names = ("oom.total_bytes", "device.total_bytes")
    sizes = [v for m in facts.members(Scope.DEVICE) for name in names if isinstance(v := facts.value(name, m), int)]
    facts.put("oom.largest_device_bytes", max(sizes, default=None), computed(*names))
    steady = [v for m in facts.members(Scope.DEVICE) if isinstance(v := facts.value("growth.steady", m), bool)]
    if steady:
        facts.put("growth.steady_on_any", any(steady), computed("growth.steady"))


def _put_command(command: str, facts: FactSet) -> None:
    """Flags pasted with typographic dashes are read as dashes."""
    source = Source(path="command line")
    facts.put("command.line", command, source)
    words = command.replace("–", "--").replace("—", "--").split()
    text = " ".join(words)
    facts.put("command.program", next((name for word, name in _PROGRAMS if word in text), "other"), source)
    for word in words:
        name, _, value = word.partition("=")
        if name in _ALLOCATOR_VARIABLES and value:
            facts.put("torch.allocator_settings", value, source)
        if name in _CONTEXT_OPTIONS:
            facts.put("engine.context_set_by_user", True, source)
        if name.startswith("--speculative"):
            facts.put("engine.speculative", True, source)
        if any(name.startswith(option) for option in _OFFLOAD_WORDS):
            facts.put("command.offload", True, source)
    if facts.value("command.program") in ("vllm", "sglang", "tgi", "llama.cpp"):
        facts.put("engine.context_set_by_user", False, source)
