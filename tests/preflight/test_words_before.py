"""GIVEN commands, variables and scripts WHEN a run is checked THEN what is written in vain is said, by the versions."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from preflight.allocator_strings import ACCEPTED, CARELESS, OF_CUDA_BUILDS, REFUSED
from preflight.given import levels, only, setup

from oomdoctor.preflight.command import read_command
from oomdoctor.preflight.finding import Level
from oomdoctor.preflight.interpreter import find_interpreter
from oomdoctor.preflight.words import check_words


def settings(*command: str, **given: object) -> list[tuple[Level, str]]:
    found = check_words(setup(*command, **given))  # type: ignore[arg-type]
    return [(each.level, each.seen.split(" ")[0]) for each in found if each.check == "setting"]


@pytest.mark.parametrize(
    ("command", "versions", "expected"),
    [
        (("vllm", "serve", "m", "–-max-model-len", "8"), {}, [(Level.FAIL, "–-max-model-len")]),
        (("vllm", "serve", "m", "—gpu-memory-utilization", "0.8"), {}, [(Level.FAIL, "—gpu-memory-utilization")]),
        (("vllm", "serve", "m", "--batch-size", "8"), {}, [(Level.FAIL, "--batch-size")]),
        (("vllm", "serve", "m", "--swap-space", "4"), {"vllm": "0.20.0"}, [(Level.FAIL, "--swap-space")]),
        (("vllm", "serve", "m", "--swap-space", "4"), {"vllm": "0.11.0"}, []),
        (("vllm", "serve", "m", "--kv-cache-dtype", "int8"), {"vllm": "0.11.0"}, [(Level.FAIL, "--kv-cache-dtype")]),
        (("python", "-m", "sglang.launch_server", "--gpu-memory-utilization", "0.8"), {},
         [(Level.FAIL, "--gpu-memory-utilization")]),
        (("llama-server", "-m", "x.gguf", "--max-model-len", "8"), {}, [(Level.FAIL, "--max-model-len")]),
        (("llama-server", "-m", "x.gguf", "-c", "8192", "-ngl", "99"), {}, []),
        (("bash", "-c", "vllm serve m --batch-size 8"), {}, [(Level.FAIL, "--batch-size")]),
        (("vllm", "serve", "m", "--max-model-len", "8192"), {}, []),
    ],
)  # fmt: skip
def test_options(command: tuple[str, ...], versions: dict[str, str], expected: list[tuple[Level, str]]) -> None:
    assert settings(*command, versions=versions) == expected


@pytest.mark.parametrize(
    ("value", "version", "level"),
    [
        ("expandable_segments:True", "2.6.0", []),
        ("expandable_segments:True", "2.0.1", [Level.FAIL]),
        ("expandable_segment:True", "2.6.0", [Level.FAIL]),
        ("max_split_size_mb=128", "2.6.0", [Level.FAIL]),
        ("backend:cudaMallocAsync,max_split_size_mb:128", "2.6.0", [Level.WARN]),
        (",,,:::", "2.6.0", [Level.FAIL, Level.FAIL]),
        ("max_split_size_mb:10", "2.13.0", [Level.FAIL]),
        ("max_split_size_mb:21", "2.13.0", []),
        ("garbage_collection_threshold:2", "2.13.0", [Level.FAIL]),
        ("garbage_collection_threshold:0", "2.13.0", [Level.FAIL]),
        ("garbage_collection_threshold:0.8", "2.13.0", []),
        ("roundup_power2_divisions:3", "2.13.0", [Level.FAIL]),
        ("roundup_power2_divisions:[256:1,512:2,>:8]", "2.13.0", []),
        ("roundup_power2_divisions:8", "2.13.0", []),
    ],
)
def test_the_allocators_variable(value: str, version: str, level: list[Level]) -> None:
    found = list(check_words(setup(variables={"PYTORCH_CUDA_ALLOC_CONF": value}, versions={"torch": version})))
    assert levels(found, "setting") == level
    assert levels(found, "allocator") == ([] if level else [Level.FINE])


@pytest.mark.parametrize(
    ("value", "level"),
    [(text, Level.FINE) for text in ACCEPTED]
    + [(text, Level.WARN) for text in CARELESS]
    + [(text, Level.FAIL) for text in REFUSED],
)
def test_the_allocators_grammar_is_torchs(value: str, level: Level) -> None:
    found = list(check_words(setup(variables={"PYTORCH_CUDA_ALLOC_CONF": value}, versions={"torch": "2.13.0"})))
    assert {each.level for each in found} == {level}


@pytest.mark.parametrize(("value", "accepted"), OF_CUDA_BUILDS.items())
@pytest.mark.parametrize("version", ["2.14.1+cu130", "2.14.1+cpu"])
def test_what_only_a_cuda_build_parses_is_judged_too(value: str, accepted: bool, version: str) -> None:
    found = list(check_words(setup(variables={"PYTORCH_CUDA_ALLOC_CONF": value}, versions={"torch": version})))
    without = version.endswith("+cpu")
    assert {each.level for each in found} == {Level.FINE if accepted else Level.WARN if without else Level.FAIL}
    words = "this one has no CUDA and reads none" if accepted else "has no CUDA, does not read it; a CUDA build: "
    assert any(words in f"{each.seen} {each.why}" for each in found) == without


def test_a_value_of_which_nothing_is_known_is_not_fine() -> None:
    given = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,expandable_segments_reserve:7"}
    found = list(check_words(setup(variables=given, versions={"torch": "2.15.0"})))
    assert levels(found, "allocator") == [Level.UNSEEN]
    assert found[-1].seen == "Not judged: what expandable_segments_reserve is set to"


@pytest.mark.parametrize(
    ("value", "accepted"), [(text, True) for text in ACCEPTED + CARELESS] + [(text, False) for text in REFUSED]
)
def test_torch_itself_says_so_of_each(value: str, accepted: bool) -> None:
    torch = pytest.importorskip("torch", minversion="2.13")
    if not hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        pytest.skip("this torch does not let itself be asked")
    torch._C._accelerator_setAllocatorSettings("large_segment_size_mb:20")  # one test's outlasts it
    try:
        torch._C._accelerator_setAllocatorSettings(value)
    except (RuntimeError, ValueError, IndexError):
        assert not accepted
    else:
        assert accepted


def test_the_short_variable_is_ignored_before_torch_2_10() -> None:
    given = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert levels(check_words(setup(variables=given, versions={"torch": "2.8.0"})), "setting") == [Level.WARN]
    assert levels(check_words(setup(variables=given, versions={"torch": "2.10.0"})), "setting") == []


@pytest.mark.parametrize(
    "value", ["bogus_opt:1", "garbage_collection_threshold:1.5", "expandable_segment:True", "expandable_segments=yes"]
)
def test_a_wrong_value_under_the_short_name_is_told_and_never_advised(value: str) -> None:
    unknown = list(check_words(setup(variables={"PYTORCH_ALLOC_CONF": value})))
    assert Level.FAIL in levels(unknown, "setting")
    ignored = next(each for each in unknown if each.figures.get("outcome") == "ignored")
    assert ignored.seen == f"PYTORCH_ALLOC_CONF={value} is read by nobody in some versions"
    assert not ignored.lines
    assert "wrong besides" in ignored.do

    old = only(check_words(setup(variables={"PYTORCH_ALLOC_CONF": value}, versions={"torch": "2.8.0"})), "setting")
    assert (old.level, old.lines) == (Level.WARN, ())
    assert old.seen.endswith("is read by nobody")
    assert "wrong besides" in old.do

    new = check_words(setup(variables={"PYTORCH_ALLOC_CONF": value}, versions={"torch": "2.10.0"}))
    assert set(levels(new, "setting")) == {Level.FAIL}


def test_an_unknown_torch_is_not_fine() -> None:
    found = list(check_words(setup(variables={"PYTORCH_CUDA_ALLOC_CONF": "throw_on_cudamalloc_oom:True"})))
    assert levels(found, "allocator") == [Level.UNSEEN]


def test_an_option_that_the_installed_engine_does_not_name(tmp_path: Path) -> None:
    source = tmp_path / "vllm" / "engine"
    source.mkdir(parents=True)
    (source / "arg_utils.py").write_text(
        "class EngineArgs:\n    max_model_len: int = 0\n    enable_eplb: bool = False\n"
    )
    command = ("vllm", "serve", "m", "--max-model-length", "8", "--max-model-l", "9", "--no-enable-eplb")
    given = setup(*command, versions={"vllm": "0.11.0"}, site=(tmp_path,))
    found = [each.seen for each in check_words(given) if each.check == "setting"]
    assert [each.split(" ")[0] for each in found] == ["--max-model-length"]
    bogus = list(
        check_words(setup("vllm", "serve", "m", "--bogus", "3", versions={"vllm": "0.11.0"}, site=(tmp_path,)))
    )
    assert [each.seen for each in bogus if each.level is Level.FAIL][-1] == "--bogus 3 is not accepted"
    assert levels(bogus, "options") == []  # not both wrong and known to be right


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ("--max-model-len banana", True),
        ("--max-model-len 32k", False),
        ("--max-model-len auto", False),
        ("--max-model-len -1", False),
        ("--max-model-len $LENGTH", False),
        ("--max-model-len 0", True),
        ("--max-num-seqs 0", True),
        ("--max-num-seqs 1", False),
        ("--max-num-seqs -3", True),
        ("--tensor-parallel-size two", True),
        ("--gpu-memory-utilization 24GiB", True),
        ("--gpu-memory-utilization 90%", True),
        ("--gpu-memory-utilization 90", True),
        ("--gpu-memory-utilization 0", True),
        ("--gpu-memory-utilization .9", False),
        ("--gpu-memory-utilization 9e-1", False),
    ],
)
@pytest.mark.parametrize("versions", [{}, {"vllm": "0.11.0"}])
def test_a_value_that_is_no_such_number_is_wrong(options: str, wrong: bool, versions: dict[str, str]) -> None:
    found = list(check_words(setup("vllm", "serve", "m", *options.split(" "), versions=versions)))
    assert [(each.level, each.seen) for each in found if each.check == "setting"] == (
        [(Level.FAIL, f"{options} is not accepted")] if wrong else []
    )
    assert levels(found, "options") == ([] if wrong else [Level.FINE])


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("vllm serve m --gpu-mem 24GiB", "--gpu-mem"),
        ("llama-server -m x.gguf --bogus --port 80 -c 8", "--bogus"),
        ("python -m sglang.launch_server --model-path m --zorb 1 --tp-size 2", "--zorb"),
    ],
)
def test_an_option_of_which_nothing_is_known_is_not_fine(command: str, names: str) -> None:
    found = list(check_words(setup(*command.split(" "))))
    unchecked = only(found, "options.unchecked")
    assert (unchecked.level, unchecked.seen) == (Level.UNSEEN, f"Not checked: {names}")
    assert only(found, "options").seen.startswith("No other option")


def test_an_option_that_is_told_is_not_told_again_as_not_checked() -> None:
    found = list(check_words(setup("vllm", "serve", "m", "--gpu-memory-utilisation", "0.8")))
    assert levels(found, "setting") == [Level.FAIL]
    assert levels(found, "options.unchecked") == []


@pytest.mark.parametrize(
    "name", ["PYTORCH_CUDA_ALOC_CONF", "PYTORCH_ALLOC_CONFIG", "CUDA_VISIBLE_DEVICE", "TORCH_CUDA_ALLOC_CONF"]
)
def test_a_variable_that_is_nearly_one_that_is_read(name: str) -> None:
    for given in (setup(variables={name: "x:1"}), setup("env", f"{name}=x:1", "python3")):
        found = [each for each in check_words(given) if each.check == "setting"]
        assert [(each.level, each.seen.split("=")[0]) for each in found] == [(Level.WARN, name)]
        assert "Did you mean" in found[0].do


@pytest.mark.parametrize(
    "name",
    ["PYTORCH_ALLOC_CONF", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NCCL_P2P_DISABLE", "OMP_NUM_THREADS",
     "VLLM_WORKER_MULTIPROC_METHOD", "CUDA_VISIBLE_DEVICES_BACKUP_OF_MINE", "HF_HUB_CACHE"],
)  # fmt: skip
def test_other_variables_are_nobody_s_slip(name: str) -> None:
    assert [each for each in check_words(setup(variables={name: ""})) if each.check == "setting"] == []


def test_a_script_is_parsed_and_not_run(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        "raise SystemExit('this must not run')\n"
        "model.generate(\n    **x,\n    max_new_tokens=5,\n    cache_implementation='int8',\n)\n"
        "# model.config.max_seq_len = 3\n"
        "model.config.max_seq_len = 4\n"
    )
    found = [each for each in check_words(setup("python3", str(script))) if each.check == "setting"]
    assert [(each.level, each.figures["where"]) for each in found] == [
        (Level.FAIL, f"{script}:2"), (Level.WARN, f"{script}:8"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["def (", "\0", "x" * 100 + "(" * 5000, "\udcff"])
def test_a_script_that_is_no_python_breaks_nothing(tmp_path: Path, text: str) -> None:
    script = tmp_path / "x.py"
    script.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert settings("python3", str(script)) == []


@pytest.mark.parametrize(
    "command", [("no-such-program-here",), ("python3 train.py",), ("CUDA_VISIBLE_DEVICES=1",), ("python3", "nope.py")]
)
def test_a_command_that_cannot_start(command: tuple[str, ...]) -> None:
    assert only(check_words(setup(*command)), "command").level is Level.FAIL


def test_what_is_no_program_is_told_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("")
    (tmp_path / "app").mkdir()
    said = {
        each: only(check_words(setup(*words)), "command").why
        for each, words in {
            "folder": (str(tmp_path),),
            "plain": (str(tmp_path / "plain.py"),),
            "absent": (str(tmp_path / "absent"),),
            "app": ("python3", "-X", "dev", str(tmp_path / "app"), "--config", "x.py"),
        }.items()
    }
    assert said == {
        "folder": "It is a folder",
        "plain": "It is there, but may not be executed",
        "absent": "There is no such file.",
        "app": "Python finds no __main__.py in it",
    }
    (tmp_path / "app" / "__main__.py").write_text("")
    assert only(check_words(setup("python3", str(tmp_path / "app"))), "command").level is Level.FINE


def environment(folder: Path, **packages: str) -> Path:
    site = folder / "lib" / "python3.11" / "site-packages"
    for name, version in packages.items():
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    python = folder / "bin" / "python"
    python.write_bytes(b"\x7fELF")
    python.chmod(stat.S_IRWXU)
    return python


@pytest.mark.parametrize(
    "first", ["#!{python}", "#!/usr/bin/env -S python", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"']
)
def test_torch_is_found_without_running_anything(tmp_path: Path, first: str) -> None:
    python = environment(tmp_path / "a b", torch="2.6.0+cu124", vllm="0.8.5")
    program = tmp_path / "serve"
    program.write_text(first.format(python=python) + "\nraise SystemExit('this must not run')\n")
    program.chmod(stat.S_IRWXU)
    words = (str(program), "x")
    if " " in str(python) and first == "#!{python}":
        assert find_interpreter(words, {"PATH": str(python.parent)}).path is None  # the kernel does not start it either
        return
    found = find_interpreter(words, {"PATH": f"{python.parent}:/usr/bin"})
    assert (found.path, found.versions) == (python, {"torch": "2.6.0+cu124", "vllm": "0.8.5"})


def test_broken_metadata_is_no_version(tmp_path: Path) -> None:
    python = environment(tmp_path, torch="2.6.0")
    (tmp_path / "lib/python3.11/site-packages/torch-2.6.0.dist-info/METADATA").write_bytes(b"\xff\xfe\0")
    assert "torch" not in find_interpreter((str(python),), {}).versions


def test_a_version_managers_script_is_followed(tmp_path: Path) -> None:
    real = environment(tmp_path / "versions" / "3.11.9", torch="2.7.0")
    shim = tmp_path / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 9\n")
    shim.chmod(stat.S_IRWXU)
    assert find_interpreter((str(shim),), {"PYENV_VERSION": "3.11.9"}).path == real
    assert find_interpreter((str(shim),), {"PYENV_VERSION": "../x"}).path is None


def test_what_only_starts_the_command_is_looked_through() -> None:
    read = read_command(("env", "-u", "X", "A=1", "nohup", "nice", "-n", "5", "torchrun", "--nproc_per_node=4", "t.py"))
    assert (read.words[0], read.ranks, dict(read.assigned), read.program) == ("torchrun", 4, {"A": "1"}, "torchrun")
    assert str(read.script) == "t.py"
