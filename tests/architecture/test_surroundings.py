"""Every test here, of the core and of a plugin, has the run's surroundings and not the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings


def test_the_cores_tests_have_surroundings_of_their_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = str(tmp_path_factory.getbasetemp().parent)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XPU_BUILD_CACHE"):
        assert os.environ[name].startswith(run)
    assert {name for name in os.environ if name.startswith("XPU_")} == {
        "XPU_STORE",
        "XPU_BUILD_CACHE",
    }
    assert not os.environ["XPU_STORE"]


def test_the_plugins_tests_have_the_same(root: Path) -> None:
    smallest = min(root.glob("plugins/*/*/tests/test_*.py"), key=lambda path: path.stat().st_size)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--setup-plan", smallest]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert "SETUP    S own_surroundings" in done.stdout, done.stdout + done.stderr


def test_a_busy_machine_fails_no_property() -> None:
    assert settings().deadline is None
