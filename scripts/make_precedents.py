"""Add labelled public reports to oomdoctor/playbook/precedents.json: `make_precedents.py REPORTS.jsonl …`.

Each line is one report: `source` (owner/repository#number), `log` (what was pasted), `launch` (the command or null) and
`cause`. Their texts are others' and stay outside the project; what is kept is the cause, the address, and the signs.
A report whose address is there already is read anew; the others stay as they were.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.playbook.causes import FAMILY_OF
from oomdoctor.playbook.precedents import Precedent, load_precedents, signs_of

TARGET = Path(__file__).parent.parent / "oomdoctor" / "playbook" / "precedents.json"
_ADDRESS = re.compile(r"[\w.-]+/[\w.-]+#\d+")
_NO_CAUSE = "none"
"""Of reports in which nothing failed."""
_FEWEST_REPORTS = 2
"""With a sign that is kept."""


def main(files: list[str]) -> None:
    """Read the reports, and write what is kept of them and of those from before."""
    read = [precedent for name in files for precedent in _read(name)]
    anew = {precedent.source for precedent in read if precedent.source}
    all_ = [*(precedent for precedent in load_precedents().reports if precedent.source not in anew), *read]
    count = Counter(sign for precedent in all_ for sign in precedent.signs)
    signs = sorted(sign for sign, number in count.items() if number >= _FEWEST_REPORTS)
    number = {sign: place for place, sign in enumerate(signs)}
    kept = sorted(
        (precedent.source, precedent.cause, sorted(number[sign] for sign in precedent.signs if sign in number))
        for precedent in all_
    )
    lines = ",\n".join(json.dumps(report, separators=(",", ":")) for report in kept)
    TARGET.write_text(f'{{"signs":{json.dumps(signs, indent=0)},\n"reports":[\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(kept)} reports, {len(signs)} signs")


def _read(name: str) -> Iterator[Precedent]:
    for line in Path(name).read_text(encoding="utf-8").splitlines():
        report = json.loads(line)
        if report["cause"] == _NO_CAUSE:
            continue
        if report["cause"] not in FAMILY_OF:
            sys.exit(f"{report['source']}: no cause is called {report['cause']}")
        address = _ADDRESS.match(report["source"])
        yield Precedent(address[0] if address else "", report["cause"], _signs(report["log"], report["launch"]))


def _signs(log: str, launch: str | None) -> frozenset[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.log"
        path.write_text(log, encoding="utf-8")
        return signs_of(diagnose([path], command=launch).facts)


if __name__ == "__main__":
    main(sys.argv[1:])
