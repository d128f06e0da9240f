"""GIVEN the tree WHEN it is packaged THEN nothing is left behind: packages, rules, templates, the probe."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def listed_packages() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return set(config["options"]["packages"].split())


def test_every_package_of_the_tree_is_listed() -> None:
    in_tree = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for init in (ROOT / "oomdoctor").rglob("__init__.py")
        if "site" not in init.parent.parts
    }
    assert listed_packages() == in_tree | {"oomdoctor.rules"}


@pytest.fixture(scope="module")
def unpacked_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    # A build leaves files in its source folder, and another worker may be building at the same time.
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "reports"))
    done = subprocess.run([*command, "-w", str(folder), str(source)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(folder.glob("oomdoctor-*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_every_file_of_the_packages(unpacked_wheel: Path) -> None:
    for source, packaged in ((ROOT / "oomdoctor", "oomdoctor"), (ROOT / "rules", "oomdoctor/rules")):
        for path in source.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                assert (unpacked_wheel / packaged / path.relative_to(source)).is_file(), f"{path} is not in the wheel"


def test_the_wheel_need_not_read_its_rules_and_templates_again(unpacked_wheel: Path, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(unpacked_wheel)!r}); import jinja2; "
        "from oomdoctor.knobs import document; "
        "from oomdoctor.diagnose import diagnose; from oomdoctor.report import render; "
        "document.parse_document = jinja2.Environment.compile = None; "
        f"assert document.__file__.startswith({str(unpacked_wheel)!r}); "
        "found = diagnose(['none.log']); assert not found.notes, found.notes; assert render(found, 'html')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_wheel_finds_its_rules_without_the_checkout(unpacked_wheel: Path, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text(
        "RuntimeError: CUDA out of memory. Tried to allocate 1.86 GiB (GPU 0; 31.72 GiB total capacity; "
        "24.58 GiB already allocated; 1.28 GiB free; 30.10 GiB reserved in total by PyTorch)\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(unpacked_wheel)!r}); import oomdoctor; "
        f"assert oomdoctor.__file__.startswith({str(unpacked_wheel)!r}); "
        "from oomdoctor.playbook.load import default_rules_directory as d; "
        f"assert str(d()).startswith({str(unpacked_wheel)!r}), d(); "
        "from oomdoctor.diagnose import diagnose; "
        f"found = diagnose([{str(log)!r}]); assert found.incidents and not found.notes, found"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
