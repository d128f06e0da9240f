"""GIVEN a model and a card WHEN what fits is asked THEN parts add up, edges hold, and maxima are exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from estimate.files import write_config, write_gguf, write_llama_8b_gguf

from oomdoctor.errors import InputRefused, UsageError
from oomdoctor.estimate.answer import answer_of
from oomdoctor.estimate.architecture import Architecture, Attention
from oomdoctor.estimate.budget import (
    ACTIVATIONS,
    CACHE,
    GRAPHS,
    OVERHEAD,
    WEIGHTS,
    Budget,
    budget_of,
    cache_settings,
    largest_concurrency,
    largest_context,
    total_at,
)
from oomdoctor.estimate.dtypes import element_type
from oomdoctor.estimate.engines import ENGINES, LLAMA_CPP, SGLANG, TRANSFORMERS, VLLM
from oomdoctor.estimate.grid import grid_of
from oomdoctor.estimate.kv_cache import CacheSettings, bytes_per_token, fixed_bytes, page_tokens
from oomdoctor.estimate.lengths import read_lengths
from oomdoctor.estimate.model_input import Model, read_model
from oomdoctor.estimate.settings import Settings

GIB = 1 << 30


@pytest.fixture
def llama(tmp_path: Path) -> Model:
    return read_model(write_config(tmp_path))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_parts_add_up(llama: Model, engine: object) -> None:
    budget = budget_of(llama, Settings(engine, 80 * GIB, 8192, 4))  # type: ignore[arg-type]
    assert sum(part.bytes for part in budget.parts) == budget.total_bytes
    assert budget.total_bytes + budget.headroom_bytes == 80 * GIB
    assert budget.part(WEIGHTS).bytes == llama.weights_bytes
    assert budget.part(CACHE).bytes == 4 * 8192 * 131_072
    assert {part.known for part in budget.parts} <= {"computed", "assumed"}
    assert all(part.formula for part in budget.parts)


def test_a_verdict_at_its_edges(llama: Model) -> None:
    need = budget_of(llama, Settings(TRANSFORMERS, 80 * GIB, 8192, 1)).total_bytes
    for capacity, verdict in ((need * 2, "fits"), (need + need // 20, "tight"), (need, "tight"), (need - 1, "no")):
        assert budget_of(llama, Settings(TRANSFORMERS, capacity, 8192, 1)).verdict == verdict
    assert budget_of(llama, Settings(TRANSFORMERS, need, 8192, 1, headroom=0)).verdict == "fits"


@pytest.mark.parametrize("engine", [TRANSFORMERS, VLLM, SGLANG, LLAMA_CPP], ids=lambda engine: engine.name)
def test_the_largest_is_the_last_that_fits(llama: Model, engine: object) -> None:
    settings = Settings(engine, 40 * GIB, 8192, 4)  # type: ignore[arg-type]
    context = largest_context(llama, settings, 4)
    assert total_at(llama, settings, context, 4) <= settings.safe_bytes < total_at(llama, settings, context + 1, 4)
    count = largest_concurrency(llama, settings, 8192)
    assert total_at(llama, settings, 8192, count) <= settings.safe_bytes < total_at(llama, settings, 8192, count + 1)


def test_no_longer_than_the_model_was_made_for_and_nothing_where_nothing_fits(llama: Model) -> None:
    assert largest_context(llama, Settings(VLLM, 1000 * GIB, 8192, 1), 1) == 131_072
    assert largest_context(llama, Settings(VLLM, 10 * GIB, 8192, 1), 1) == 0
    assert largest_concurrency(llama, Settings(VLLM, 10 * GIB, 8192, 1), 8192) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(TRANSFORMERS, 10 * GIB, 512, 1), "the weights alone"),
        (Settings(VLLM, 17 * GIB, 512, 1), "leave no room for a cache within --gpu-memory-utilization (0.92"),
        (Settings(VLLM, 24 * GIB, 131_072, 1), "the cache of 1 x 131,072 tokens"),
        (Settings(VLLM, 800 * GIB, 200_000, 1), "made for 131,072 tokens"),
        (Settings(VLLM, 80 * GIB, 8192, 1), "nothing yet; the largest part is weights"),
        (Settings(TRANSFORMERS, 17 * GIB, 512, 1), "the headroom of 10 %: "),
    ],
)
def test_what_binds(llama: Model, settings: Settings, words: str) -> None:
    assert words in budget_of(llama, settings).binds


def test_ranks_divide_weights_and_heads_but_the_figures_of_a_token_are_the_whole_model_s(llama: Model) -> None:
    one = budget_of(llama, Settings(VLLM, 80 * GIB, 8192, 1))
    for ranks, share in ((4, 4), (16, 8)):
        many = budget_of(llama, Settings(VLLM, 80 * GIB, 8192, 1, tensor_parallel=ranks))
        assert many.part(CACHE).bytes == one.part(CACHE).bytes // share
        # Norms are whole on each rank, and of 16 ranks two hold the same KV head.
        norms, rows = 2 * 65 * 4096, 2 * 32 * 4096 * 2 * 1024
        even = (llama.weights_bytes - norms - rows) // ranks
        assert many.part(WEIGHTS).bytes == even + norms + rows // share
        assert many.kv_bytes_per_token == one.kv_bytes_per_token == 131_072


def test_what_was_measured_takes_the_place_of_assumptions(llama: Model) -> None:
    budget = budget_of(llama, Settings(VLLM, 80 * GIB, 8192, 1, overhead_bytes=7, graph_bytes=9))
    assert (budget.part(OVERHEAD).bytes, budget.part(OVERHEAD).known) == (7, "measured")
    assert (budget.part(GRAPHS).bytes, budget.part(GRAPHS).known) == (9, "measured")


def test_a_quantised_cache_and_one_of_two_types(llama: Model) -> None:
    q8, q4 = element_type("q8_0"), element_type("q4_0")
    both = budget_of(llama, Settings(LLAMA_CPP, 80 * GIB, 8192, 1, keys=q8, values=q4))
    assert both.kv_bytes_per_token == 32 * (1024 * 34 // 32 + 1024 * 18 // 32)


def test_the_prompt_of_windowed_layers_is_told_in_transformers(tmp_path: Path) -> None:
    mistral = read_model(write_config(tmp_path, model_type="mistral", sliding_window=4096))
    budget = budget_of(mistral, Settings(TRANSFORMERS, 80 * GIB, 32_768, 1))
    inputs = dict(budget.part(ACTIVATIONS).inputs)
    assert inputs["bytes of the prompts in windowed layers"] == (32_768 - 4095) * 131_072
    assert budget.kv_bytes_per_token == 0
    assert budget.kv_fixed_bytes_per_sequence == 4095 * 131_072


def test_the_map_holds_the_setting_asked_for(llama: Model) -> None:
    settings = Settings(VLLM, 40 * GIB, 5000, 11)
    grid = grid_of(llama, settings)
    assert 5000 in grid.contexts
    assert 11 in grid.concurrencies
    assert list(grid.contexts) == sorted(set(grid.contexts))
    (only,) = grid.largest
    for row, largest in zip(grid.rows, only.contexts, strict=True):
        for cell in row:
            assert (cell.verdict == "fits") == (cell.context <= largest)
    for column, most in enumerate(only.concurrencies):
        for row in grid.rows:
            assert (row[column].verdict == "fits") == (row[column].concurrency <= most)


def test_one_long_request_decides(llama: Model, tmp_path: Path) -> None:
    path = tmp_path / "lengths"
    path.write_text("# tokens count\n\n1000 98\n2000, 1\n120000\n")
    lengths = read_lengths(path)
    assert (lengths.requests, lengths.p50, lengths.p95, lengths.p99, lengths.longest) == (
        100,
        1000,
        1000,
        2000,
        120_000,
    )
    assert lengths.mean == pytest.approx(2200)
    answer = answer_of(llama, Settings(VLLM, 40 * GIB, 1, 4), lengths)
    assert answer.settings.context == 120_000
    assert (answer.budget.verdict, answer.max_concurrency) == ("tight", 1)
    assert [each.max_concurrencies for each in answer.by_length] == sorted(
        (each.max_concurrencies for each in answer.by_length), reverse=True
    )


def test_both_ends_of_the_headroom_are_told_apart(llama: Model) -> None:
    """GIVEN 10 and 20 % WHEN a cell leaves the one but not the other THEN it says so, and each end has its largest."""
    settings = Settings(VLLM, 40 * GIB, 4096, 32, headroom=0.1, comfort=0.2)
    grid = grid_of(llama, settings)
    least, most = grid.largest
    assert (least.headroom, most.headroom) == (0.1, 0.2)
    kinds = set()
    for row, longest, longer in zip(grid.rows, most.contexts, least.contexts, strict=True):
        for cell in row:
            wanted = 0.2 if cell.context <= longest else 0.1 if cell.context <= longer else None
            assert (cell.leaves, cell.close, cell.verdict == "fits") == (wanted, wanted == 0.1, wanted is not None)
            kinds.add(wanted)
    for column, (few, many) in enumerate(zip(most.concurrencies, least.concurrencies, strict=True)):
        assert few <= many
        for row in grid.rows:
            cell = row[column]
            wanted = 0.2 if cell.concurrency <= few else 0.1 if cell.concurrency <= many else None
            assert cell.leaves == wanted
    assert kinds == {0.2, 0.1, None}
    limits = answer_of(llama, settings).limits
    assert [round(each.headroom, 2) for each in limits] == [0.1, 0.2, 0.08]
    by_hand = [largest_concurrency(llama, replace(settings, headroom=each), 4096) for each in (0.1, 0.2, 0.0)]
    assert [each.max_concurrency for each in limits] == by_hand


def test_requests_that_wait_are_no_failure_and_no_tight_fit(llama: Model) -> None:
    """The pool of the figure that vLLM prints: 57.55 requests are 57, and seven of 64 wait."""
    answer = answer_of(llama, Settings(VLLM, 80 * GIB, 8192, 64, comfort=0.2, step_tokens=2048))
    assert (answer.budget.waiting, answer.budget.verdict) == (7, "tight")
    assert answer.pool_tokens is not None
    assert answer.pool_tokens // 8192 == 57
    assert [(round(each.headroom, 2), each.max_concurrency) for each in answer.limits] == [
        (0.1, 55),
        (0.2, 47),
        (0.08, 57),
    ]
    cells = [cell for row in answer.grid.rows for cell in row]
    for cell in cells:
        room = answer.settings.limit_bytes - (cell.total_bytes - cell.concurrency * cell.context * 131_072)
        wait = cell.concurrency - min(cell.concurrency, room // (cell.context * 131_072))
        assert cell.waiting == wait
    assert any(cell.waiting for cell in cells)
    assert not answer_of(llama, Settings(TRANSFORMERS, 24 * GIB, 8192, 64)).budget.waiting


@pytest.mark.parametrize(
    ("text", "requests", "longest"),
    [
        ("1,024\n", 1, 1024),
        ("12,288 30\n", 30, 12_288),
        ('"12,288"\n', 1, 12_288),
        ("1,234,567\n12,288\n", 2, 1_234_567),
        ("12, 288\n", 288, 12),
        ("512,100\n1024,37\n", 137, 1024),
        ("512;100\n12,288;1\n", 101, 12_288),
        ("512\t100\n", 100, 512),
    ],
)
def test_a_comma_parts_thousands_or_a_count(tmp_path: Path, text: str, requests: int, longest: int) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    found = read_lengths(path)
    assert (found.requests, found.longest) == (requests, longest)


@pytest.mark.parametrize("text", ["# a\n12,288\n", "5\n12,288\n1024,37\n1,024\n", "5\n12,288\n"])
def test_a_comma_that_may_be_either_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    with pytest.raises(InputRefused, match=r"lengths:2: 12,288 is either .* write 12288, or 12 288"):
        read_lengths(path)


@pytest.mark.parametrize("text", ["", "# only\n", "many\n", "1 2 3\n", "-5\n", "0\n", "1.5\n", "9" * 30, "5 0\n"])
def test_a_file_without_lengths_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    with pytest.raises(InputRefused, match="lengths"):
        read_lengths(path)


def test_a_gguf_model_keeps_half_precision_unless_told(tmp_path: Path) -> None:
    keys = {"block_count": 2, "embedding_length": 64, "attention.head_count": 4, "context_length": 2048}
    pairs: dict[str, object] = {
        "general.architecture": "llama",
        **{f"llama.{name}": each for name, each in keys.items()},
    }
    write_gguf(tmp_path / "m.gguf", pairs, {"a": (0, [10], 40)})
    model = read_model(tmp_path / "m.gguf")
    assert budget_of(model, Settings(LLAMA_CPP, GIB, 256, 1)).kv_bytes_per_token == 2 * 2 * 64 * 2


def test_an_unknown_element_type_is_refused() -> None:
    with pytest.raises(UsageError, match="int3"):
        element_type("int3")


def test_states_do_not_grow_and_their_type_can_be_named(tmp_path: Path) -> None:
    path = write_config(
        tmp_path, model_type="mamba", intermediate_size=5120, hidden_size=2560, state_size=16, conv_kernel=4, expand=2,
        num_hidden_layers=64,
    )  # fmt: skip
    model = read_model(path, weights_bytes=GIB)
    settings = Settings(TRANSFORMERS, 80 * GIB, 512, 1)
    short, long = (budget_of(model, replace(settings, context=each)).part(CACHE).bytes for each in (512, 100_000))
    assert short == long == 64 * (5120 * 16 * 4 + 5120 * 4 * 2)
    half = replace(settings, states=element_type("bf16"))
    assert budget_of(model, half).part(CACHE).bytes == 64 * 5120 * 20 * 2


def test_an_engine_with_a_pool_starts_where_one_request_fits(llama: Model) -> None:
    """vLLM and SGLang let the others wait; transformers and llama.cpp need room for all at once."""
    for engine, verdict in ((VLLM, "tight"), (SGLANG, "tight"), (TRANSFORMERS, "no"), (LLAMA_CPP, "no")):
        budget = budget_of(llama, Settings(engine, 24 * GIB, 8192, 64, step_tokens=2048))
        assert budget.total_bytes > 24 * GIB
        assert budget.verdict == verdict
    holds = budget_of(llama, Settings(VLLM, 24 * GIB, 8192, 64))
    one = holds.part(CACHE).bytes // 64
    assert f"holds {holds.pool_bytes // one} of 64 requests" in holds.binds
    assert budget_of(llama, Settings(VLLM, 24 * GIB, 131_072, 1)).verdict == "no"


def test_layers_on_the_card_have_their_weights_and_caches_there(tmp_path: Path) -> None:
    write_llama_8b_gguf(tmp_path / "m.gguf")
    model = read_model(tmp_path / "m.gguf")

    def with_layers(count: int | None) -> Budget:
        return budget_of(model, Settings(LLAMA_CPP, 24 * GIB, 8192, 1, gpu_layers=count))

    whole, all_layers, half, none = (with_layers(count) for count in (None, 32, 16, 0))
    assert with_layers(99).total_bytes == with_layers(33).total_bytes == whole.total_bytes
    output = 128_256 * 4096 * 210 // 256 + (4096 + 64) * 4
    assert whole.part(WEIGHTS).bytes - all_layers.part(WEIGHTS).bytes == output
    assert all_layers.part(WEIGHTS).bytes == sum(model.places.blocks if model.places else ())
    assert half.part(CACHE).bytes == whole.part(CACHE).bytes // 2
    assert (none.part(WEIGHTS).bytes, none.part(CACHE).bytes) == (0, 0)
    assert half.kv_bytes_per_token == whole.kv_bytes_per_token


def test_single_layers_of_a_configuration_are_not_guessed(llama: Model) -> None:
    with pytest.raises(InputRefused, match="known of a GGUF file only"):
        budget_of(llama, Settings(LLAMA_CPP, 24 * GIB, 8192, 1, gpu_layers=10))


@pytest.mark.parametrize(
    ("text", "requests", "longest"),
    [
        ("length,count\n100,5\n200,3\n", 8, 200),
        ("# made by us\ntokens\n100\n300\n", 2, 300),
        ("0-128 10\n129-256 4\n", 14, 256),
        ("1..512, 7\n513..1024, 1\n", 8, 1024),
    ],
)
def test_a_histogram_may_have_a_heading_and_buckets(tmp_path: Path, text: str, requests: int, longest: int) -> None:
    """A bucket counts as its upper end: a request may be that long."""
    path = tmp_path / "lengths"
    path.write_text(text)
    found = read_lengths(path)
    assert (found.requests, found.longest) == (requests, longest)


@pytest.mark.parametrize("text", ["100 5\nlength count\n", "256-128 4\n", "1-2-3 4\n", "-5 3\n", "length\n"])
def test_what_is_no_histogram_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    with pytest.raises(InputRefused):
        read_lengths(path)


@pytest.mark.parametrize(
    ("fields", "per_token"),
    [
        # No pool of their own for windows: all 26, 62 and 32 layers keep every token.
        ({"model_type": "gemma2", "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
          "head_dim": 256, "hidden_size": 2304, "sliding_window": 4096}, 26 * 4 * 512 * 2),
        ({"model_type": "gemma3_text", "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
          "head_dim": 128, "hidden_size": 5376, "sliding_window": 1024}, 62 * 16 * 256 * 2),
        ({"model_type": "mistral", "sliding_window": 4096}, 32 * 8 * 256 * 2),
        # One of the few that have.
        ({"model_type": "gpt_oss", "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
          "head_dim": 64, "hidden_size": 2880, "sliding_window": 128}, 18 * 2048 + 18 * 2048 * 8 // 10),
    ],
    ids=["gemma2", "gemma3", "mistral", "gpt_oss"],
)  # fmt: skip
def test_sglang_has_a_pool_for_windows_of_some_families_only(
    tmp_path: Path, fields: dict[str, Any], per_token: int
) -> None:
    """SGLang 0.5.23 `is_hybrid_swa_model` lists them; the others have `DefaultPoolConfigurator`, all layers alike."""
    model = read_model(write_config(tmp_path, **fields), weights_bytes=GIB)
    settings = Settings(SGLANG, 80 * GIB, 100_000, 1)
    assert budget_of(model, settings).kv_bytes_per_token == per_token
    notes = " ".join(answer_of(model, settings).notes)
    assert ("keeps every token in the windowed layers" in notes) == (fields["model_type"] != "gpt_oss")
    assert ("a pool of 0.8" in notes) == (fields["model_type"] == "gpt_oss")


@pytest.mark.parametrize(
    ("family", "keeps"), [("mistral", 32 * 4096), ("phi3", 32 * 4096), ("starcoder2", 32 * 4096), ("gemma2", 16 * 4096)]
)
def test_llama_cpp_has_windows_of_some_architectures_only(tmp_path: Path, family: str, keeps: int) -> None:
    """Mistral becomes its `llama`, without windows; of Phi-3 and StarCoder2 it reads none either."""
    more = {"head_dim": 128} if family == "gemma2" else {}
    model = read_model(write_config(tmp_path, model_type=family, sliding_window=4096, **more), weights_bytes=GIB)
    assert budget_of(model, Settings(LLAMA_CPP, 80 * GIB, 100_000, 1)).kv_bytes_per_token == keeps


@pytest.mark.parametrize(
    ("engine", "gib", "tokens"),
    [(VLLM, 24, 2048), (VLLM, 79.2, 8192), (VLLM, 141, 8192), (VLLM, 178, 16_384),
     (SGLANG, 16, 2048), (SGLANG, 24, 4096), (SGLANG, 48, 4096), (SGLANG, 80, 8192), (SGLANG, 192, 16_384),
     (LLAMA_CPP, 192, 512), (TRANSFORMERS, 192, 100_000)],
)  # fmt: skip
def test_the_largest_step_is_the_engine_s_own_on_such_a_card(
    llama: Model, engine: Any, gib: float, tokens: int
) -> None:
    part = budget_of(llama, Settings(engine, int(gib * GIB), 100_000, 1)).part(ACTIVATIONS)
    assert dict(part.inputs)["tokens"] == tokens
    if engine in (VLLM, SGLANG):
        assert part.known == "assumed"
        assert part.bytes == tokens * (3 * 14_336 + 3 * 4096) * 2
    named = budget_of(llama, Settings(engine, int(gib * GIB), 100_000, 1, step_tokens=tokens)).part(ACTIVATIONS)
    assert (named.bytes, named.known) == (part.bytes, "computed")


GEMMA3_27B = {
    "model_type": "gemma3_text", "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
    "head_dim": 128, "hidden_size": 5376, "sliding_window": 1024,
}  # fmt: skip


def test_vllm_s_windows_hold_two_steps_and_their_groups_are_filled_up(tmp_path: Path) -> None:
    """52 windowed and 10 full layers are seven groups of ten: eight layers that are none take pages too.

    A window holds its tokens, those of two steps (asynchronous scheduling) and one page more.
    """
    model = read_model(write_config(tmp_path, **GEMMA3_27B), weights_bytes=GIB)
    settings = Settings(VLLM, 80 * GIB, 32_768, 2, step_tokens=2048)
    row, pages = 16 * 256 * 2, -(-(1023 + 2 * 2048) // 16) + 1
    budget = budget_of(model, settings)
    assert budget.kv_bytes_per_token == 10 * row
    assert budget.kv_fixed_bytes_per_sequence == 60 * 16 * pages * row
    assert budget.part(CACHE).bytes == 2 * (32_768 * 10 + 60 * 16 * pages) * row
    assert budget.part(CACHE).known == "computed"
    one = budget_of(model, replace(settings, steps_at_once=1))
    assert one.kv_fixed_bytes_per_sequence == 60 * 16 * (-(-(1023 + 2048) // 16) + 1) * row
    untold = budget_of(model, replace(settings, step_tokens=None)).part(CACHE)
    assert (untold.known, "16,384 tokens" in untold.source) == ("assumed", True)
    whole = budget_of(model, replace(settings, hybrid=False))
    assert (whole.kv_bytes_per_token, whole.kv_fixed_bytes_per_sequence) == (62 * row, 0)


@pytest.mark.parametrize(
    ("full", "windowed", "per_token", "fixed"),
    [(10, 20, 10, 20), (10, 14, 14, 14), (10, 15, 10, 20), (9, 8, 9, 9), (12, 0, 12, 0), (0, 12, 0, 12)],
)
def test_the_layers_of_a_group_in_vllm(full: int, windowed: int, per_token: int, fixed: int) -> None:
    """`_get_kv_cache_groups_uniform_page_size`: as many as the rarest kind, or the commonest if close."""
    caches = (*[Attention(8, 128, 128)] * full, *[Attention(8, 128, 128, 1024)] * windowed)
    architecture = Architecture("many", full + windowed, caches, 1024, 8, 128, None, None)
    bf16 = element_type("bfloat16")
    kept = CacheSettings(VLLM, bf16, bf16, bf16, bf16)
    assert bytes_per_token(architecture, kept) == per_token * 4096
    assert fixed_bytes(architecture, kept, 100) == fixed * (112 + 16) * 4096


QWEN3_NEXT = {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "max_position_embeddings": 262_144,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "page", "padding"),
    [
        # Start-up lines of vLLM 0.10.2 (bf16, two ranks) and 0.13 (fp8 keys and values): 544 with 1.49 %, 1072.
        ({}, 544, 0.0149),
        ({"tensor_parallel": 2}, 544, 0.0149),
        ({"tensor_parallel": 2, "keys": element_type("fp8")}, 1072, 0.0),
        # Qwen3.5-35B-A3B, whose file names float32: 1056 with 0.76 %.
        ({"states": element_type("float32")}, 1056, 0.0076),
    ],
)
def test_vllm_raises_the_pages_of_attention_to_those_of_states(
    tmp_path: Path, changes: dict[str, Any], page: int, padding: float
) -> None:
    model = read_model(write_config(tmp_path, **QWEN3_NEXT), weights_bytes=GIB)
    settings = replace(Settings(VLLM, 80 * GIB, 100, 1, prefix_states=False), **changes)
    kept = cache_settings(model, settings)
    ranks, element = settings.tensor_parallel, kept.keys.bytes_of(1)
    row = 2 * 2 * 256 // ranks * element
    state = (8192 * 3 * 2 + 32 * 128 * 128 * kept.states.bytes_of(1)) // ranks
    assert page_tokens(model.architecture, kept) == page
    assert page * row / state - 1 == pytest.approx(padding, abs=0.0001 if padding else 0.01)
    budget = budget_of(model, settings)
    assert budget.part(CACHE).bytes == 48 * page * row
    assert budget.part(CACHE).known == "assumed"
    assert ("tokens a page", page) in budget.part(CACHE).inputs
    # 36 layers keep states: with the prefix cache, which is on by default, two each.
    twice = budget_of(model, replace(settings, prefix_states=None)).part(CACHE)
    assert twice.bytes == (12 + 2 * 36) * page * row


def test_states_without_attention_are_not_padded_and_have_the_model_s_type_in_vllm(tmp_path: Path) -> None:
    path = write_config(
        tmp_path, model_type="mamba", intermediate_size=5120, hidden_size=2560, state_size=16, conv_kernel=4, expand=2,
        num_hidden_layers=64,
    )  # fmt: skip
    part = budget_of(read_model(path, weights_bytes=GIB), Settings(VLLM, 80 * GIB, 512, 1)).part(CACHE)
    assert (part.bytes, part.known) == (64 * 5120 * (3 + 16) * 2, "assumed")
    assert part.source == "states are assumed to be bfloat16"


@pytest.mark.parametrize("field", ["intermediate_size", "vocab_size"])
def test_activations_without_a_width_are_assumed(tmp_path: Path, field: str) -> None:
    model = read_model(write_config(tmp_path, **{field: None}), weights_bytes=GIB)
    assert budget_of(model, Settings(VLLM, 80 * GIB, 64, 1)).part("activations of one step").known == "assumed"


@pytest.mark.parametrize(
    ("gib", "card", "tokens"),
    [
        (80, None, 8192), (80, "NVIDIA A100-SXM4-80GB", 2048), (80, "a100", 2048), (80, "NVIDIA H100 80GB HBM3", 8192),
        (119, "NVIDIA GB10", 2048), (40, "NVIDIA A100-SXM4-40GB", 2048), (180, "NVIDIA B200", 16_384),
    ],
)  # fmt: skip
def test_vllm_goes_by_the_name_of_the_card(gib: int, card: str | None, tokens: int) -> None:
    """Its own `get_batch_defaults` (0.33)."""
    assert Settings(VLLM, gib * GIB, 4096, 1, card=card).most_step_tokens == tokens
    assert Settings(SGLANG, 80 * GIB, 4096, 1, card=card).most_step_tokens == 8192
