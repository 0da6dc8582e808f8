"""What every test of the core shares: the checkout, and surroundings of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.rootpath


@pytest.fixture(scope="session")
def plugin_folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("plugins/*/*/pyproject.toml"))


@pytest.fixture(scope="session", autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's settings, answers and overrides out of the tests, and the tests' out of them.

    Built code is kept for the whole session: compiling is most of what a test can cost.
    """
    home = tmp_path_factory.mktemp("surroundings")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("XPU_")]:
            patch.delenv(name)
        patch.setenv("XPU_STORE", "")  # a test that wants a store names one
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XPU_BUILD_CACHE"):
            patch.setenv(name, str(home / name.lower()))
        yield
