"""Masks secrets before anything is written: in the command line, the environment and printed text.

Secrets are known by their shape (`hf_…`, `AKIA…`, a JWT, a private key), by the name they are given under
(`--api-key …`, `PASSWORD=…`, `"client_secret": "…"`, `Authorization: …`) or by their place in a URL
(`https://user:secret@host`). Every pattern has bounded repeats or starts only at
a boundary: the time is linear in the text.
A name such as `max_tokens` or `eos_token` is no secret; a memory log is full of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

MASK = "<masked>"
_MASK = MASK.encode()
_WORD_BEFORE = re.compile(rb"[a-z0-9_.-]{0,40}\Z")

# Searched in the lower-cased bytes. Each begins with plain letters, which the engine skips to quickly; what stands
# before the word (`hf_` token, not `eos_` token) is looked at only where the rest fits.
_NAMED = re.compile(
    rb"(?:password|passwd|passphrase|pwd|secret|key|token|credential)(?P<tail>[a-z0-9_-]{0,20})[\"']?"
    rb"(?P<joint>[ \t]{0,3}[=:][ \t]{0,3}|[ \t]{1,3})[\"']?(?P<value>[^\s\"',;&<>]{4})"
)
_VALUE = re.compile(rb"[^\s\"',;&<>]*")
_AUTHORIZATION = re.compile(
    rb"authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
    rb"(?:(?:bearer|basic|token|digest)[ \t]{1,3})?(?P<value>[^\s\"',<]{4,4096})"
)
_BEARER = re.compile(rb"bearer[ \t]{1,3}(?P<value>[a-z0-9._~+/=-]{16,4096})")
_NAME_HINTS = (b"passw", b"passphrase", b"pwd", b"secret", b"key", b"token", b"credential")
_URL = re.compile(rb"://(?P<value>[^\s/@'\"]{1,512})@")
_SHAPES = re.compile(
    rb"(?<![A-Za-z0-9_-])(?P<value>"
    rb"hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    rb"|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    rb"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{20,}"
    rb"|dckr_pat_[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    rb")"
)
_SHAPE_HINTS = (
    *(
        b"hf_",
        b"sk-",
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
        b"github_pat_",
        b"glpat-",
        b"xox",
        b"AKIA",
        b"ASIA",
        b"AIza",
    ),
    *(b"ya29.", b"eyJ", b"npm_", b"pypi-", b"dckr_pat_", b"nvapi-", b"gsk_", b"r8_"),
)
_KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(rb"-----END [A-Z ]{0,40}PRIVATE KEY-----")

_OWNERS_OF_KEYS = "api|access|private|account|auth|secret|encryption|signing|master|service|subscription|ssh"
_OWNERS_OF_TOKENS = (
    "hf|hub|huggingface|github|gh|gitlab|auth|access|api|bearer|refresh|session|security|wandb|slack|bot|personal|private|deploy"
    "|service|identity|oauth|jwt|csrf|registry|vault|discord|telegram|modelscope|neptune|clearml|secret"
)
_SECRET_NAME = re.compile(
    rf"password|passwd|passphrase|(?:^|[_-])pwd|secret|credential|(?:^|[_.-])(?:{_OWNERS_OF_KEYS})[_-]?key(?![a-z])"
    rf"|(?:^|[_.-])(?:{_OWNERS_OF_TOKENS})[_-]?token(?![a-z])|^-{{0,2}}token(?![a-z_-])"
)

_SHOWN_VARIABLES = re.compile(
    r"(?:CUDA|PYTORCH|TORCH|NCCL|TRITON|VLLM|SGLANG|SGL|LMDEPLOY|TRTLLM|TLLM|TGI|OLLAMA|LLAMA|GGML|GGUF|MLX|MLC|XLA|JAX|DS|DEEPSPEED"
    r"|ACCELERATE|FSDP|MEGATRON|RAY|SLURM|OMP|MKL|OPENBLAS|NUMEXPR|MALLOC|HIP|ROCR|HSA|AMD|MIOPEN|ASCEND|NEURON|TPU|XPU|ZE|SYCL"
    r"|TORCHELASTIC|TORCHINDUCTOR|UNSLOTH|AXOLOTL|BNB|FLASH|XFORMERS|PL|LIGHTNING|OMPI_COMM|PMI|FLASHINFER|LMCACHE)_[A-Z0-9_]+"
    # TensorFlow's by name: Terraform's begin with TF_ as well, and TF_VAR_ holds what one puts there.
    r"|TF_(?:GPU|CPU|CUDNN|CUDA|XLA|NUM|ENABLE|FORCE|CPP_MIN)_[A-Z0-9_]+"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|MASTER_ADDR|MASTER_PORT|NVIDIA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL"
    r"|LD_PRELOAD|PYTHONMALLOC|PYTHONPATH|PYTHONUNBUFFERED|PYTHONNOUSERSITE|PYTHONSAFEPATH|VIRTUAL_ENV|CONDA_DEFAULT_ENV"
    r"|TOKENIZERS_PARALLELISM|HF_HOME|HF_HUB_OFFLINE|TRANSFORMERS_CACHE|KUBERNETES_SERVICE_HOST|TMPDIR"
)


def mask_text(text: str) -> str:
    """`text` with every known kind of secret replaced by `<masked>`; its lines stay in place."""
    masked, _ = _mask_from(text.encode("utf-8", "surrogateescape"), inside_key=False)
    return masked.decode("utf-8", "surrogateescape")


def mask_command(command: Sequence[str]) -> tuple[str, ...]:
    """A command line with the values of secret options masked, whether joined by `=` or the next word."""
    masked: list[str] = []
    follows_secret = False
    for word in command:
        if follows_secret and not word.startswith("-"):
            masked.append(MASK)
            follows_secret = False
            continue
        follows_secret = word.startswith("-") and "=" not in word and " " not in word and is_secret_name(word)
        masked.append(mask_text(word))
    return tuple(masked)


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that bear on memory, by an allow-list of names, with what looks like a secret masked."""
    return {
        name: MASK if is_secret_name(name) else mask_text(value)
        for name, value in sorted(environment.items())
        if _SHOWN_VARIABLES.fullmatch(name)
    }


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of this name holds a secret."""
    return _SECRET_NAME.search(name.lower()) is not None


class StreamMasker:
    """Masks a stream of bytes piece by piece: a piece is given out when its line is whole, or on `flush`."""

    _LONGEST_LINE = 64 << 10

    def __init__(self) -> None:
        self._rest = b""
        self._inside_key = False

    @property
    def holds_line(self) -> bool:
        """Whether an unfinished line is held back."""
        return bool(self._rest)

    def feed(self, data: bytes) -> bytes:
        """The masked form of all the lines that are now whole (a carriage return ends one too: progress bars)."""
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > self._LONGEST_LINE:
            end = len(data)
        self._rest = data[end:]
        return self._mask(data[:end])

    def flush(self) -> bytes:
        """The masked form of the unfinished line."""
        rest, self._rest = self._rest, b""
        return self._mask(rest)

    def _mask(self, data: bytes) -> bytes:
        if not data:
            return b""
        masked, self._inside_key = _mask_from(data, self._inside_key)
        return masked


def _mask_from(data: bytes, inside_key: bool) -> tuple[bytes, bool]:
    """Mask bytes that begin inside a private key or not, and say whether they end inside one."""
    if not inside_key and b"PRIVATE KEY" not in data:
        return _mask_plain(data), False
    pieces: list[bytes] = []
    position = 0
    while True:
        if inside_key:
            end = _KEY_END.search(data, position)
            if end is None:
                return b"".join(pieces) + _MASK + (b"\n" if data.endswith(b"\n") else b""), True
            pieces.append(_MASK + b"\n")
            position = end.start()
        begin = _KEY_BEGIN.search(data, position)
        stop = len(data) if begin is None else begin.end()
        pieces.append(_mask_plain(data[position:stop]))
        if begin is None:
            return b"".join(pieces), False
        pieces.append(b"\n")
        position, inside_key = stop, True


def _mask_plain(data: bytes) -> bytes:
    """Mask all but private keys."""
    spans: list[tuple[int, int]] = []
    lower = data.lower()  # bytes: only ASCII letters change, so places stay the same
    if b"authorization" in lower:
        spans += (match.span("value") for match in _AUTHORIZATION.finditer(lower))
    if b"bearer" in lower:
        spans += (match.span("value") for match in _BEARER.finditer(lower))
    if any(hint in lower for hint in _NAME_HINTS):
        spans += _named_values(lower)
    if b"://" in data and b"@" in data:
        spans += (match.span("value") for match in _URL.finditer(data))
    if any(hint in data for hint in _SHAPE_HINTS):
        spans += (match.span("value") for match in _SHAPES.finditer(data))
    if not spans:
        return data
    pieces: list[bytes] = []
    position = 0
    for start, stop in sorted(spans):
        if start >= position:
            pieces += (data[position:start], _MASK)
        position = max(position, stop)
    pieces.append(data[position:])
    return b"".join(pieces)


def _named_values(lower: bytes) -> Iterator[tuple[int, int]]:
    """Where the values of named secrets lie. What follows the name of something else is searched again for names."""
    position = 0
    while match := _NAMED.search(lower, position):
        position = match.start("value")
        if _names_secret(match):
            rest = _VALUE.match(lower, position)
            stop = rest.end() if rest else match.end()
            yield position, stop
            position = stop


def _names_secret(match: re.Match[bytes]) -> bool:
    """Whether the word around a match of `_NAMED` is the name of a secret, and one that is followed by its value."""
    before = _WORD_BEFORE.search(match.string, max(0, match.start() - 40), match.start())
    prefix = before[0] if before else b""
    if not match["joint"].strip() and not prefix.startswith(b"-") and not match[0].startswith(b"-"):
        return False  # only an option's value follows after a space
    return is_secret_name((prefix + match.string[match.start() : match.end("tail")]).decode("ascii", "replace"))
