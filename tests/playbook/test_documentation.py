"""Every remedy says where it is documented, at an address of a form that the site is known to have.

Looked up in stored copies of the sites on 2026-11-30: vLLM's pages end in a slash since 0.11 (`.html` before), SGLang's
documentation lies under docs.sglang.io/docs, transformers' page on big models is part of that on models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from oomdoctor.knobs.load import load_knobs
from oomdoctor.playbook.load import default_rules_directory, load_playbook

PLAYBOOK = load_playbook([default_rules_directory()])
FORMS = {
    "slurm.schedmd.com": r"/\w+\.html",
    "deepspeed.readthedocs.io": r"/en/latest/[\w-]+\.html",
    "developer.apple.com": r"/documentation/metal/[\w/]+",
    "eclipse.dev": r"/openj9/docs/\w+/?",
    "nodejs.org": r"/api/cli\.html",
    "spark.apache.org": r"/docs/latest/\w+\.html",
    "clickhouse.com": r"/docs/operations/settings/[\w-]+",
    "redis.io": r"/docs/latest/develop/reference/\w+/",
    "docs.docker.com": r"/(engine|reference)/[\w/]+/",
    "docs.flashinfer.ai": r"/api/\w+\.html",
    "docs.jax.dev": r"/en/latest/[\w-]+\.html",
    "docs.kernel.org": r"/admin-guide/[\w/-]+\.html",
    "docs.nvidia.com": r"/(cuda|datacenter|deeplearning|deploy)/[\w/-]+(/|\.html)",
    "docs.ollama.com": r"/(faq|modelfile)",
    "docs.python.org": r"/3/library/\w+\.html",
    "docs.pytorch.org": r"/(docs/stable|tutorials|torchtune/stable)/[\w./]+\.html",
    "docs.ray.io": r"/en/latest/[\w/-]+\.html",
    "docs.sglang.io": r"/docs/(advanced_features|references)/\w+",
    "docs.vllm.ai": r"/en/((latest|stable)/[\w/]+/|v0\.(\d|10)\.\d/[\w/]+\.html)",
    "github.com": r"/ggml-org/llama\.cpp/blob/master/tools/server/README\.md|/[\w.-]+/[\w.-]+/issues/\d+"
    r"|/triton-inference-server/server/blob/main/src/command_line_parser\.cc",
    "huggingface.co": r"/docs/(transformers|diffusers|peft|text-generation-inference)/(main/en/)?[\w/]+",
    "kubernetes.io": r"/docs/(concepts|tasks)/[\w/-]+/",
    "learn.microsoft.com": r"/en-us/windows/(wsl/[\w-]+|win32/api/[\w/-]+)",
    "llm.mlc.ai": r"/docs/compilation/\w+\.html",
    "lmdeploy.readthedocs.io": r"/en/latest/llm/\w+\.html",
    "man7.org": r"/linux/man-pages/man\d/\w+\.\d\.html",
    "numpy.org": r"/doc/stable/reference/generated/[\w.]+\.html",
    "nvidia.github.io": r"/TensorRT-LLM/performance/performance-tuning-guide/[\w-]+\.html",
    "rapidsai.github.io": r"/node/classes/[\w.]+\.html",
    "triton-lang.org": r"/main/python-api/generated/[\w.]+\.html",
    "www.deepspeed.ai": r"/docs/[\w-]+/",
    "www.freedesktop.org": r"/software/systemd/man/latest/[\w.-]+\.html",
    "www.hiascend.com": r"/document/detail/zh/Pytorch/\d+/comref/Envvariables/\w+\.html",
    "www.tensorflow.org": r"/guide/\w+",
}
"""Of each site the paths that its documentation has."""
MOVED = ("transformers/big_models", "docs.sglang.ai", "pytorch.org/docs", "examples/features/automatic_prefix_caching")


def _links() -> Iterator[tuple[str, str, str]]:
    for rule in PLAYBOOK.rules:
        for remedy in rule.remedies:
            yield rule.id, remedy.id, remedy.source


@pytest.mark.parametrize("rule", PLAYBOOK.rules, ids=lambda rule: rule.id)
def test_every_remedy_says_where_it_is_documented(rule) -> None:
    for remedy in rule.remedies:
        address = urlsplit(remedy.source)
        assert address.scheme == "https", (rule.id, remedy.id)
        assert address.hostname in FORMS, (rule.id, remedy.id, remedy.source)
        assert re.fullmatch(FORMS[address.hostname], address.path), (rule.id, remedy.id, remedy.source)
        assert not any(old in remedy.source.replace("docs.pytorch.org", "") for old in MOVED), remedy.source
        assert re.fullmatch(r"[\w.-]*", address.fragment), remedy.source


def test_no_form_is_for_nobody() -> None:
    assert {urlsplit(link).hostname for _, _, link in _links()} == set(FORMS)


def test_every_remedy_says_what_it_costs_and_every_knob_where_it_was_read() -> None:
    assert [(rule.id, remedy.id) for rule in PLAYBOOK.rules for remedy in rule.remedies if not remedy.cost] == []
    assert [knob.id for knob in load_knobs().values() if not knob.evidence or not knob.cost] == []
