"""The code made of the templates shows what the templates show, in every language, and only as long as they are these.

That it is current is tested with everything else that is made beforehand, in tests/playbook/test_prepared.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from jinja2 import Environment
from report.diagnoses import ALL

from oomdoctor.language import LANGUAGES, speaking
from oomdoctor.report import html, pages, templates
from oomdoctor.report.compiled import TEMPLATES

PACKAGE = Path(html.__file__).parent.parent
PAGES = [
    ("compare", "diff.html.j2"),
    ("forecast", "estimate.html.j2"),
    ("preflight", "check.html.j2"),
    ("sweep", "sweep.html.j2"),
]


@pytest.fixture
def anew() -> Iterator[None]:
    """With an environment of its own."""
    html.environment.cache_clear()
    yield
    html.environment.cache_clear()


def refuse(*_values: object, **_options: object) -> NoReturn:
    raise AssertionError("a template was compiled")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.usefixtures("anew")
def test_a_page_is_the_same_from_code_and_from_text(name: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with speaking(language):
        with monkeypatch.context() as during:
            during.setattr(Environment, "compile", refuse)
            page = html.render(ALL[name]())
        html.environment.cache_clear()
        monkeypatch.setattr(html, "TEMPLATES", {})
        assert html.render(ALL[name]()) == page


@pytest.mark.parametrize(("package", "name"), PAGES)
def test_other_pages_are_not_compiled_either(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each package of pages with the frame that its page extends."""
    pages._templates.cache_clear()
    monkeypatch.setattr(Environment, "compile", refuse)
    for each in (name, "page.html.j2"):
        assert pages._templates(f"oomdoctor.{package}").get_template(each).name == each
    pages._templates.cache_clear()


def test_every_page_is_among_them() -> None:
    found = {(path.parent.parent.name, path.name) for path in PACKAGE.glob("*/assets/*.html.j2")}
    assert {each for each in found if each[0] != "report"} == set(PAGES)


def test_a_template_with_another_text_is_compiled() -> None:
    changed = templates.environment(lambda name: "{{ 1 + 1 }} " + name, TEMPLATES)
    assert changed.get_template("macros.html.j2").render() == "2 macros.html.j2"


@pytest.mark.parametrize("change", ["options", "jinja2"])
def test_other_options_or_another_jinja2_make_it_old(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = templates.key_of("text")
    if change == "options":
        monkeypatch.setitem(templates.OPTIONS, "trim_blocks", False)
    else:
        monkeypatch.setattr("jinja2.__version__", "4.0.0")
    assert templates.key_of("text") != before


def test_patches_of_jinja2_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jinja2.__version__", "3.1.0")
    before = templates.key_of("text")
    monkeypatch.setattr("jinja2.__version__", "3.1.99")
    assert templates.key_of("text") == before
