#!/usr/bin/env python3
"""Runs one scenario on its emulated cards, with its neighbours: `run_scenario.py kv_growth [-- oomdoctor run --]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from emulation import scenario
from emulation.errors import CannotEmulate
from emulation.wheel import DEFAULT_TORCH, parse_version


def main() -> int:
    """Exit as the scenario does."""
    arguments, prefix = sys.argv[1:], []
    if "--" in arguments:
        dashes = arguments.index("--")
        arguments, prefix = arguments[:dashes], arguments[dashes + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, usage="run_scenario.py NAME [--torch VERSION] [-- PREFIX…]")
    parser.add_argument("name", choices=scenario.names(), metavar="NAME", help=", ".join(scenario.names()))
    parser.add_argument("--torch", default=DEFAULT_TORCH, metavar="VERSION")
    options = parser.parse_args(arguments)
    try:
        parse_version(options.torch)
    except ValueError as error:
        parser.error(str(error))
    try:
        return scenario.run(scenario.load(options.name), prefix, torch=options.torch)
    except CannotEmulate as reason:
        print(f"run_scenario: {reason.sentence()}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
