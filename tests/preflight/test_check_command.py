"""GIVEN `oomdoctor check` WHEN it is called THEN it says what it saw, in each form, and ends as documented."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from estimate.files import write_config, write_llama_8b_gguf, write_safetensors
from preflight.given import GIB, card, held, only, setup

from oomdoctor.cli.check import check
from oomdoctor.cli.estimate import estimate
from oomdoctor.collect.nvml import Nvml
from oomdoctor.errors import UsageError
from oomdoctor.estimate.engines import LLAMA_CPP, VLLM
from oomdoctor.model.devices import DeviceTraits, MigInstance
from oomdoctor.preflight import look
from oomdoctor.preflight.as_json import as_json
from oomdoctor.preflight.finding import Finding, Level
from oomdoctor.preflight.fit import check_fit
from oomdoctor.preflight.html import as_html
from oomdoctor.preflight.look import check_all
from oomdoctor.preflight.measured import Measured, keep_measured, measured_overhead, read_measured, store_path
from oomdoctor.preflight.overhead import NotMeasured
from oomdoctor.preflight.setup import NVML_SECONDS, Asked, look_at_cards
from oomdoctor.preflight.show import as_markdown, as_terminal

SCHEMA = json.loads((files("oomdoctor.preflight") / "check.schema.json").read_text())
MEASURED = Measured("H100", "580.1", "2.6.0", 80 * GIB, 400 << 20, 60 << 20, 22 << 20, "process", 1_796_000_000.0)


def called(*arguments: object) -> Result:
    return CliRunner().invoke(check, [str(each) for each in arguments])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_config(tmp_path / "model")
    write_safetensors(tmp_path / "model" / "model.safetensors", a=("BF16", [8_000_000_000]))
    return tmp_path / "model"


def test_without_anything_it_ends_well_and_says_what_it_did_not_see() -> None:
    found = called()
    assert found.exit_code == 0, found.output
    assert "Not seen" in found.output
    assert max(map(len, found.output.splitlines())) <= 80
    assert "\x1b" not in found.output


def test_json_is_the_contract_and_the_exit_status_tells() -> None:
    found = called("--format", "json", "--", "vllm", "serve", "m", "--batch-size", "8")
    told = json.loads(found.output)
    jsonschema.validate(told, SCHEMA)
    assert (found.exit_code, told["stands_in_the_way"], told["engine"]) == (1, True, "vllm")
    assert told["findings"][0]["level"] == "fail"


@pytest.mark.parametrize(
    "arguments",
    [("--context", "0"), ("--model", "/no/such/model"), ("--kv-dtype", "fp8,fp8,fp8"), ("--gpu", "0"), ("--nonsense",)],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    found = called(*arguments)
    assert found.exit_code == 2 or getattr(found.exception, "exit_code", None) == 2


def test_the_model_is_not_written_over(model: Path) -> None:
    file = model / "model.safetensors"
    found = called("--model", file, "--output", file)
    assert getattr(found.exception, "exit_code", None) == 2
    assert file.stat().st_size > GIB


def test_nor_is_the_configuration_of_the_folder_that_was_named(model: Path) -> None:
    before = (model / "config.json").read_bytes()
    with pytest.raises(UsageError, match="is the model"):
        raise called("--model", model, "--gpu", "80GiB", "--output", model / "config.json").exception
    assert (model / "config.json").read_bytes() == before


def test_ranks_that_do_not_divide_the_heads_keep_vllm_from_starting(model: Path) -> None:
    for ranks, level in (("3", Level.FAIL), ("2", None)):
        given = setup("vllm", "serve", "m", "-tp", ranks, cards=(card(), card(1), card(2)), asked=Asked(model=model))
        found = [each.level for each in check_fit(given) if each.check == "fit.ranks"]
        assert found == ([level] if level else [])


def test_the_size_in_a_command_is_what_was_asked_for(model: Path) -> None:
    assert "--gpu 8GiB" in called("--model", model, "--gpu", "8GiB").output


def test_a_model_that_fits_or_does_not(model: Path) -> None:
    asked = Asked(model=model, context=8192)
    fine = only(check_fit(setup(cards=(card(),), asked=asked)), "fit")
    assert (fine.level, fine.figures["weights_bytes"]) == (Level.FINE, 16_000_000_000)
    small = only(check_fit(setup(cards=(card(total=16 * GIB),), asked=asked)), "fit")
    assert small.level is Level.FAIL
    beside = only(check_fit(setup(cards=(card(used=70 * GIB),), asked=asked)), "fit")
    assert beside.level is Level.FAIL
    assert "10.00 GiB" in beside.why
    assert only(check_fit(setup(asked=asked)), "fit").level is Level.UNSEEN
    assert only(check_fit(setup(asked=replace(asked, gpu_bytes=80 * GIB))), "fit").level is Level.FINE


def test_the_commands_own_settings_count(model: Path) -> None:
    command = ("vllm", "serve", "m", "--max-model-len", "4096", "-tp", "2", "--gpu-memory-utilization", "0.5")
    given = setup(*command, cards=(card(0), card(1)), asked=Asked(model=model))
    figures = only(check_fit(given), "fit").figures
    assert (figures["engine"], figures["context"], figures["tensor_parallel"]) == ("vllm", 4096, 2)
    assert figures["limit_bytes"] == 40 * GIB


def test_vllm_s_step_goes_by_the_name_of_the_card(model: Path) -> None:
    def fit(name: str, *options: str) -> Finding:
        command = ("vllm", "serve", "m", "--max-model-len", "8192", "--gpu-memory-utilization", "0.21", *options)
        return only(check_fit(setup(*command, cards=(card(name=name),), asked=Asked(model=model))), "fit")

    small, large = fit("NVIDIA A100-SXM4-80GB"), fit("NVIDIA H100 80GB HBM3")
    assert int(str(small.figures["total_bytes"])) < int(str(large.figures["total_bytes"]))
    assert "--card 'NVIDIA A100-SXM4-80GB'" in small.lines[0]
    told = fit("NVIDIA A100-SXM4-80GB", "--max-num-batched-tokens", "8192")
    assert told.figures["total_bytes"] == large.figures["total_bytes"]
    assert "--card" not in told.lines[0]


def test_types_steps_and_graphs_of_the_launch_line_count_and_stand_in_the_command_to_copy(model: Path) -> None:
    def fit(*options: str) -> Finding:
        given = setup("vllm", "serve", "m", "--max-model-len", "8192", *options, cards=(card(total=8 * GIB),),
                      asked=Asked(model=model, concurrency=4))  # fmt: skip
        return only(check_fit(given), "fit")

    plain, eight = fit(), fit("--kv-cache-dtype", "fp8")
    assert eight.figures["kv_bytes"] == int(str(plain.figures["kv_bytes"])) // 2
    assert int(str(fit("--enforce-eager").figures["total_bytes"])) < int(str(plain.figures["total_bytes"]))
    assert fit("--quantization", "awq").level is Level.UNSEEN
    failed = fit("--kv-cache-dtype", "fp8", "--gpu-memory-utilization", "0.01", "-tp", "1")
    assert failed.level is Level.FAIL
    said = "--engine vllm --context 8192 --concurrency 4 --fraction 0.01 --kv-dtype float8"
    assert failed.lines == (f"oomdoctor estimate {model} --gpu 8GiB {said}",)


@pytest.mark.parametrize(
    ("command", "context", "concurrency"),
    [
        (("vllm", "serve", "m", "--max-model-len", "80k"), 80_000, 1),
        (("vllm", "serve", "m", "--max-model-len=80K"), 81_920, 1),
        (("vllm", "serve", "m", "--max-model-len", "25.6k", "--max-num-seqs", "3"), 25_600, 3),
        (("vllm", "serve", "m", "--max-model-len", "auto"), 131_072, 1),
        (("python", "-m", "sglang.launch_server", "--context-length", "4096", "--max-running-requests", "8"), 4096, 8),
        (("llama-server", "-c", "32768", "-np", "4"), 8192, 4),
        (("llama-server", "-c", "0"), 131_072, 1),
    ],
)
def test_lengths_and_requests_of_each_engine(
    model: Path, command: tuple[str, ...], context: int, concurrency: int
) -> None:
    figures = only(check_fit(setup(*command, cards=(card(),), asked=Asked(model=model))), "fit").figures
    assert (figures["context"], figures["concurrency"]) == (context, concurrency)


@pytest.mark.parametrize(
    "options",
    [
        ("vllm", "serve", "m", "--max-model-len", "25.6K"),
        ("vllm", "serve", "m", "--max-num-seqs", "1k"),
        ("python", "-m", "sglang.launch_server", "--context-length", "80k"),
        ("vllm", "serve", "m", "--cpu-offload-gb", "8"),
        ("vllm", "serve", "m", "-pp", "2"),
        ("llama-server", "-c", "8192", "-ngl", "10"),
    ],
)
def test_what_a_launch_line_says_is_never_left_out_of_the_figure(model: Path, options: tuple[str, ...]) -> None:
    found = only(check_fit(setup(*options, cards=(card(),), asked=Asked(model=model))), "fit")
    assert found.level is Level.UNSEEN
    assert found.why


def test_layers_and_cache_types_of_llama_cpp(tmp_path: Path) -> None:
    write_llama_8b_gguf(tmp_path / "m.gguf")

    def fit(*options: str) -> Finding:
        command = ("llama-server", "-m", "m.gguf", "-c", "8192", *options)
        return only(check_fit(setup(*command, cards=(card(total=8 * GIB),), asked=Asked(model=tmp_path / "m.gguf"))),
                    "fit")  # fmt: skip

    plain, some = fit(), fit("-ngl", "16")
    assert some.figures["kv_bytes"] == int(str(plain.figures["kv_bytes"])) // 2
    assert int(str(some.figures["total_bytes"])) < int(str(plain.figures["total_bytes"]))
    assert fit("-ngl", "all").figures == fit("-ngl", "99").figures == plain.figures
    eight = fit("-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")
    assert eight.figures["kv_bytes"] == int(str(plain.figures["kv_bytes"])) * 34 // 64
    assert int(str(fit("-ub", "2048").figures["total_bytes"])) > int(str(plain.figures["total_bytes"]))


def test_sglang_starts_with_a_pool_that_is_shorter_than_its_context(model: Path) -> None:
    """It refuses longer requests; only without any pool, or where that length was asked for, it does not do."""
    command = ("python", "-m", "sglang.launch_server", "--context-length", "131072")
    given = setup(*command, cards=(card(total=24 * GIB),), asked=Asked(model=model))
    found = only(check_fit(given), "fit")
    assert (found.level, found.figures["fits"]) == (Level.WARN, "no")
    assert "refuses requests that are longer" in found.why
    asked = replace(given, asked=Asked(model=model, context=131_072))
    assert only(check_fit(asked), "fit").level is Level.FAIL
    small = replace(given, cards=setup(cards=(card(total=16 * GIB),)).cards)
    assert only(check_fit(small), "fit").level is Level.FAIL
    vllm = setup("vllm", "serve", "m", "--max-model-len", "131072", cards=given.cards.readings, asked=given.asked)
    assert only(check_fit(vllm), "fit").level is Level.FAIL


def test_the_command_to_copy_counts_states_as_the_check_did(tmp_path: Path) -> None:
    path = write_config(
        tmp_path, model_type="qwen3_next", num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=2,
        head_dim=256, hidden_size=2048, full_attention_interval=4, linear_num_key_heads=16,
        linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
    )  # fmt: skip
    for options, said in (((), False), (("--no-enable-prefix-caching",), True)):
        given = setup("vllm", "serve", "m", *options, cards=(card(total=GIB),), asked=Asked(model=path))
        assert any("--no-prefix-cache" in line for line in only(check_fit(given), "fit").lines) is said


def test_the_command_to_copy_runs_and_names_an_older_engine(tmp_path: Path) -> None:
    """Windows of vLLM before 0.26 hold one step; options that would change nothing are refused by `estimate`."""
    needed = {}
    for version in ("0.25.1", "0.33.0"):
        path = write_config(tmp_path, model_type="mistral", sliding_window=4096)
        command = ("vllm", "serve", "m", "--max-model-len", "100000", "--no-enable-prefix-caching")
        given = setup(*command, cards=(card(total=16 * GIB),), asked=Asked(model=path), versions={"vllm": version})
        found = only(check_fit(given), "fit")
        line = next((line for line in found.lines if "oomdoctor estimate" in line), None)
        assert line, found
        assert ("--engine-version 0.25.1" in line) is (version == "0.25.1")
        called = CliRunner().invoke(estimate, [*shlex.split(line.partition("estimate ")[2]), "--format", "json"])
        assert called.exit_code == 0, called.output
        needed[version] = json.loads(called.output)["total_bytes"]
        assert found.figures["total_bytes"] == needed[version]
    assert needed["0.25.1"] < needed["0.33.0"]


@pytest.mark.parametrize(
    ("command", "option", "per_token"),
    [
        # 18 layers with a window and 18 without, 2048 bytes each.
        (("vllm", "serve", "m"), ("--disable-hybrid-kv-cache-manager",), 36 * 2048),
        (("python", "-m", "sglang.launch_server"), ("--disable-hybrid-swa-memory",), 36 * 2048),
        (("python", "-m", "sglang.launch_server"), ("--swa-full-tokens-ratio", "0.25"), 18 * 2048 * 5 // 4),
        (("llama-server",), ("--swa-full",), 36 * 2048),
    ],
)
def test_options_that_change_what_windows_keep_count(
    tmp_path: Path, command: tuple[str, ...], option: tuple[str, ...], per_token: int
) -> None:
    path = write_config(
        tmp_path, model_type="gpt_oss", num_hidden_layers=36, num_attention_heads=64, num_key_value_heads=8,
        head_dim=64, hidden_size=2880, sliding_window=128,
    )  # fmt: skip
    asked = Asked(model=path, context=65_536, gpu_bytes=800 * GIB)
    plain, changed = (only(check_fit(setup(*command, *more, asked=asked)), "fit") for more in ((), option))
    assert changed.figures["kv_bytes"] == 65_536 * per_token
    assert plain.figures["kv_bytes"] != changed.figures["kv_bytes"]


def test_the_type_of_states_in_the_launch_line_counts(tmp_path: Path) -> None:
    path = write_config(
        tmp_path, model_type="mamba", intermediate_size=5120, hidden_size=2560, state_size=16, conv_kernel=4, expand=2,
        num_hidden_layers=64, time_step_rank=160,
    )  # fmt: skip

    def states(*options: str) -> object:
        given = setup("vllm", "serve", "m", *options, asked=Asked(model=path, context=512, gpu_bytes=80 * GIB))
        found = only(check_fit(given), "fit")
        assert found.level is Level.FINE, found.why
        return found.figures["kv_bytes"]

    assert states() == 64 * 5120 * (3 * 2 + 16 * 2)
    assert states("--mamba-ssm-cache-dtype", "auto") == states()
    assert states("--mamba-ssm-cache-dtype", "float32") == 64 * 5120 * (3 * 2 + 16 * 4)


def test_requests_that_wait_are_no_failure_of_a_launch_line(model: Path) -> None:
    command = ("vllm", "serve", "m", "--max-model-len", "8192", "--max-num-seqs", "256")
    given = setup(*command, cards=(card(total=24 * GIB),), asked=Asked(model=model))
    found = only(check_fit(given), "fit")
    assert (found.level, found.figures["fits"]) == (Level.FINE, "tight")
    assert "the others wait" in found.seen
    asked = replace(given, asked=Asked(model=model, concurrency=256))
    assert only(check_fit(asked), "fit").level is Level.WARN


@pytest.mark.parametrize(
    ("command", "longer"),
    [
        (("vllm", "serve", "m", "--max-model-len", "200000"), True),
        (("vllm", "serve", "m", "--max-model-len", "131072"), False),
        (("python", "-m", "sglang.launch_server", "--context-length", "200000"), True),
    ],
)
def test_a_context_beyond_the_models_own_is_told(model: Path, command: tuple[str, ...], longer: bool) -> None:
    given = setup(*command, cards=(card(total=800 * GIB),), asked=Asked(model=model))
    found = [each for each in check_fit(given) if each.check == "fit.length"]
    assert [each.level for each in found] == [Level.WARN] * longer
    if longer:
        assert "131,072" in found[0].why
        assert ("VLLM_ALLOW_LONG_MAX_MODEL_LEN" in found[0].why) == (command[0] == "vllm")


def test_a_cap_in_the_environment_limits_the_model(model: Path) -> None:
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.1"}
    given = setup(cards=(card(),), asked=Asked(model=model, context=512), variables=variables)
    assert only(check_fit(given), "fit").level is Level.FAIL


def test_a_card_divided_by_mig_is_as_large_as_an_instance(model: Path) -> None:
    traits = DeviceTraits(0, instances=(MigInstance("MIG-1", 10 * GIB, 9 * GIB),))
    given = setup(cards=(card(mig_mode=True),), traits=(traits,), asked=Asked(model=model, context=512))
    found = only(check_fit(given), "fit")
    assert (found.level, found.figures["capacity_bytes"]) == (Level.FAIL, 10 * GIB)


def test_training_is_not_judged_as_inference(model: Path) -> None:
    given = setup("torchrun", "t.py", cards=(card(),), asked=Asked(model=model))
    assert only(check_fit(given), "fit.training").level is Level.UNSEEN


def test_a_trainers_own_words_stand_in_the_command_to_copy(model: Path, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text("{}")
    command = ("torchrun", "--nproc_per_node=8", "t.py", "--per_device_train_batch_size", "4", "--max_seq_length",
               "2048", "--gradient_checkpointing", "--deepspeed", str(tmp_path / "ds.json"))  # fmt: skip
    found = only(check_fit(setup(*command, cards=(card(),), asked=Asked(model=model))), "fit.training")
    said = f"--launch-config {tmp_path}/ds.json --ranks 8 --batch 4 --seq 2048 --checkpointing"
    assert found.lines == (f"oomdoctor estimate {model} --train --gpu 80GiB {said}",)


def test_a_model_that_is_not_understood_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nothing-known"}')
    assert only(check_fit(setup(cards=(card(),), asked=Asked(model=tmp_path))), "fit").level is Level.UNSEEN


def test_a_check_that_breaks_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> list[Finding]:
        raise RuntimeError("boom")

    monkeypatch.setattr(look, "check_cards", broken)
    found = check_all(setup(cards=(card(),)))
    assert "boom" in only(found.findings, "check").why
    assert any(each.check == "host.shm" for each in found.findings)


def test_both_texts_show_all_and_no_name_acts_on_the_terminal() -> None:
    hostile = card(name="\x1b[31mred`<b>", used=50 * GIB, processes=(held(1, 50 * GIB, "x\x1b]0;y\x07" + "long" * 50),))
    outlook = check_all(setup("vllm", "serve", "m", "--batch-size", "8", cards=(hostile,)))
    outlook = replace(outlook, measured=(MEASURED,), not_measured=(NotMeasured(1, "busy"),))
    terminal, markdown = as_terminal(outlook), as_markdown(outlook)
    assert max(map(len, terminal.splitlines())) <= 80
    for text in (terminal, markdown):
        assert "\x1b" not in text
        assert "460.00 MiB" in text
        assert "Stands in the way" in text
    assert terminal.index("Stands in the way") < terminal.index("Worth a look") < terminal.index("\nFine")
    assert "\x1b[" in as_terminal(outlook, colour=True)
    jsonschema.validate(json.loads(as_json(outlook)), SCHEMA)
    page = as_html(outlook)
    assert "red`&lt;b&gt;" in page
    assert "<script" not in page
    assert "\x1b" not in page
    assert [text for text in ("Stands in the way", "460.00 MiB", "--batch-size 8 is not") if text not in page] == []


@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_is_wider_than_the_terminal_but_those_to_copy(columns: int) -> None:
    lines = as_terminal(check_all(setup("/etc", "--x", cards=(card(used=50 * GIB),))), width=columns).splitlines()
    assert [line for line in lines if len(line) > columns and not line.startswith("      ")] == []


def test_a_page_by_its_suffix_without_a_secret_of_the_command(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert called("--output", page, "--", "/bin/true", "--api-key", "sk-0123456789abcdefghij").exit_code == 0
    assert "/bin/true --api-key" in page.read_text(encoding="utf-8")
    assert "sk-0123456789abcdefghij" not in page.read_text(encoding="utf-8")


def test_what_was_measured_is_kept_for_the_user_only_and_replaced() -> None:
    path = keep_measured([MEASURED])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_measured() == (MEASURED,)
    newer = replace(MEASURED, context_bytes=1 << 20, time_seconds=1_796_000_001.0)
    keep_measured([newer, replace(newer, torch=None)])
    assert len(read_measured()) == 2
    assert measured_overhead(79 * GIB, VLLM) == newer
    assert measured_overhead(24 * GIB, VLLM) is None
    assert measured_overhead(80 * GIB, LLAMA_CPP) == replace(newer, torch=None)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema": "oomdoctor.overhead/1", "measured": [1, {}, {"gpu": 1}]}', "[" * 9999,
     '{"schema": "oomdoctor.overhead/1", "measured": 5}'],
)  # fmt: skip
def test_a_damaged_store_counts_for_nothing(text: str) -> None:
    store_path().parent.mkdir(parents=True)
    store_path().write_text(text)
    assert read_measured() == ()
    keep_measured([MEASURED])
    assert read_measured() == (MEASURED,)


def test_estimate_counts_with_what_was_measured_and_says_so(model: Path) -> None:
    keep_measured([MEASURED])
    arguments = [str(model), "--gpu", "80GiB", "--context", "512", "--format", "json"]
    told = json.loads(CliRunner().invoke(estimate, arguments, standalone_mode=False).output)
    assert told["overhead_bytes"] == 460 << 20
    assert told["known"]["overhead_bytes"]["known"] == "measured"
    assert "check --overhead: H100, driver 580.1, torch 2.6.0" in json.dumps(told)
    given = json.loads(CliRunner().invoke(estimate, [*arguments, "--overhead", "1GiB"], standalone_mode=False).output)
    assert given["overhead_bytes"] == GIB


def test_it_takes_less_than_two_seconds_and_loads_no_torch(model: Path) -> None:
    """Of the processor, so that others on the machine do not count; the one wait, for the driver, is added."""
    command = ["check", "--model", str(model), "--gpu", "80GiB", "--", sys.executable, "train.py"]
    text = (
        "import resource, sys\n"
        "from oomdoctor.cli.main import main\n"
        f"sys.argv = ['oomdoctor', *{command!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('torch' in sys.modules, used.ru_utime + used.ru_stime, file=sys.stderr)\n"
    )
    ended = [subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True) for _ in range(2)]
    assert all("The model needs" in each.stdout for each in ended)
    torch, seconds = zip(*(each.stderr.split()[-2:] for each in ended), strict=True)
    assert set(torch) == {"False"}
    # The first may have to compile what it loads.
    assert min(map(float, seconds)) + NVML_SECONDS < 2


def test_a_driver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(Nvml, "open", lambda _self: answered.wait(30))
    begun = time.monotonic()
    found = look_at_cards(0.05)
    answered.set()
    assert "did not answer" in (found.why_none or "")
    assert time.monotonic() - begun < 10


def test_it_waits_for_no_module_that_it_does_not_need(tmp_path: Path) -> None:
    """GIVEN a check with a model WHEN it is done THEN what reads snapshots and makes reports was not loaded."""
    write_config(tmp_path)
    code = (
        "import sys; from oomdoctor.cli.main import main\n"
        f"sys.argv = ['oomdoctor', 'check', '--model', {str(tmp_path)!r}, '--gpu', '80GiB', '--', 'vllm', 'serve']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name in ("
        "'numpy', 'jinja2', 'oomdoctor.facts.derive', 'oomdoctor.model.snapshot', 'oomdoctor.report.view',"
        " 'oomdoctor.allocator.owners')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.splitlines()[-1] == "[]"
