"""What reads input from strangers, each as a function of bytes, with whole inputs to start from.

A target returns when the input was read or refused; whatever else it raises is a defect.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from zlib import crc32

from oomdoctor.bundle.redact import StreamMasker, mask_text
from oomdoctor.diagnose.pipeline import diagnose_evidence
from oomdoctor.diagnose.pseudonyms import Pseudonyms
from oomdoctor.diagnose.redaction import with_pseudonyms
from oomdoctor.errors import OomdoctorError
from oomdoctor.estimate.lengths import read_lengths
from oomdoctor.estimate.model_input import read_model
from oomdoctor.model.diagnosis import Diagnosis
from oomdoctor.model.facts import Scope
from oomdoctor.playbook.expression import parse_condition
from oomdoctor.playbook.load import Playbook, load_playbook, load_rule
from oomdoctor.readers.inputs import read_inputs
from oomdoctor.report import FORMATS, render
from oomdoctor.report.interactive import scripts

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_logs"
_CONFIG = (
    b'{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, '
    b'"hidden_size": 64, "intermediate_size": 128, "vocab_size": 1000, "torch_dtype": "bfloat16", '
    b'"sliding_window": null, "rope_scaling": {}}'
)
_SAFETENSORS = b'{"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}}'


@dataclass(frozen=True)
class Target:
    """`run` raises where the input did harm; `seeds` are whole inputs."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    seconds_a_megabyte: float = 10.0
    """CPU time allowed beyond two seconds."""


@contextmanager
def _file(data: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="oomdoctor-fuzz-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


@cache
def _playbook() -> Playbook:
    return load_playbook(without=("cases", "zh"))


def _diagnosed(path: Path) -> Diagnosis:
    return diagnose_evidence(read_inputs([path]), _playbook(), now_seconds=0)


class _Tags(HTMLParser):
    """What of a page could run: scripts, and attributes that hold code."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.handlers += [
            name for name, value in attrs if name.startswith("on") or (value or "").startswith("javascript:")
        ]
        if tag in ("img", "iframe", "object", "embed", "base", "form"):
            self.handlers.append(tag)


MOST_SCRIPTS = len(scripts(charts=True)) + 1
"""A report's own, and its data."""


def _analyze(data: bytes) -> None:
    with _file(data, "input") as path:
        _show(_diagnosed(path), data)


def _show(found: Diagnosis, data: bytes) -> None:
    """In one of the forms; which one is left to chance."""
    choice = crc32(data)
    if choice % 3 == 0:
        found = with_pseudonyms(found, Pseudonyms())
    form = FORMATS[choice // 3 % len(FORMATS)]
    text = render(found, form)
    text.encode("utf-8")
    if form == "html":
        tags = _Tags()
        tags.feed(text)
        assert (tags.scripts <= MOST_SCRIPTS, tags.handlers) == (True, []), "text became markup"
    elif form == "terminal":
        assert not {"\x1b", "\x07"} & set(text), "text reached the terminal as a command"


def _logs() -> list[bytes]:
    files = [*SAMPLES.glob("*.log"), *SAMPLES.glob("*.txt"), SAMPLES / "fragmentation" / "crash.log"]
    tables = ROOT / "tests" / "readers" / "log"
    return [path.read_bytes() for path in (*files, *sorted(tables.rglob("*.log")))]


def _snapshot(data: bytes) -> None:
    with _file(data, "snapshot.pickle") as path:
        _show(_diagnosed(path), data)


def _snapshots() -> list[bytes]:
    return [(SAMPLES / "fragmentation" / "snapshot.pickle").read_bytes()]


def _bundle(data: bytes) -> None:
    """The first byte chooses which of a bundle's files the rest replaces."""
    with tempfile.TemporaryDirectory(prefix="oomdoctor-fuzz-") as folder:
        bundle = Path(folder) / "incident"
        shutil.copytree(SAMPLES / "run-list-own-limit", bundle)
        files = _bundle_files(bundle)
        files[data[0] % len(files) if data else 0].write_bytes(data[1:])
        _show(_diagnosed(bundle), data)


def _bundle_files(bundle: Path) -> list[Path]:
    return sorted(path for path in bundle.rglob("*") if path.is_file())


def _bundles() -> list[bytes]:
    files = _bundle_files(SAMPLES / "run-list-own-limit")
    return [bytes([number]) + path.read_bytes() for number, path in enumerate(files)]


def _rule(data: bytes) -> None:
    with _file(data, "XXX001-fuzz.yaml") as path, _refusing():
        load_rule(path)


def _rules() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "rules").rglob("*.yaml"))[:12]]


def _expression(data: bytes) -> None:
    with _refusing():
        parse_condition(data.decode("utf-8", "replace"), Scope.DEVICE)


def _expressions() -> list[bytes]:
    return [
        b"oom.requested_bytes > 2 * oom.free_bytes and not known(oom.foreign_bytes)",
        b"torch.version >= '2.1' or growth.bytes / device.total_bytes > 50%",
        b"max(oom.reserved_bytes - oom.allocated_bytes, 0) >= 1GiB",
    ]


def _model(name: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        with _file(data, name) as path, _refusing():
            read_model(path)

    return run


def _gguf() -> bytes:
    """Version 3: two pairs and one tensor of 4 × 4 float32."""

    def named(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text

    pairs = named(b"general.architecture") + struct.pack("<I", 8) + named(b"llama")
    pairs += named(b"names") + struct.pack("<IIQ", 9, 8, 2) + named(b"a") + named(b"b")
    tensor = named(b"a") + struct.pack("<IQQIQ", 2, 4, 4, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + pairs + tensor
    return head + bytes(-len(head) % 32 + 64)


def _lengths(data: bytes) -> None:
    with _file(data, "lengths.txt") as path, _refusing():
        read_lengths(path)


def _masking(data: bytes) -> None:
    mask_text(data.decode("utf-8", "surrogateescape"))
    masker, whole = StreamMasker(), StreamMasker()
    cut = len(data) // 2
    pieces = masker.feed(data[:cut]) + masker.feed(data[cut:]) + masker.flush()
    if len(data) < 64 << 10:  # a longer line is given out before its end
        assert _keys_as_one(pieces) == _keys_as_one(whole.feed(data) + whole.flush()), "masked as it was cut"


def _keys_as_one(masked: bytes) -> bytes:
    """Each run of masked lines, such as those of a private key, as one."""
    return re.sub(rb"(?:<masked>\n?)+", b"<masked>", masked)


def _secrets() -> list[bytes]:
    return [
        b"HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n--api-key something\nAuthorization: Bearer abcdefgh\n"
        b'https://me:pass-word@host/x?token=abcdefgh&x=1\n{"password": "hunter22"} max_tokens=4096\n'
        b"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\nCookie: a=b; c=d\n"
    ]


@contextmanager
def _refusing() -> Iterator[None]:
    with contextlib.suppress(OomdoctorError):
        yield


TARGETS = {
    "log": Target(_analyze, _logs),
    "snapshot": Target(_snapshot, _snapshots),
    "bundle": Target(_bundle, _bundles),
    "rule": Target(_rule, _rules),
    "expression": Target(_expression, _expressions),
    "config": Target(_model("config.json"), lambda: [_CONFIG]),
    "gguf": Target(_model("model.gguf"), lambda: [_gguf()]),
    "safetensors": Target(
        _model("model.safetensors"), lambda: [struct.pack("<Q", len(_SAFETENSORS)) + _SAFETENSORS + bytes(32)]
    ),
    "lengths": Target(_lengths, lambda: [b"128\n4096\n", b"100,3\n200 4\n# all\n"]),
    "masking": Target(_masking, _secrets),
}

os.environ["OOMDOCTOR_LANG"] = "en"
