"""Takes the census of a script's CPU tensors, and reads it."""

from __future__ import annotations

import json
from subprocess import CompletedProcess
from typing import Any

from watched import Harness

MIB = 1 << 20

PRELUDE = """
import functools, gc, json, sys, weakref
import torch
from torch import nn
from _oomdoctor_probe import census

MIB = 1 << 20

def mib(count=1, **how):
    return torch.empty(count * MIB // 4, **how)

def take(blocks=None, allowed=20.0):
    print(json.dumps(census.take(torch, blocks, allowed, 'cpu')))
"""


def run(harness: Harness, text: str) -> CompletedProcess[bytes]:
    """The finished script."""
    return harness.run_where_torch_is_imported(PRELUDE + text)


def groups(harness: Harness, text: str) -> list[dict[str, Any]]:
    """The groups of at least a quarter MiB, of the census that the script prints last."""
    return [row for row in taken(harness, text)["groups"] if row["bytes"] >= 1 << 18]


def taken(harness: Harness, text: str) -> dict[str, Any]:
    ended = run(harness, text)
    assert ended.stderr == b""
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def told(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    return {(row["category"], row["owner"]): row["bytes"] >> 20 for row in rows}
