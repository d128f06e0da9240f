"""What the report says of tables of devices: a still is not a course."""

from __future__ import annotations

from oomdoctor.diagnose.looks import missing_course, notes_on_looks
from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.facts import derive_facts
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import RunRecord
from oomdoctor.model.source import Source

MIB, GIB = 1 << 20, 1 << 30


def looks(sizes: list[int], index: int = 0, dated: bool = True, **more: object) -> tuple[DeviceReading, ...]:
    """Readings in MiB, ten seconds apart."""
    return tuple(
        DeviceReading(
            index,
            Source(path="p", line=line),
            total_bytes=24 * GIB,
            used_bytes=size * MIB,
            time_seconds=10.0 * line if dated else None,
            **more,
        )
        for line, size in enumerate(sizes)
    )


def notes(*devices: DeviceReading) -> tuple[str, ...]:
    evidence = Evidence(devices=devices)
    return notes_on_looks(evidence, derive_facts(evidence))


def test_one_still_proves_nothing_about_growth():
    (note,) = notes(*looks([20000]), *looks([4], index=1))
    assert note.startswith("cuda:0, cuda:1: one still. It shows what was in use at that moment. It cannot show whether")
    evidence = Evidence(devices=looks([20000]))
    (gap,) = missing_course(evidence)
    assert "-l 5" in gap.how_to_get_it
    assert list(missing_course(Evidence(devices=looks([1, 2, 3])))) == []
    assert list(missing_course(Evidence())) == []
    run = RunRecord("b", ("x",), None, 0.0, 1.0, 0, None)
    assert list(missing_course(Evidence(devices=looks([1]), runs=(run,)))) == []
    assert notes() == ()


def test_a_level_course_is_no_sign_of_a_leak():
    (note,) = notes(*looks([20000] * 10), *looks([20000] * 10, index=1))
    assert note.startswith("cuda:0, cuda:1: memory in use stood level at 19.53 GiB over 10 readings in 90 s.")
    assert "no sign of a leak" in note


def test_a_rise_is_told_with_its_size_and_time_and_not_called_a_leak():
    (note,) = notes(*looks([1000 * step for step in range(1, 13)]))
    assert note.startswith("cuda:0: memory in use rose steadily by 9.77 GiB over 12 readings in 110 s.")
    assert "memory_reserved()" in note
    (undated,) = notes(*looks([1000 * step for step in range(1, 13)], dated=False))
    assert "over 12 readings. Seen from outside" in undated


def test_few_or_swinging_readings():
    (few,) = notes(*looks([1000, 2000, 3000]))
    assert few == (
        "cuda:0: memory in use was between 1000.00 MiB and 2.93 GiB over 3 readings in 20 s, too few to tell a rise "
        "from a step."
    )
    (swinging,) = notes(*looks([1000, 9000] * 6))
    assert swinging.endswith("neither level nor rising steadily.")


def test_bytes_that_nobody_names_are_subtracted():
    listed = (DeviceProcess(7, 4000 * MIB, "train.py", "C"),)
    _, rest = notes(*looks([20000], processes=listed))
    assert rest.startswith(
        "cuda:0: of 19.53 GiB in use the listed processes hold 3.91 GiB. The other 15.62 GiB are the driver's, or of "
        "processes that are not listed"
    )
    assert len(notes(*looks([4200], processes=listed))) == 1  # a context is not worth a sentence
    unknown = (DeviceProcess(7, None, "train.py", "C"),)
    assert len(notes(*looks([20000], processes=unknown))) == 1


def test_processes_alone():
    def listed(line: int, size: int) -> DeviceReading:
        process = DeviceProcess(7, size * MIB, "train.py", "C")
        return DeviceReading(0, Source(path="p", line=line), processes=(process,))

    (still,) = notes(listed(1, 4000))
    assert still.startswith("cuda:0: one still.")
    (rising,) = notes(*(listed(line, 1000 * line) for line in range(1, 13)))
    assert rising == (
        "cuda:0: only its processes were listed, over 12 readings: train.py (pid 7) rose steadily by 9.77 GiB."
    )
    (level,) = notes(*(listed(line, 1000) for line in range(1, 13)))
    assert level == "cuda:0: only its processes were listed, over 12 readings."


def test_the_report_holds_them(tmp_path):
    path = tmp_path / "dmon.txt"
    rows = "".join(f"    0    50     5     0     0 {1000 + 100 * step:5}     4\n" for step in range(20))
    path.write_text(f"# gpu    sm   mem   enc   dec    fb  bar1\n# Idx     %     %     %     %    MB    MB\n{rows}")
    diagnosis = diagnose([path])
    assert diagnosis.inputs[0].kind == "nvidia-smi"
    (note,) = diagnosis.notes
    assert note.startswith("cuda:0: memory in use rose steadily by 1.76 GiB over 20 readings.")
