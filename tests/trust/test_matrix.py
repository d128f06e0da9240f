"""GIVEN the matrix of docs/trust.md WHEN tests change THEN the page says what they hold."""

from __future__ import annotations

import pytest
from matrix import GROUPS, PAGE, ROOT, functions, page


def test_the_page_has_the_table_of_the_tests():
    """`python tests/trust/matrix.py` writes it."""
    text = PAGE.read_text()
    assert page(text) == text


@pytest.mark.parametrize("file", sorted(file.stem for file in (ROOT / "tests/trust").glob("test_*.py")))
def test_every_test_of_trust_is_in_the_matrix(file):
    named = {test for items in GROUPS.values() for item in items for test in item.tests}
    if file == "test_matrix":
        return
    beyond = {"test_the_interpreter_is_asked_only_where_a_limit_makes_it_likely"}
    assert {name for name in functions(f"trust/{file}") if f"trust/{file}::{name}" not in named} <= beyond
