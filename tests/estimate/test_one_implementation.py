"""GIVEN the whole package WHEN it multiplies a model's dimensions THEN it does so in oomdoctor/estimate only."""

from __future__ import annotations

import ast
from pathlib import Path

import oomdoctor

PACKAGE = Path(oomdoctor.__file__).parent
DIMENSIONS = frozenset(
    ("heads", "kv_heads", "vocabulary", "hidden", "head_dimension", "head_width", "layers", "per_token", "token_bytes",
     "parameters", "intermediate", "kv_bytes_per_token", "key_width", "value_width")
)  # fmt: skip


def named(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def products(source: str) -> list[int]:
    """Lines that multiply or divide by a dimension."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Div | ast.Mod)
        and DIMENSIONS & {named(node.left), named(node.right)}
    ]


def test_no_formula_stands_twice() -> None:
    found = {
        str(file.relative_to(PACKAGE)): lines
        for file in sorted(PACKAGE.rglob("*.py"))
        if "estimate" not in file.relative_to(PACKAGE).parts[:1] and (lines := products(file.read_text()))
    }
    assert found == {}


def test_a_product_would_be_found() -> None:
    assert products("size = tokens * 2 * kv_heads\nwidth = hidden // model.heads\nok = rows * count") == [1, 2]
