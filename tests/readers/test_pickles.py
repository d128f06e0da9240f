"""The loader builds plain data and refuses, unrun, whatever asks for more."""

from __future__ import annotations

import bz2
import copyreg
import gc
import gzip
import lzma
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.errors import InputRefused
from oomdoctor.readers import pickles
from oomdoctor.readers.pickles import collector_paused, load_plain, looks_like_pickle

PLAIN = {"segments": [{"address": 1 << 63, "name": "ü", "pool": (0, 0)}], "f": 1.5, "n": None, "b": b"x", "t": True}


class _Touch:
    """Unpickling this with pickle.load creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


class _Registered:
    pass


def _same(content: object) -> object:
    return content


def _load(tmp_path: Path, data: bytes) -> object:
    path = tmp_path / "file.pickle"
    path.write_bytes(data)
    return load_plain(path, _same)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_comes_back_equal(tmp_path: Path, protocol: int) -> None:
    # Protocols 0 to 2 write bytes as a call of _codecs.encode, which is code.
    content = PLAIN if protocol > 2 else {key: value for key, value in PLAIN.items() if key != "b"}
    data = pickle.dumps(content, protocol)
    assert _load(tmp_path, data) == content
    assert _load(tmp_path, gzip.compress(data)) == content
    assert looks_like_pickle(data[:64])
    assert looks_like_pickle(gzip.compress(data)[:64])
    assert _load(tmp_path, lzma.compress(data)) == content
    assert looks_like_pickle(lzma.compress(data))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_runs_code_is_refused_unrun(tmp_path: Path, protocol: int) -> None:
    trap, witness = tmp_path / "touched", tmp_path / "witness"
    data = pickle.dumps({"segments": [_Touch(trap)]}, protocol)
    pickle.loads(pickle.dumps(_Touch(witness), protocol))
    assert witness.exists(), "the trap must work, or this test proves nothing"
    with pytest.raises(InputRefused, match=r"^it asks to load posix\.system.*Nothing in it was run"):
        _load(tmp_path, data)
    assert not trap.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"cposix\nsystem\n(S'touch %s'\ntR.",  # GLOBAL, REDUCE
        b"(S'touch %s'\niposix\nsystem\n.",  # INST
        b"(cposix\nsystem\nS'touch %s'\no.",  # OBJ
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R.",  # STACK_GLOBAL
        b"\x80\x02cposix\nsystem\n(S'touch %s'\nt\x81.",  # NEWOBJ
        b"}S'touch %s'\nb.",  # BUILD on a dict
        b"S'system'\n(S'touch %s'\ntR.",  # REDUCE on text
    ],
)
def test_every_opcode_that_could_call_is_refused(tmp_path: Path, body: bytes) -> None:
    trap = tmp_path / "touched"
    with pytest.raises(InputRefused, match=r"was run"):
        _load(tmp_path, body.replace(b"%s", str(trap).encode()))
    assert not trap.exists()


def test_persistent_ids_are_refused(tmp_path: Path) -> None:
    for data in (b"Psomething\n.", b"\x80\x02K\x01Q."):
        with pytest.raises(InputRefused, match="persistent id"):
            _load(tmp_path, data)


def test_an_extension_is_refused_even_where_it_is_cached(tmp_path: Path) -> None:
    copyreg.add_extension(_Registered.__module__, "_Registered", 0xF0)
    try:
        data = pickle.dumps(_Registered, 2)
        assert pickle.loads(data) is _Registered, "fills the cache of extensions"
        with pytest.raises(InputRefused, match=r"_Registered.*Nothing in it was run"):
            _load(tmp_path, data)
    finally:
        copyreg.remove_extension(_Registered.__module__, "_Registered", 0xF0)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_cut_anywhere_is_refused(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"a": ["text", 1, 2.5, 1 << 70]}, protocol)
    for length in range(1, len(data)):
        with pytest.raises(InputRefused, match=r"^it is (?:cut off|damaged)"):
            _load(tmp_path, data[:length])


def test_empty_missing_and_damaged_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="is empty"):
        _load(tmp_path, b"")
    with pytest.raises(InputRefused, match="cannot be read: No such file"):
        load_plain(tmp_path / "none", _same)
    with pytest.raises(InputRefused, match="damaged or cut off gzip"):
        _load(tmp_path, gzip.compress(pickle.dumps(PLAIN))[:-9])
    with pytest.raises(InputRefused, match="damaged or cut off xz"):
        _load(tmp_path, lzma.compress(pickle.dumps(PLAIN))[:-9])
    with pytest.raises(InputRefused, match="damaged or cut off bzip2"):
        _load(tmp_path, bz2.compress(pickle.dumps(PLAIN))[:-9])
    with pytest.raises(InputRefused, match="unpacks to more than 256 times"):
        _load(tmp_path, bz2.compress(bytes(200 << 20)))
    if sys.version_info < (3, 14):
        with pytest.raises(InputRefused, match="packed by zstd, which this Python cannot unpack: unpack it"):
            _load(tmp_path, b"\x28\xb5\x2f\xfd\x04\x00")
    with pytest.raises(InputRefused, match="cut off"):
        _load(tmp_path, b"\x80\x04\x95\xff\xff\x00\x00\x00\x00\x00\x00]")


@given(st.binary(min_size=1, max_size=60), st.booleans())
@settings(max_examples=100)
def test_junk_is_refused_or_is_plain(tmp_path_factory: pytest.TempPathFactory, junk: bytes, framed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "junk"
    path.write_bytes(b"\x80\x04" + junk if framed else junk)
    # Anything but a refusal (a crash, an exception of pickle's own) fails the test.
    with suppress(InputRefused):
        load_plain(path, _same)


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x02Nr\xff\xff\xff\x7f0N.",  # LONG_BINPUT at the highest index: 32 GiB of memo
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00.",  # BINBYTES8 of 1 TiB
        b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",  # BYTEARRAY8 of 1 TiB
    ],
)
def test_a_few_bytes_cannot_claim_all_memory(tmp_path: Path, bomb: bytes) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(InputRefused, match=r"more memory|cut off"):
        _load(tmp_path, bomb)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_deep_nesting_ends_in_a_refusal_and_not_in_a_crash(tmp_path: Path) -> None:
    """As a key, a nested tuple is hashed level by level: half a million of them overrun the usual stack of 8 MiB."""
    levels = 500_000
    path = tmp_path / "deep.pickle"
    path.write_bytes(b"\x80\x02}(X\x08\x00\x00\x00segments]N" + b"\x85" * levels + b"K\x01u.")
    code = (
        "import sys, pathlib; from oomdoctor.readers.snapshot import read_snapshot; from oomdoctor.errors import *\n"
        "try: read_snapshot(pathlib.Path(sys.argv[1]))\nexcept InputRefused as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nested too deeply" in done.stdout


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_what_unpacks_without_end_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InputRefused, match="times its size"):
        _load(tmp_path, compress(b"\x80\x04" + b"N0" * (64 << 20)))


def test_the_collector_is_off_inside_and_as_before_outside() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"torch.OutOfMemoryError",
        b"(EngineCore) ",
        b"{'loss': 1}",
        b"[rank0]: ",
        b"cuda\nout\nof",
        b"\x1f\x8bxx",
    ],
)
def test_text_is_not_taken_for_a_pickle(text: bytes) -> None:
    assert not looks_like_pickle(text)


def test_hostile_heads_are_recognised() -> None:
    assert looks_like_pickle(b"cposix\nsystem\n(S'x'\ntR.")
    assert looks_like_pickle(b"(iposix\nsystem\n.")


def test_who_waits_is_told_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "_WATCH_SECONDS", 0.001)
    data = pickle.dumps([{"number": n} for n in range(200_000)])
    (tmp_path / "file.pickle").write_bytes(data)
    told: list[tuple[int, int]] = []
    load_plain(tmp_path / "file.pickle", len, progress=lambda done, size: told.append((done, size)))
    assert told == sorted(told)
    assert {size for _, size in told} == {len(data)}
    assert sum(0 < done < len(data) for done, _ in told) > 0


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, lzma.compress])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_of_a_file_that_is_cut_off_it_is_said_what_to_do(
    tmp_path: Path, pack: Callable[[bytes], bytes], share: float
) -> None:
    data = pack(pickle.dumps({"segments": [{"address": number} for number in range(5_000)]}, 4))
    path = tmp_path / "s.pickle"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputRefused, match=r"cut off.*; copy it again, or have it written anew$"):
        load_plain(path, lambda content: content)


def test_a_sparse_file_is_refused_before_it_is_read(tmp_path):
    """It may say to be as long as one likes, and would be read into memory."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": []}))
    try:
        os.truncate(path, 1 << 40)
    except OSError:
        pytest.skip("the file system takes no such file")
    with pytest.raises(InputRefused, match="never written"):
        load_plain(path, lambda content: content)
