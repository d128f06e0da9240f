#!/usr/bin/env python3
"""Runs a command on an emulated CUDA device: torch's genuine CUDA allocator, without a GPU.

    python tests/device/emulate.py --memory 24GiB -- python train.py
    python tests/device/emulate.py --devices 2 --memory 24GiB,80GiB -- oomdoctor run -- python train.py

The first time it makes an environment with torch's CUDA wheel (1.3 GB) in the user's cache, or in
OOMDOCTOR_DEVICE_CACHE. Then `python` is that environment's, CUDA and NVML answer from the emulated cards, and the
command takes this process's place, so it ends as it would have. Exit status 125: it cannot be emulated here.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from emulation.cards import Cards, check_card_file, of_each, parse_size, private_card
from emulation.errors import CannotEmulate
from emulation.machine import Machine
from emulation.wheel import DEFAULT_TORCH, environment, parse_version, why_not

CANNOT_EMULATE = 125
NOT_MADE_YET = 1


def main(arguments: Sequence[str]) -> int:
    """What the command line asks for. Does not return when a command is run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    try:
        memory = of_each([parse_size(size) for size in options.memory.split(",")], options.devices)
        cards = Cards(memory, parse_size(options.context), parse_size(options.reserve))
        if min(memory) <= cards.context_bytes:
            raise ValueError("a card must be larger than a process's context on it")
        parse_version(options.torch)
    except ValueError as error:
        parser.error(str(error))
    try:
        if options.check:
            return _check(options.torch)
        if not command:
            parser.error("no command: write it after --")
        return _run(command, cards, options.shared, options.torch)
    except CannotEmulate as reason:
        print(f"emulate: {reason.sentence()}", file=sys.stderr)
        return CANNOT_EMULATE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="emulate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--devices", type=int, metavar="N", help="how many cards (as many as sizes are given)")
    parser.add_argument("--memory", default="24GiB", metavar="SIZE[,SIZE…]", help="of each card (24GiB)")
    parser.add_argument("--context", default="420MiB", metavar="SIZE", help="a process's context on a card (420MiB)")
    parser.add_argument("--reserve", default="0", metavar="SIZE", help="what the driver keeps, seen by NVML only (0)")
    parser.add_argument(
        "--shared",
        type=Path,
        metavar="CARD",
        help="file that holds the cards, for several invocations; one that exists keeps its cards' sizes",
    )
    parser.add_argument("--torch", default=DEFAULT_TORCH, metavar="VERSION", help=f"({DEFAULT_TORCH})")
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"make nothing; exit status 0: made already, {NOT_MADE_YET}: not yet, {CANNOT_EMULATE}: cannot work here",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND…")
    return parser


def _check(torch: str) -> int:
    if reason := why_not(torch):
        raise CannotEmulate(reason)
    wanted = environment(torch)
    print(f"torch {torch}: {'made' if wanted.is_made else 'can be made'}, in {wanted.folder}")
    return 0 if wanted.is_made else NOT_MADE_YET


def _run(command: Sequence[str], cards: Cards, shared: Path | None, torch: str) -> int:
    if shared is not None:
        check_card_file(shared)
    with _ended_in_order():
        machine = Machine.ready(cards, shared.absolute() if shared else private_card(), torch)
    variables = machine.variables(os.environ)
    try:
        os.execvpe(command[0], list(command), variables)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "no command has such a name"
        print(f"emulate: {command[0]!r}: {said}", file=sys.stderr)
        return 127 if isinstance(error, (FileNotFoundError, ValueError)) else 126


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """A signal ends it as Ctrl-C does: what is half made is removed, and whoever makes it ended."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, action in former.items():
        if action is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        for number, action in former.items():
            signal.signal(number, action)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
