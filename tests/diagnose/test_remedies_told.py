"""GIVEN an incident WHEN changes are recommended or refused THEN each has this incident's bytes, spelling, reason."""

from __future__ import annotations

import pytest

from oomdoctor.report.view import view_report

from .asked import GIB, PLAYBOOK, ask, first, gib, in_vain, sentences, size

_STEP = """\
Traceback (most recent call last):
  File "train.py", line 61, in <module>
    loss.backward()
"""
_WEIGHTS = "INFO 05-02 10:00:20 [gpu_model_runner.py:1347] Model loading took {} GiB memory and 12.1 seconds\n"
_NO_POOL = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
_VLLM = "INFO 05-02 10:00:01 [core.py:61] Initializing a V1 LLM engine (v{}) with config: model='m', max_seq_len=4096\n"
_CHAT = """\
Traceback (most recent call last):
  File "chat.py", line 20, in <module>
    out = model.generate(**inputs, max_new_tokens=512)
  File "/opt/lib/python3.11/site-packages/transformers/cache_utils.py", line 120, in update
    self.keys = torch.cat([self.keys, key_states], dim=-2)
""" + sentences("34.00 MiB", "12.00 MiB", "22.90 GiB", "24.00 MiB", own="23.62 GiB")


def test_bytes_come_from_the_incident_and_are_set_against_what_lacked():
    found = ask(sentences("400.00 MiB", "120.00 MiB", "9.90 GiB", "310.00 MiB"))
    change = first(found).remedies[0]
    assert change.frees_bytes == size(found, "foreign")
    assert change.enough is True
    assert size(found, "shortfall") == pytest.approx(gib(280 / 1024), abs=1 << 20)
    assert change.cost
    assert change.source.startswith("https://")


def test_what_half_of_the_weights_gives_back():
    found = ask(_VLLM.format("0.14.0") + _WEIGHTS.format("15.2") + _NO_POOL)
    halved = [remedy for remedy in first(found).remedies if remedy.id in ("split-over-cards", "quantised-weights")]
    assert [remedy.frees_bytes for remedy in halved] == [round(0.5 * gib(15.2))] * 2
    assert all("code, arithmetic" in remedy.cost for remedy in halved if remedy.id == "quantised-weights")


_CAPTURE = (
    "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total "
    "capacity of 23.65 GiB of which 60.00 MiB is free.\nPossible solutions:\n1. disable cuda graph\n"
)


@pytest.mark.parametrize(
    ("printed", "spelled"),
    [
        ("sglang: 0.5.9", ("--cuda-graph-max-bs 16",)),
        ("sglang==0.5.23", ("--cuda-graph-max-bs-decode 16",)),
        ("", ("--cuda-graph-max-bs 16", "--cuda-graph-max-bs-decode 16")),
    ],
)
def test_the_spelling_is_that_of_the_version_seen_or_all_of_them(printed, spelled):
    found = ask(f"{printed}\n[2025-06-01 10:00:00] server_args=ServerArgs(model_path='m')\n" + _CAPTURE)
    (smaller,) = [remedy for remedy in first(found).remedies if remedy.id == "sglang-smaller-graphs"]
    assert smaller.set.lines == spelled
    assert printed or all(version in smaller.set.note for version in ("0.5.13", "0.5.14"))


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("PyTorch version: 1.13.1+cu117", "1.13.1+cu117"),
        ("[pip3] torch==2.4.0", "2.4.0"),
        ("- PyTorch version (GPU?): 2.0.1+cu117 (True)", "2.0.1+cu117"),
        ("torch version: 2.9.1", "2.9.1"),
        ("ERROR: xformers 0.0.20 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible.", None),
    ],
)
def test_the_version_of_torch_is_read_where_it_is_printed(printed, version):
    found = ask(f"{printed}\n" + sentences("3.10 GiB", "900.00 MiB", "17.90 GiB", "4.41 GiB", own="22.77 GiB"))
    assert found.facts.value("torch.version") == version
    offered = [remedy.id for remedy in first(found).remedies]
    assert ("expandable-segments" in offered) is (version is None or not version.startswith(("1.", "2.0")))


def test_a_smaller_share_makes_no_room_for_weights():
    found = ask(_VLLM.format("0.14.0") + _WEIGHTS.format("15.2") + _NO_POOL)
    assert "what is left for the pool becomes less still" in in_vain(found, "--gpu-memory-utilization")


def test_use_cache_spares_nothing_in_training():
    found = ask(_STEP + sentences("2.00 GiB", "512.00 MiB", "22.00 GiB", "60.00 MiB", own="23.12 GiB"))
    assert "Autograd keeps keys and values" in in_vain(found, "use_cache=False")
    assert "given back what nobody uses" in in_vain(found, "empty_cache")
    assert "accumulation spares only as far as" in in_vain(found, "accumulation")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("Quantising the weights", "the cache goes on growing"),
        ("sliding_window set after loading", "the default cache drops nothing"),
        ("use_cache=False", "each token computes the whole conversation again"),
        ("Speculative decoding", "the cache grows as before"),
        ("max_length", "max_new_tokens overrules it"),
        ("empty_cache()", "live as long as the variable that holds it"),
    ],
)
def test_popular_changes_that_do_not_stop_a_cache_from_growing(what, why):
    found = ask(_CHAT)
    assert first(found).cause == "kv-growth"
    assert why in in_vain(found, what)


def test_the_same_changes_are_not_refused_where_they_have_nothing_to_do():
    found = ask("Killed\n[ 7248.8] Out of memory: Killed process 16832 (python) total-vm:33905928kB, anon-rss:6kB")
    assert not in_vain(found, "Quantising")
    assert not in_vain(found, "use_cache")


@pytest.mark.parametrize(
    ("log", "command", "what", "outcome", "why"),
    [
        ("{oom}", "vllm serve m --cache-ttl 60", "--cache-ttl 60", "refused", "vLLM has no such option"),
        ("{oom}", "vllm serve m --kv-cache-dtype int8", "--kv-cache-dtype int8", "refused", "takes"),
        ("  File \"a.py\", line 3, in <module>\n    config = GenerationConfig(kv_cache_dtype=\"int8\")\n{oom}", None,
         'GenerationConfig(kv_cache_dtype="int8")', "ignored", "nobody reads it, without a warning"),
        ("  File \"a.py\", line 3, in <module>\n    o = model.generate(**x, max_length=2048, max_new_tokens=64)\n{oom}",
         None, "generate(max_new_tokens=64, max_length=2048)", "ignored", "max_length is no cap"),
        ("  File \"a.py\", line 3, in <module>\n    model.config.sliding_window = 1024\n{oom}", None,
         "model.config.sliding_window = 1024", "", ""),
    ],
)  # fmt: skip
def test_what_is_written_in_vain_is_told(log, command, what, outcome, why):
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 34.00 MiB."
    found = ask(log.format(oom=message), command)
    matching = [misuse for misuse in found.misuses if misuse.what == what]
    assert matching, [misuse.what for misuse in found.misuses]
    assert not outcome or matching[0].outcome == outcome
    assert why in f"{matching[0].why} {matching[0].instead}"


def test_a_size_is_taken_apart_where_the_model_is_known():
    log = """\
"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256
Token indices sequence length is longer than the specified maximum sequence length for this model (8192 > 4096).
Traceback (most recent call last):
  File "gen.py", line 20, in <module>
    out = model(ids)
  File "/opt/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py", line 345, in forward
    attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) / math.sqrt(self.head_dim)
"""
    found = ask(log + sentences("8.00 GiB", "2.00 GiB", "17.10 GiB", "0.31 GiB", own="21.60 GiB"))
    assert found.facts.value("request.factors") == "32 heads × 8192 × 8192 × 4 bytes"
    assert found.facts.value("request.factors_exact") is False
    assert first(found).cause == "attention-quadratic"
    assert "agrees with 32 heads × 8192 × 8192 × 4 bytes" in found.summary


def test_a_size_that_many_products_have_is_not_taken_apart():
    found = ask(sentences("8.00 GiB", "2.00 GiB", "17.10 GiB", "0.31 GiB", own="21.60 GiB"))
    assert found.facts.value("request.factors") is None
    assert size(found, "requested") == 8 * GIB


@pytest.mark.parametrize(("running", "shown"), [(40, "40 that ran"), (200, "64")])
def test_a_limit_of_requests_is_below_what_ran(running: int, shown: str) -> None:
    load = (
        "INFO 05-01 03:00:05 [loggers.py:116] Engine 000: Avg prompt throughput: 5012.3 tokens/s, Avg generation"
        f" throughput: 800.1 tokens/s, Running: {running} reqs, Waiting: 211 reqs, GPU KV cache usage: 99.8%, Prefix"
        " cache hit rate: 3.1%\n"
    )
    found = ask(load)
    assert first(found).rule == "KV005"
    remedy = first(found).remedies[0]
    assert shown in f"{remedy.do} {remedy.set}"
    assert (running > 64) == ("64" in str(remedy.set))


def test_a_kill_for_pressure_is_not_said_to_have_met_a_limit() -> None:
    found = ask(
        "Jun 01 03:00:00 host systemd-oomd[700]: Killed /user.slice/app-train.scope due to memory pressure for"
        " /user.slice/user-1000.slice being 82.11% > 50.00% for > 20s with reclaim activity\n"
    )
    assert "says systemd-oomd" in found.summary
    assert all(each.rule != "HST002" for each in found.findings)


_KV = (
    "INFO 11-29 10:00:00 [api_server.py:1] vLLM API server version 0.9.1\n"
    "INFO 11-29 10:00:40 [gpu_worker.py:232] Available KV cache memory: 3.20 GiB\n"
    "ERROR 11-29 10:00:41 [core.py:400] ValueError: To serve at least one request with the models's max seq len "
    "(131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.20 GiB). Based on "
    "the available memory, the estimated maximum model length is 26208.\n"
)


def test_a_remedy_says_what_becomes_of_its_bytes():
    """Only what is held can be freed; a share gives the pool more, a shorter request is not asked for."""
    found = ask(_KV)
    assert (first(found).rule, first(found).remedies[0].effect.value) == ("KV002", "spares")
    assert view_report(found).change.effect == "Needs 12.80 GiB less, which is enough."
    assert found.estimated.parts[0].observed_by == "by the engine"
    rules = {rule.id: {remedy.id: remedy.effect.value for remedy in rule.remedies} for rule in PLAYBOOK.rules}
    assert rules["KV001"]["larger-share"] == rules["KV001"]["larger-static-share"] == "gives-the-pool"
    assert rules["LIM001"]["raise-the-cap"] == "allows"
    assert rules["NBR001"]["end-the-other"] == "frees"
    assert rules["NBR001"]["another-device"] == "allows"


def test_a_smaller_share_leaves_and_does_not_free():
    share = [
        remedy
        for rule in PLAYBOOK.rules
        for remedy in rule.remedies
        if remedy.set and remedy.set.go == "up" and "utilization" in remedy.set.knob and remedy.frees
    ]
    assert {remedy.effect.value for remedy in share} == {"gives-the-pool"}


def test_what_is_live_is_not_taken_for_weights():
    found = ask(
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 9.77 GiB total capacity; 9.20 GiB"
        " already allocated; 5.00 MiB free; 9.21 GiB reserved in total by PyTorch)\n"
    )
    (placed,) = [finding for finding in found.findings if finding.rule == "CAP013"]
    assert {remedy.id for remedy in placed.remedies} >= {"fewer-bits", "several-devices"}
    assert all(remedy.frees_bytes is None and remedy.enough is None for remedy in placed.remedies)
