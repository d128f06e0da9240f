"""What a stack frame says about the work in hand: which phase it belongs to, which kind of operation asks for memory.

Frames are classified by what the code does (its text, function and file), never by a project's name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..model.events import LogEvent
from ..model.run import StackFrame
from .frame_calls import computes
from .frame_signs import EVALUATING, OPERATIONS, PHASES

_LIBRARY = re.compile(
    r"site-packages|dist-packages|lib/python\d|lib64/python\d|<frozen|^\.\.\./(?:torch|transformers|tensorflow|jax|numpy)/"
)


_PACKAGE = re.compile(r"(?:site-packages|dist-packages|^\.\.\.)/(\w+)/")


_TRAINER = re.compile(r"(?:^|/)transformers/trainer\w*\.py$|(?:^|/)(?:trl|axolotl|llamafactory)/")

_EVALUATES = re.compile(EVALUATING, re.IGNORECASE)

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
_RESTORES = re.compile(
    r"torch/serialization\.py\|(?:_cuda_deserialize|_deserialize|_hpu_deserialize|default_restore_location)\|"
)
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
        for sign in OPERATIONS:
            if sign.pattern.search(text) and not (inside_module and sign.name not in _PLACES):
                return _of_part(sign.name, frame, frames)
        forward = frame.function == "forward"
        inside_module = inside_module or (forward and not _TORCH.search(frame.file))
        in_forward = in_forward or forward
    return "activation" if in_forward or computes(frames) else None


def _of_part(name: str, frame: StackFrame, frames: Iterable[StackFrame]) -> str:
    """A part's name, unless it is being made; an autoencoder's own layers are of either half, as the callers tell."""
    if frame.function == "__init__" and name in _PARTS:
        return "weights"
    if name != "decoder" or frame.function != "forward":
        return name
    if any(_ENCODES.search(_text(each)) for each in frames):
        return "encoder"
    return "activation" if is_training(frames) else name


_ENCODES = re.compile(r"\|_?(?:tiled_)?encode\||\bvae\w*\.encode\(|\|encode_first_stage\|")


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
    return next((sign.name for sign in PHASES if any(sign.pattern.search(text) for text in texts)), None)


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
