"""torch.*, command.* and what else the versions, variables and the launch line say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..knobs.misuses import ALLOCATOR_VARIABLES
from ..knobs.versions import within
from ..language import N_
from ..model.events import EventKind
from ..model.facts import FactSet, Scope
from ..model.source import Source
from ..readers.log.launch import launch_options, launch_program
from .deriver import computed
from .engine import share_of

if TYPE_CHECKING:
    from ..model.evidence import Evidence

_CONTEXT_OPTIONS = {
    "max-model-len",
    "context-length",
    "ctx-size",
    "c",
    "max-total-tokens",
    "session-len",
    "max-seq-len",
}
_OFFLOAD_OPTIONS = ("cpu-offload", "offload", "n-cpu-moe", "cpu-moe")
_PROCESS_OPTIONS = {"nproc-per-node", "num-gpus", "num-processes"}
"""How many processes a launcher starts on a machine."""
_DEVICE_OPTIONS = {"device", "device-id", "gpu-id", "cuda-device", "main-gpu"}
_DEVICE = re.compile(r"(?:cuda:)?([0-9]{1,2})")
"""`cuda:1` names a device in any option, a bare number only in one that is about a device."""
_FIRST_WITH_LARGER_SHARE = "0.20.0"
_LAST_WITH_GRAPHS_OUTSIDE, _FIRST_WITH_GRAPHS_INSIDE = "0.19.1", "0.20.2"
_CHOOSES_CONTEXT = {"vllm", "sglang", "tgi", "llama.cpp"}
"""Programs whose launch line is where a context is chosen: one that does not show it leaves it to the default."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The run's own records first, then the lines of the log, then the launch line."""
    for run in reversed(evidence.runs):
        source = Source(path=run.path, record="versions")
        facts.put("torch.version", run.versions.get("torch"), source)
        for process in run.processes:
            facts.put(
                "torch.version",
                process.torch_version,
                Source(path=run.path, record=N_("process {pid}").format(pid=process.pid)),
            )
        for name in ALLOCATOR_VARIABLES:
            facts.put("torch.allocator_settings", run.variables.get(name), Source(path=run.path, record="variables"))
    for event in reversed(evidence.of_kind(EventKind.VERSION)):
        if event.word("package") == "torch":
            facts.put("torch.version", event.word("version"), event.source)
        elif event.word("package") == facts.value("engine.name"):
            facts.put("engine.version", event.word("version"), event.source)
    _put_capacity(facts)
    if evidence.command:
        _put_command(evidence.command, facts)
    _put_defaults(evidence, facts)


def _put_capacity(facts: FactSet) -> None:
    """The largest device, and whether memory rose on any: what rules about the whole incident need of the devices."""
    names = ("oom.total_bytes", "device.total_bytes")
    sizes = [v for m in facts.members(Scope.DEVICE) for name in names if isinstance(v := facts.value(name, m), int)]
    facts.put("oom.largest_device_bytes", max(sizes, default=None), computed(*names))
    steady = [v for m in facts.members(Scope.DEVICE) if isinstance(v := facts.value("growth.steady", m), bool)]
    if steady:
        facts.put("growth.steady_on_any", any(steady), computed("growth.steady"))


def _put_defaults(evidence: Evidence, facts: FactSet) -> None:
    """What vLLM's version settles where the launch is to be seen and says nothing else."""
    version = facts.value("engine.version")
    if facts.value("engine.name") != "vllm" or version is None or "dev" in str(version):
        return
    number, source = str(version), computed("engine.version")
    if within(number, None, _LAST_WITH_GRAPHS_OUTSIDE):
        facts.put("engine.graphs_in_budget", False, source)
    elif within(number, _FIRST_WITH_GRAPHS_INSIDE, None):
        facts.put("engine.graphs_in_budget", True, source)
    options = any(event.fields.get("options") for event in evidence.of_kind(EventKind.ENGINE_START))
    if options or facts.value("command.program") == "vllm":
        facts.put("engine.utilization", default_utilization(number), source)


def default_utilization(version: str) -> float:
    """The share of the device that this vLLM takes unless it is told otherwise."""
    return 0.92 if within(version, _FIRST_WITH_LARGER_SHARE, None) else 0.9


def _put_command(command: str, facts: FactSet) -> None:
    source = Source(path="command line")
    facts.put("command.line", command, source)
    program = launch_program(command)
    facts.put("command.program", program, source)
    for word in command.split():
        name, _, value = word.partition("=")
        if name in ALLOCATOR_VARIABLES and value:
            facts.put("torch.allocator_settings", value, source)
    devices = set()
    for option, given in launch_options(command):
        name = option.replace("_", "-")
        named = _DEVICE.fullmatch(given or "")
        if named and ("cuda:" in named[0] or name in _DEVICE_OPTIONS):
            devices.add(int(named[1]))
        if name == "gpu-memory-utilization":
            facts.put("engine.utilization", share_of(given or ""), source)
        if name == "ubatch-size" and (given or "").isdecimal():
            facts.put("engine.ubatch_tokens", int(given or ""), source)
        if name in _PROCESS_OPTIONS and (given or "").isdecimal():
            facts.put("ranks.count", int(given or ""), source)
        if name in _CONTEXT_OPTIONS:
            facts.put("engine.context_set_by_user", True, source)
        if name.startswith("speculative"):
            facts.put("engine.speculative", True, source)
        if name.startswith(_OFFLOAD_OPTIONS):
            facts.put("command.offload", True, source)
    facts.put("command.device_index", devices.pop() if len(devices) == 1 else None, source)
    if program in _CHOOSES_CONTEXT:
        facts.put("engine.context_set_by_user", False, source)
