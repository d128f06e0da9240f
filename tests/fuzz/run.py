"""`python -m tests.fuzz.run --seconds 60`: mutated inputs for every reader until the time is up.

What does harm is written to tests/fuzz/found/ and told; exit status 1. `--atheris` (installed by hand) is guided by
coverage instead, for one target.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

from .mutation import mutated, random_pickle
from .targets import TARGETS, Target

FOUND = Path(__file__).parent / "found"
CORPUS = Path(__file__).parent / "corpus"
_SECONDS = 2.0
"""Of CPU time that any input may take."""
_HANGS_SECONDS = 120
"""Of CPU time: then the process ends and says where it was."""
_MOST_BYTES_MORE = 500 << 20
"""By which the process may grow over one input; what it needs at the first of each target is not counted."""


def try_one(target: Target, data: bytes) -> str | None:
    """What is wrong with how this input is treated; None where all is well."""
    before_bytes, before_seconds = _peak_bytes(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # numpy tells so of a number that ran over
            target.run(data)
    except Exception:
        return traceback.format_exc(limit=-6)
    seconds = time.process_time() - before_seconds
    allowed = _SECONDS + target.seconds_a_megabyte * len(data) / 1e6
    if seconds > allowed:
        return f"{seconds:.1f} s of CPU time for {len(data)} bytes; {allowed:.1f} s are allowed"
    grown = _peak_bytes() - before_bytes
    if grown > _MOST_BYTES_MORE + 50 * len(data):
        return f"grew by {grown >> 20} MiB over {len(data)} bytes"
    return None


def corpus_of(name: str) -> list[bytes]:
    """Inputs that did harm once."""
    return [path.read_bytes() for path in sorted(CORPUS.glob(f"{name}-*"))]


def inputs(name: str, random: Random) -> Iterator[bytes]:
    """Without end: the corpus and the seeds, then what mutation makes of them."""
    seeds = [*corpus_of(name), *TARGETS[name].seeds()]
    yield from seeds
    while True:
        if name == "snapshot" and random.random() < 0.5:
            yield random_pickle(random)
        else:
            yield mutated(random.choice(seeds), seeds, random)


def fuzz(names: list[str], seconds: float, seed: int) -> int:
    """Give each target its share of the time; how many inputs did harm."""
    harmful = 0
    faulthandler.register(signal.SIGPROF, chain=True)
    for name in names:
        target, random = TARGETS[name], Random(f"{name} {seed}")
        deadline, tried = time.monotonic() + seconds / len(names), 0
        target.run(target.seeds()[0])
        for data in inputs(name, random):
            if time.monotonic() > deadline:
                break
            signal.setitimer(signal.ITIMER_PROF, _HANGS_SECONDS)
            wrong = try_one(target, data)
            tried += 1
            if wrong is not None:
                harmful += 1
                FOUND.mkdir(exist_ok=True)
                path = FOUND / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
                path.write_bytes(data)
                print(f"{path.name}: {wrong}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(f"{name}: {tried} inputs", flush=True)
    return harmful


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _guided(name: str, seconds: int) -> None:
    import atheris

    atheris.instrument_all()
    FOUND.mkdir(exist_ok=True)
    starts = FOUND / f"{name}-starts"
    starts.mkdir(exist_ok=True)
    for number, data in enumerate([*corpus_of(name), *TARGETS[name].seeds()]):
        (starts / str(number)).write_bytes(data)
    options = [f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={FOUND}/{name}-"]
    atheris.Setup([sys.argv[0], *options, str(starts)], TARGETS[name].run)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--atheris", action="store_true")
    chosen = parser.parse_args()
    if chosen.atheris:
        _guided((chosen.target or ["log"])[0], chosen.seconds)
    sys.exit(fuzz(chosen.target or list(TARGETS), chosen.seconds, chosen.seed) > 0)


if __name__ == "__main__":
    main()
