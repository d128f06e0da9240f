"""GIVEN the matrix of docs/trust.md WHEN tests change THEN the page says what they hold."""

from __future__ import annotations

import pytest
from matrix import GROUPS, PAGE, ROOT, functions, page


def test_the_page_has_the_table_of_the_tests():
    """`python tests/trust/matrix.py` writes it."""
    text = PAGE.read_text()
    assert page(text) == text


ALIKE = ("run/test_signals", "run/test_spawn", "run/test_terminal", "run/test_transparency")
"""Of the other folders, those that compare with the bare command."""
BEYOND = {
    "test_the_interpreter_is_asked_only_where_a_limit_makes_it_likely",
    "test_no_command_is_wrong_usage",
    "test_words_after_the_command_belong_to_it",
}
FILES = [f"trust/{file.stem}" for file in (ROOT / "tests/trust").glob("test_*.py") if file.stem != "test_matrix"]


@pytest.mark.parametrize("file", sorted([*FILES, *ALIKE]))
def test_every_test_of_trust_is_in_the_matrix(file):
    named = {test for items in GROUPS.values() for item in items for test in item.tests}
    assert {name for name in functions(file) if f"{file}::{name}" not in named} <= BEYOND


def test_every_test_of_the_matrix_is_there():
    named = {test.partition("::")[::2] for items in GROUPS.values() for item in items for test in item.tests}
    assert [(file, name) for file, name in sorted(named) if name not in functions(file)] == []
