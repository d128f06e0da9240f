"""What may be written of the environment and of a stream: secrets are masked as the probe masks them.

The variables go by an allow-list of names; a stream is masked line by line as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..probe.site._oomdoctor_probe.masking import MASK, is_secret_name, mask_bytes, mask_command, mask_text

__all__ = ["MASK", "StreamMasker", "is_secret_name", "mask_command", "mask_environment", "mask_text"]

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


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that bear on memory, by an allow-list of names, with what looks like a secret masked."""
    return {
        name: MASK if is_secret_name(name) else mask_text(value)
        for name, value in sorted(environment.items())
        if _SHOWN_VARIABLES.fullmatch(name)
    }


class StreamMasker:
    """Masks a stream of bytes piece by piece: a piece is given out when its line is whole, or on `rest` and `flush`.

    Of a line that is given out in parts, a part is masked with what stands before it in view: a name and its value are
    known for what they are however long the program rests between them. A word is not parted unless by `flush`.
    """

    _LONGEST_LINE = 64 << 10
    _LONGEST_WORD = 8 << 10
    _IN_VIEW = 4 << 10

    def __init__(self) -> None:
        self._rest = b""
        self._before = b""
        """The end of what has been given out of a line that goes on."""
        self._inside_key = False
        self._rests = False

    @property
    def holds_line(self) -> bool:
        """Whether an unfinished line is held back that `rest` would give out."""
        return bool(self._rest) and not self._rests

    def feed(self, data: bytes) -> bytes:
        """The masked form of all the lines that are now whole (a carriage return ends one too: progress bars)."""
        self._rests = False
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > self._LONGEST_LINE:
            word = max(data.rfind(b" ", -self._LONGEST_WORD), data.rfind(b",", -self._LONGEST_WORD))
            end = word if word > end else len(data)
        self._rest = data[end:]
        return self._mask(data[:end])

    def rest(self) -> bytes:
        """The masked form of the unfinished line but for its last word, which may be a secret's beginning."""
        end = max(self._rest.rfind(blank, -self._LONGEST_WORD) for blank in (b" ", b"\t")) + 1
        if not end and len(self._rest) > self._LONGEST_WORD:
            end = len(self._rest)
        given, self._rest, self._rests = self._rest[:end], self._rest[end:], True
        return self._mask(given)

    def flush(self) -> bytes:
        """The masked form of the unfinished line, at the end."""
        rest, self._rest = self._rest, b""
        return self._mask(rest)

    def _mask(self, data: bytes) -> bytes:
        if not data:
            return b""
        before = b"" if self._inside_key else self._before
        masked, self._inside_key = mask_bytes(before + data, self._inside_key, given=len(before))
        self._before = b"" if data.endswith((b"\n", b"\r")) else (before + data)[-self._IN_VIEW :]
        return masked
