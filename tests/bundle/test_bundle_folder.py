import json
import os
from pathlib import Path

import pytest

from oomdoctor.bundle.read import is_bundle, read_bundle
from oomdoctor.bundle.write import SCHEMA, BundleWriter
from oomdoctor.errors import BundleError


@pytest.fixture
def written(tmp_path):
    writer = BundleWriter(tmp_path / "i")
    writer.write_manifest({"command": ["train"], "started": 1.0})
    writer.append("sample", {"time_seconds": 2.0})
    writer.append("exit", {"status": 0, "signal": None, "ended": 3.0})
    writer.close()
    return tmp_path / "i"


def test_a_bundle_is_private_and_reads_back(written):
    assert written.stat().st_mode & 0o777 == 0o700
    assert (written / "manifest.json").stat().st_mode & 0o777 == 0o600
    assert (written / "supervisor.records").stat().st_mode & 0o777 == 0o600
    bundle = read_bundle(written)
    assert bundle.manifest == {"schema": SCHEMA, "command": ["train"], "started": 1.0}
    assert [record.kind for record in bundle.supervisor.records] == ["sample", "exit"]
    assert bundle.complete
    assert bundle.refused == ()
    assert is_bundle(written)


def test_a_folder_with_an_incident_is_not_written_to(written):
    with pytest.raises(BundleError, match="already holds an incident"):
        BundleWriter(written)


def test_a_folder_that_cannot_be_made_is_said():
    with pytest.raises(BundleError, match="Cannot write an incident folder at /proc/x"):
        BundleWriter(Path("/proc/x"))


def test_failures_are_told_once_and_never_raised(tmp_path):
    writer = BundleWriter(tmp_path / "i")
    for _ in range(3):
        writer.append("sample", {"bad": float("nan")})
        writer.write_file("no/such/folder", b"")
    assert len(writer.failures) == 2
    writer.close()
    writer.append("sample", {})
    assert len(writer.failures) == 3


def test_a_bundle_without_its_end_is_incomplete(written):
    records = written / "supervisor.records"
    records.write_bytes(records.read_bytes()[:-10])
    bundle = read_bundle(written)
    assert not bundle.complete
    assert bundle.damaged == 1
    assert len(bundle.supervisor.records) == 1


def test_links_that_lead_out_and_pipes_are_refused(written, tmp_path):
    (tmp_path / "outside").write_text("secret")
    (written / "stdout.log").symlink_to(tmp_path / "outside")
    os.mkfifo(written / "stderr.log")
    (written / "snapshots" / "1-1.pickle").symlink_to("/dev/zero")
    (written / "probe" / "12.records").symlink_to(tmp_path / "outside")
    bundle = read_bundle(written)
    assert bundle.logs == bundle.snapshots == ()
    assert bundle.probes[12].records == ()
    assert len(bundle.refused) == 4
    assert all("link leads out" in sentence or "regular file" in sentence for sentence in bundle.refused)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "not an incident bundle"),
        ('{"schema": "other/1"}', "not an incident bundle"),
        ('{"schema": "oomdoctor.bundle/99"}', "this version of oomdoctor reads oomdoctor.bundle/1"),
        ("[" * 100_000, "not JSON"),
        (" " * (5 << 20), "larger than 4 MiB"),
    ],
)
def test_what_is_no_bundle_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(BundleError, match=words):
        read_bundle(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ('{"schema": "oomdoctor.bun', "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "none of oomdoctor's"),
        ('{"schema": "x", "format": 99}', "none of oomdoctor's"),
    ],
)
def test_records_are_read_beside_a_manifest_that_tells_nothing(written, text, words):
    (written / "manifest.json").write_text(text)
    assert is_bundle(written)
    bundle = read_bundle(written)
    assert bundle.supervisor.records
    assert bundle.manifest == {"schema": SCHEMA}
    (sentence,) = bundle.refused
    assert sentence.startswith("manifest.json: ")
    assert words in sentence


def test_records_beside_a_manifest_of_a_later_version_are_left_alone(written):
    (written / "manifest.json").write_text('{"schema": "oomdoctor.bundle/99"}')
    with pytest.raises(BundleError, match="this version of oomdoctor reads"):
        read_bundle(written)


def test_no_manifest_or_one_elsewhere(tmp_path):
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "none")
    (tmp_path / "m").write_text(json.dumps({"schema": SCHEMA}))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").symlink_to(tmp_path / "m")
    with pytest.raises(BundleError, match="leads out"):
        read_bundle(tmp_path / "b")


def test_the_parts_of_a_cut_off_log_follow_it(written):
    for name in ("stdout.log", "stdout.log.tail-9", "stdout.log.tail-10", "stderr.log", "kernel.log"):
        (written / name).write_text(name)
    names = [file.name for file in read_bundle(written).logs]
    assert names == ["stdout.log", "stdout.log.tail-9", "stdout.log.tail-10", "stderr.log", "kernel.log"]


def test_a_command_that_never_started_leaves_nothing_of_ours(tmp_path):
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "notes.txt").write_text("mine")
    writer = BundleWriter(tmp_path / "i")
    writer.write_manifest({})
    writer.discard()
    assert [file.name for file in (tmp_path / "i").iterdir()] == ["notes.txt"]
