"""What a recorded stack says: whose line it is, what the memory is probably for, where in the program's loop it lies.

All but the frame itself is a guess from names, and is called so: torch records no purpose with an allocation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from ..language import N_
from ..model.snapshot import Frame


class Category(str, Enum):
    """What memory is for, guessed from the stack that allocated it."""

    WEIGHTS = "weights"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer-state"
    ACTIVATION = "activation"
    ATTENTION_SCORES = "attention-scores"
    LOGITS = "logits"
    KV_APPEND = "kv-append"
    COMMUNICATION = "communication"
    COPY = "copy-to-device"
    SAVED = "saved-for-backward"
    TEMPORARY = "temporary"
    OF_BACKWARD = "temporary-of-backward"
    OF_OPTIMIZER = "temporary-of-optimizer"
    """These four are told by when memory was freed, not by its stack."""
    OTHER = "other"
    UNKNOWN = "unknown"
    """No stack was recorded."""


CATEGORY_WORDS: Mapping[Category, str] = {
    Category.WEIGHTS: "weights",
    Category.GRADIENT: "gradients",
    Category.OPTIMIZER_STATE: N_("optimizer state"),
    Category.ACTIVATION: "activations",
    Category.ATTENTION_SCORES: N_("attention scores"),
    Category.LOGITS: "logits",
    Category.KV_APPEND: N_("keys and values"),
    Category.COMMUNICATION: N_("communication buffers"),
    Category.COPY: N_("copies to the device"),
    Category.SAVED: N_("activations saved for backward"),
    Category.TEMPORARY: N_("temporary tensors of forward passes"),
    Category.OF_BACKWARD: N_("temporary tensors of backward passes"),
    Category.OF_OPTIMIZER: N_("temporaries of the optimizer"),
    Category.OTHER: N_("live, kind not known"),
    Category.UNKNOWN: N_("live, no stack recorded"),
}

TEMPORARY = frozenset({Category.TEMPORARY, Category.OF_BACKWARD, Category.OF_OPTIMIZER})
FORWARD = frozenset({Category.ACTIVATION, Category.ATTENTION_SCORES, Category.LOGITS})
"""Categories of results of a forward pass, which autograd may keep for backward."""


def _finder(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    """Whether the pattern is in a text. Thousands of stacks share few files and functions: each is searched once."""
    search = re.compile(pattern, flags).search

    @lru_cache(maxsize=1 << 14)
    def finds(text: str) -> bool:
        return search(text) is not None

    return finds


_in_torch = _finder(r"(?:^|/)torch/(?:_|nn/|optim/|utils/|autograd/|distributed/|cuda/|amp/|fx/|\w+\.py$)")
_in_library = _finder(r"site-packages/|dist-packages/|lib/python\d|lib64/python\d|^<frozen|torchinductor_|/pytorch/")
_is_layer_file = _finder(r"(?:^|/)torch/nn/modules/")
_MODULE_CALL = "_call_impl"
_MODULE_WRAPPERS = frozenset({_MODULE_CALL, "_wrapped_call_impl"})

_is_optimizer_file = _finder(r"/optim/|optim\w*\.py$|/apex/optimizers/|bitsandbytes/optim|adam\w*\.py$")
_is_optimizer_function = _finder(r"^(?:step|_init_group|init_state|_multi_tensor_\w+|_single_tensor_\w+|_foreach_\w+)$")
_makes_state = _finder(r"^(?:_init_group|init_state)$")
_communicates = _finder(
    r"torch/distributed/|^c10d::|::ProcessGroup|all_?reduce|all_?gather|reduce_?scatter|all_to_all|broadcast_coalesced",
    re.IGNORECASE,
)
_is_weights_function = _finder(
    r"^(?:_apply|_load_from_state_dict|load_state_dict|_load_state_dict_into_\w+|load_weights?|load_model|from_pretrained|"
    r"create_weights|reset_parameters|init_weights|_init_weights|materialize\w*|set_module_tensor_to_device|to_empty|"
    r"load_checkpoint\w*|convert_module_\w+)$"
)
_names_keys_values = _finder(
    r"(?:^|[_\W])(?:kv|kvs|past|cache|caches)(?:[_\W]|$)|kvcache|kv_?cache|cache_utils", re.IGNORECASE
)
_only_speaks_of_keys_values = _finder(
    r"(?:repeat|expand|split|unbind|project|proj|norm|quantize)_?(?:q?kvs?)(?:[_\W]|$)|kv_?(?:proj|norm|heads?|groups?)|"
    r"cos_?sin|rotary|rope|freqs|mask|empty_cache|lru_cache",
    re.IGNORECASE,
)
"""What a pass works out of keys and values anew (`repeat_kv`), or caches of other things (`_set_cos_sin_cache`)."""
_names_prefill = _finder(r"^forward_extend$|(?:^|_)prefill(?:_|$)")
_names_decode = _finder(r"(?:^|_)decode(?:_|$)")
_is_no_language_model = _finder(r"vae|autoencoder|image|video|audio|token|codec|vocoder", re.IGNORECASE)
_starts_engine = _finder(
    r"^(?:profile_run|_dummy_run|determine_available_memory|determine_num_available_blocks|compile_or_warm_up_model|"
    r"capture_model|init_memory_pool)$"
)
_names_attention = _finder(r"attention|attn|sdpa", re.IGNORECASE)
_names_scores = _finder(
    r"softmax|scaled_dot_product|scores|attention_probs|\battention$|eager_attention", re.IGNORECASE
)
_names_logits = _finder(r"cross_entropy|log_softmax|logits|logprob|lm_head|nll_loss", re.IGNORECASE)
_is_copy = _finder(r"^(?:to|cuda|_to_copy|copy_|to_device|send_to_device|move_to_device|_prepare_inputs?|pin_memory)$")
_NEAREST = 4
"""How many of the innermost frames outside torch decide what an operation in a forward pass is."""


@dataclass(frozen=True)
class StackReading:
    """One stack, read."""

    owner: str
    """`file:line in function` of the user's innermost frame, or in words what stands in its place."""
    category: Category
    in_module: bool
    """Inside a call of an nn.Module."""
    gradients_off: bool
    """Under a function that torch's no_grad or inference_mode decorates."""
    position: tuple[Frame, ...]
    """Frames outside of nested module calls, outermost first: where the program's own loop stands."""
    named_phase: str = ""
    """'prefill', 'decode' or 'load' (an engine that starts) where functions are called so; else empty."""
    generates: bool = False
    """Under a function called `generate`: without gradients a forward pass there makes a token."""
    accumulates: bool = False
    """Autograd adds to a parameter's gradient there."""
    constructed: bool = False
    """No better reason for weights than that a constructor of the program allocated it: a record of each turn, or a
    cache, has a constructor as well."""
    makes_state: bool = False
    """An optimizer makes the state of its parameters there."""
    runs_again: bool = False
    """In a thread that torch started: backward runs a checkpointed layer again."""


def read_stack(stack: tuple[Frame, ...]) -> StackReading:
    """Read a stack, innermost frame first."""
    python = python_frames(stack)
    frame = _users_frame(python)
    if frame is not None:
        owner = describe(frame)
    elif any("torch::autograd::" in native.function for native in stack):
        owner = N_("backward pass (autograd thread)")
    else:
        owner = N_("native code without a Python frame")
    calls = sum(frame.function == _MODULE_CALL for frame in python)
    category = _category(stack, python, calls > 0)
    return StackReading(
        owner=owner,
        category=category,
        in_module=calls > 0,
        gradients_off=any(f.function == "decorate_context" and _in_torch(f.file) for f in python),
        position=_position(python),
        named_phase=_named_phase(python),
        generates=any(frame.function == "generate" and not _in_torch(frame.file) for frame in python),
        accumulates=any("AccumulateGrad" in native.function for native in stack),
        constructed=category is Category.WEIGHTS and not any(_loads_weights(frame) for frame in python),
        makes_state=any(_is_optimizer_file(f.file) and _makes_state(f.function) for f in python),
        runs_again=_is_of_torchs_thread(python),
    )


def is_python(frame: Frame) -> bool:
    """A frame of Python code (a file, a notebook's cell, standard input), not of native code."""
    return _is_python_file(frame.file)


@lru_cache(maxsize=1 << 14)
def _is_python_file(file: str) -> bool:
    return file.endswith(".py") or (file.startswith("<") and file.endswith(">"))


def is_torch(frame: Frame) -> bool:
    """A frame of torch's own Python code."""
    return _in_torch(frame.file)


def python_frames(stack: tuple[Frame, ...]) -> list[Frame]:
    """The frames of Python code, innermost first."""
    return [frame for frame in stack if is_python(frame)]


def users_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The innermost Python frame outside torch, installed packages and the standard library.

    Where all frames are a library's, its innermost one outside torch; None where no frame is Python.
    """
    return _users_frame(python_frames(stack))


def _users_frame(python: list[Frame]) -> Frame | None:
    outside_torch = [frame for frame in python if not is_torch(frame)]
    own = [frame for frame in outside_torch if not _in_library(frame.file)]
    return next(iter(own or outside_torch or python), None)


def describe(frame: Frame) -> str:
    """`model.py:29 in forward`."""
    return f"{frame.file}:{frame.line} in {frame.function}"


def _category(stack: tuple[Frame, ...], python: list[Frame], in_module: bool) -> Category:
    """The first of these that any frame names; inside a module, the nearest frames outside torch decide."""
    if any(_communicates(frame.file) or _communicates(frame.function) for frame in stack):
        return Category.COMMUNICATION
    if any(_is_optimizer_file(f.file) and _is_optimizer_function(f.function) for f in python):
        return Category.OPTIMIZER_STATE
    if not python:
        autograd = any("torch::autograd::" in frame.function for frame in stack)
        return Category.GRADIENT if autograd else Category.OTHER
    if any(frame.function == "backward" and _in_torch(frame.file) for frame in python):
        return Category.GRADIENT
    nearest = [frame for frame in python if not _in_torch(frame.file)][:_NEAREST]
    # The program's own file may be called after what it tries out.
    program = python[-1].file
    if not in_module and any(frame.function == "__init__" and _is_layer_file(frame.file) for frame in python):
        return Category.WEIGHTS
    if any(
        _appends_keys_values(f.function) or (f.file != program and _appends_keys_values(_stem(f.file))) for f in nearest
    ) and not any(_only_speaks_of_keys_values(f.function) for f in nearest[:1]):
        return Category.KV_APPEND
    if not in_module and any(_makes_weights(frame) for frame in python):
        return Category.WEIGHTS
    if any(_names_logits(frame.function) for frame in python[:_NEAREST]):
        return Category.LOGITS
    if any(_names_scores(frame.function) for frame in python[:2]) and any(
        _names_attention(frame.function) or _names_attention(_stem(frame.file)) for frame in nearest
    ):
        return Category.ATTENTION_SCORES
    if in_module or any(frame.function == "forward" for frame in python):
        return Category.ACTIVATION
    if any(_is_copy(frame.function) for frame in python[:_NEAREST]):
        return Category.COPY
    return Category.OTHER


def _appends_keys_values(name: str) -> bool:
    return _names_keys_values(name) and not _only_speaks_of_keys_values(name)


def _named_phase(python: list[Frame]) -> str:
    """By the innermost frame outside torch whose function is called after a phase of an engine."""
    for frame in python:
        phase = _phase_called(frame.function)
        if not phase or _in_torch(frame.file) or _is_no_language_model(_stem(frame.file)):
            continue
        # An engine that starts tries both out.
        starts = phase != "load" and any(_starts_engine(outer.function) for outer in python)
        return "load" if starts else phase
    return ""


@lru_cache(maxsize=1 << 14)
def _phase_called(function: str) -> str:
    """The phase that a function is called after; empty for none."""
    named = ((_starts_engine, "load"), (_names_prefill, "prefill"), (_names_decode, "decode"))
    return next((phase for names, phase in named if names(function)), "")


def _is_of_torchs_thread(python: list[Frame]) -> bool:
    return bool(python) and _in_torch(python[-1].file)


def _makes_weights(frame: Frame) -> bool:
    return frame.function == "__init__" or _is_weights_function(frame.function)


def _loads_weights(frame: Frame) -> bool:
    return _is_layer_file(frame.file) or _is_weights_function(frame.function)


def _stem(file: str) -> str:
    return file.rsplit("/", 1)[-1].removesuffix(".py")


def _position(python: list[Frame]) -> tuple[Frame, ...]:
    """From the outermost frame to that of the outermost module's own code, without the frames of module calls.

    A loop in there goes over steps or requests; one further in goes over the layers of a single forward pass. Nor does
    a thread that torch started (autograd's, which runs checkpointed layers again) stand in the program's loop.
    """
    if _is_of_torchs_thread(python):
        return ()
    found, calls = [], 0
    for frame in reversed(python):
        if frame.function == _MODULE_CALL:
            calls += 1
            if calls == 2:
                break
        if frame.function not in _MODULE_WRAPPERS:
            found.append(frame)
    return tuple(found)
