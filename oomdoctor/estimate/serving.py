"""Whether an engine is known to serve a family at all: what fits may still not start.

vLLM 0.33's registry and its list of models that it served before (`model_executor/models/registry.py`), SGLang 0.5.23's
`EntryClass`es, the classes of transformers 5.24, and llama.cpp's converter. Of encoder-decoders vLLM dropped all but
Whisper with its first engine (vllm-project/vllm#24907).
"""

from __future__ import annotations

from ..language import _
from .architecture import Architecture
from .attention_config import ENCODER_DECODERS
from .engines import LLAMA_CPP, SGLANG, TRANSFORMERS, VLLM, Engine
from .families import HEAD_WIDTH_IS_A_SHARE, KNOWN, KNOWN_TO_GGUF

_VLLM_HAS_NONE = frozenset(
    ("apertus1p5_text", "aria_text", "biogpt", "bitnet", "codegen", "ctrl", "diffllama", "doge", "gemma4_unified_text",
     "gpt_neo", "helium", "imagegpt", "jetmoe", "lara_mini", "lfm3", "minimax_m3_vl_text", "ministral", "nanochat",
     "openai-gpt", "recurrent_gemma", "solar_open", "xglm", "xlnet", "youtu")
)  # fmt: skip
_VLLM_HAD = {
    "bamba": "0.23", "baichuan": "0.23", "bart": "0.10.2", "dots1": "0.23", "mbart": "0.10.2", "minimax": "0.23",
    "mllama_text_model": "0.10.2", "mpt": "0.28", "persimmon": "0.25", "phi3small": "0.9.2", "qwen": "0.23",
}  # fmt: skip
"""The last version that served the family."""
_SGLANG_HAS_NONE = frozenset(
    ("apertus1p5_text", "aria_text", "axk1", "bamba", "biogpt", "bitnet", "bloom", "codegen", "ctrl", "cwm",
     "diffllama", "doge", "dots1", "falcon", "flex_olmo", "flint", "gemma4_unified_text", "glm", "gpt_neo", "gpt_neox",
     "helium", "hyperclovax", "imagegpt", "jais2", "jamba", "jetmoe", "kolibri1", "lara_mini", "lfm3", "minimax",
     "minimax_m3_vl_text", "ministral", "mpt", "nanochat", "nemotron", "olmo3", "olmo_hybrid", "openai-gpt",
     "recurrent_gemma", "seed_oss", "smollm3", "solar_open", "vaultgemma", "xglm", "xlnet", "youtu", "zamba2")
)  # fmt: skip
_TRANSFORMERS_HAS_NONE = frozenset(("baichuan", "chatglm", "kimi_k2", "phi3small", "qwen"))
_CONVERTED = frozenset(
    ("apertus", "arcee", "baichuan", "bitnet", "bloom", "chatglm", "codeshell", "cohere", "cohere2", "dbrx",
     "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "falcon", "falcon_h1",
     "falcon_mamba", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n_text", "glm4", "glm4_moe", "gpt2",
     "gpt_bigcode", "gpt_neox", "gpt_oss", "granite", "granitemoe", "granitemoehybrid", "granitemoeshared",
     "hunyuan_v1_dense", "internlm3", "jais", "jamba", "kimi_k2", "lfm2", "lfm2_moe", "llama", "llama4", "llama4_text",
     "mamba", "mamba2", "minicpm", "minicpm3", "minimax_m2", "ministral3", "mistral", "mixtral", "mpt", "nemotron",
     "nemotron_h", "olmo", "olmo2", "olmo3", "olmoe", "openelm", "orion", "phi", "phi3", "phimoe", "plamo",
     "qwen", "qwen2", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen3", "qwen3_5",
     "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "seed_oss", "smollm3", "stablelm",
     "starcoder2", "t5", "umt5", "xverse", "deepseek", "internlm2", "bailing_moe", "mimo")
)  # fmt: skip
"""Families that llama.cpp's converter takes, by transformers' names."""


def not_served(engine: Engine, architecture: Architecture, *, gguf: bool) -> str | None:
    """Why the engine is not known to serve the family, in words; None where it is known to."""
    family = architecture.family
    if engine is TRANSFORMERS:
        return _of_transformers(family, gguf=gguf)
    if engine is LLAMA_CPP:
        return _of_llama_cpp(family, gguf=gguf)
    if gguf:
        return _("whether {engine} runs this GGUF file is not known here").format(engine=engine.name)
    return _of_vllm(family) if engine is VLLM else _of_sglang(family) if engine is SGLANG else None


def _of_vllm(family: str) -> str | None:
    if family == "whisper":
        return None
    last = _VLLM_HAD.get(family)
    if family in ENCODER_DECODERS or family == "mllama_text_model":
        before = _(" ({version} was the last with {family})").format(version=last, family=family) if last else ""
        return _("vLLM serves no {family}: of encoder-decoders it has had only Whisper since 0.11{before}").format(
            family=family, before=before
        )
    if last is not None:
        return _("vLLM has no class for {family} any more: {version} was the last with one").format(
            family=family, version=last
        )
    if family in _VLLM_HAS_NONE:
        return _without_class("vLLM 0.33", family)
    return None if family in KNOWN | HEAD_WIDTH_IS_A_SHARE else _unknown("vLLM", family)


def _of_sglang(family: str) -> str | None:
    if family in ENCODER_DECODERS and family != "whisper":
        return _("SGLang serves no {family}: of encoder-decoders it has only Whisper").format(family=family)
    if family in _SGLANG_HAS_NONE:
        return _without_class("SGLang 0.5.23", family)
    return None if family in KNOWN else _unknown("SGLang", family)


def _unknown(engine: str, family: str) -> str:
    return _("whether {engine} serves {family} is not known here").format(engine=engine, family=family)


def _without_class(engine: str, family: str) -> str:
    return _(
        "{engine} has no class of its own for {family}; whether its fallback to transformers runs it is not known here"
    ).format(engine=engine, family=family)


def _of_transformers(family: str, *, gguf: bool) -> str | None:
    if gguf:
        return _("transformers unpacks a GGUF file into floats as it loads it: the bytes counted are the file's")
    if family in _TRANSFORMERS_HAS_NONE or family not in KNOWN:
        return _(
            "transformers 5.24 is not known to have a class for {family}; it may need the model's own code"
        ).format(family=family)
    return None


def _of_llama_cpp(family: str, *, gguf: bool) -> str | None:
    if family in ("t5", "umt5"):
        return _("llama.cpp runs {family} in its command line, its server does not serve encoder-decoders").format(
            family=family
        )
    if family not in (KNOWN_TO_GGUF if gguf else _CONVERTED):
        return _("llama.cpp is not known here to run {family}").format(family=family)
    return None
