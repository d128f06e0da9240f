"""What weights take that an engine casts or quantises while it loads them."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InputRefused
from ..language import _
from .dtypes import element_type
from .engines import Engine
from .model_input import Model, loaded_as
from .parameters import quantised_parts

_QUANTISED_AT_LOAD = ("fp8",)
"""Methods by which an engine quantises weights that are stored as floats, and whose bytes are known here."""
_SAME = {"awq_marlin": "awq", "gptq_marlin": "gptq", "fbgemm_fp8": "fp8"}
"""Names of kernels for weights of another method."""


def as_engine_loads(model: Model, engine: Engine) -> Model:
    """Where no type is named: vLLM and SGLang load float32 in 16 bits."""
    wide = model.dtype.block_bytes == 4 and not model.gguf and model.weights_known != "measured"
    return loaded_as(model, element_type("float16")) if engine.queues and wide else model


def quantised_at_load(model: Model, method: str) -> Model:
    """The model as `--quantization` of an engine has it. Raises InputRefused for what is not known here.

    A method that the files already follow changes nothing.
    """
    named = _SAME.get(method, method)
    if model.quantization is not None:
        if _SAME.get(model.quantization, model.quantization) in (named, named.replace("-", "_")):
            return model
        raise InputRefused(
            _("{path}: its weights are stored as {stored}, not as {method}").format(
                path=model.path, stored=model.quantization, method=method
            )
        )
    if named not in _QUANTISED_AT_LOAD or model.parameters is None or model.gguf or model.floats is None:
        raise InputRefused(
            _("what weights take that are quantised as {method} while they are loaded is not known here").format(
                method=method
            )
        )
    parts = quantised_parts(model.architecture, model.parameters, {"quant_method": named})
    assert parts is not None
    inside, plain = parts
    return replace(
        model, weights_bytes=inside + model.dtype.bytes_of(plain), floats=(model.dtype.bytes_of(plain), plain),
        quantization=named, weights_known="assumed", shares=None,
        weights_source=_("{source}, quantised as {method}").format(source=model.weights_source, method=named),
    )  # fmt: skip
