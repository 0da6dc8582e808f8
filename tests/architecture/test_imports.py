"""What imports what: the contracts of the house, and what ``import xpu`` costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

VENDOR_PACKAGES = {"cuda", "cupy", "hip", "nvidia", "pycuda", "rocm", "torch"}


@pytest.fixture(scope="module")
def environment(root: Path) -> dict[str, str]:
    """Reach the checkout's packages whether or not they are installed."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    folders = [root, *(root / part for part in settings["tool"]["mypy"]["mypy_path"].split(":"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def loaded_by(module: str, environment: dict[str, str], tmp_path: Path) -> set[str]:
    code = (
        "import sys, json; before = set(sys.modules); "
        f"import {module}; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_import_xpu_loads_nothing_but_itself_and_the_standard_library(
    environment: dict[str, str], tmp_path: Path
) -> None:
    loaded = loaded_by("xpu", environment, tmp_path)
    assert "xpu" in loaded
    assert loaded - set(sys.stdlib_module_names) == {"xpu"}


@pytest.mark.parametrize("module", ["xpu.cli", "xpu.spec", "xpu.registry", "xpu.filter"])
def test_what_starts_a_command_loads_neither_numpy_nor_a_vendor(
    module: str, environment: dict[str, str], tmp_path: Path
) -> None:
    assert not loaded_by(module, environment, tmp_path) & {"numpy", *VENDOR_PACKAGES}


def test_the_contracts_hold(buildable: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=buildable,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
