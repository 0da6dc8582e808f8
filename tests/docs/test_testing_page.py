"""The page on the conformance kit: its plugins pass it, its programs print what stands there."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import first_party
import pytest

from xpu import testing
from xpu.testing import BackendSuite, FamilySuite

PAGES = ("writing-a-backend.md", "writing-a-probe.md", "testing-a-plugin.md")


@pytest.fixture
def guide(page, importable: Path) -> Path:
    for name in PAGES:
        page(name).write_files(importable)
    (importable / "xpu_backend_toy/__init__.py").touch()
    return importable


@pytest.mark.parametrize(
    ("module", "least"), [("rectify", 15), ("toy", 60), ("toy_c", 65), ("every_other", 6)]
)
def test_the_plugins_of_the_guide_pass_the_kit(guide: Path, module: str, least: int) -> None:
    if module == "rectify":
        first_party.plugin("cpu")  # something must run its kernels
    path = [str(guide), *(entry for entry in sys.path if entry)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-W", "error", "-c", os.devnull),
            *("-p", "no:cacheprovider", f"tests/test_{module}.py"),
        ],
        cwd=guide,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least, done.stdout


def test_the_nan_that_the_page_speaks_of_is_found(guide: Path) -> None:
    source = guide / "xpu_family_rectify.py"
    text = source.read_text()
    assert "x[i] < 0 ? 0 : x[i]" in text
    source.write_text(text.replace("x[i] < 0 ? 0 : x[i]", "x[i] > 0 ? x[i] : 0"))
    with pytest.raises(AssertionError, match="test_a_row_that_is_not_finite_harms_no_other"):
        test_the_plugins_of_the_guide_pass_the_kit(guide, "rectify", 1)


def test_a_dialect_of_its_own_needs_the_plain_kernels(guide: Path) -> None:
    test = guide / "tests/test_toy.py"
    text = test.read_text()
    assert "    kernels = (" in text
    test.write_text(text.replace("    kernels = (", "    others = ("))
    with pytest.raises(AssertionError, match="there is no kernel for 'kit_table' in dialect"):
        test_the_plugins_of_the_guide_pass_the_kit(guide, "toy", 1)


def test_its_programs_print_what_stands_there(page, guide: Path) -> None:
    assert page("testing-a-plugin.md").run_python({}) == 2


def test_the_page_names_all_that_the_kit_has(page) -> None:
    text = page("testing-a-plugin.md").text
    assert [name for name in testing.__all__ if f"`{name}" not in text] == []
    for suite in (BackendSuite, FamilySuite):
        section = text.split(f"attribute of a `{suite.__name__}`")[1].split("\n\n")[0]
        own = {name for kind in suite.__mro__ for name in inspect.get_annotations(kind)}
        assert [name for name in sorted(own) if name[0] != "_" and f"`{name}" not in section] == []
