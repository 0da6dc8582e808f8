"""What every test of the core shares: the checkout, and surroundings of its own."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import first_party
import pytest
import tomli_w


@pytest.fixture(scope="session")
def root(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.rootpath


@pytest.fixture(scope="session")
def plugin_folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("plugins/*/*/pyproject.toml"))


@pytest.fixture(scope="session")
def buildable(
    root: Path, plugin_folders: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The project as it can be built: the checkout, or a copy whose tables name no gone folder."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    entries = settings["project"]["entry-points"]["xpu"].values()
    here = {package.name for folder in plugin_folders for package in folder.glob("xpu_*")}
    gone = {entry.partition(".")[0] for entry in entries} - here
    if not gone:
        return root
    copy = tmp_path_factory.mktemp("buildable") / "project"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    left = first_party.without(gone, settings)
    (copy / "pyproject.toml").write_text(tomli_w.dumps(left), "utf-8")
    return copy


@pytest.fixture(scope="session", autouse=True)
def _own_surroundings(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Keep the user's settings, answers and overrides out of the tests, and the tests' out of them.

    Built code is kept for the whole session, and shared by its processes: compiling is most of
    what a test can cost.
    """
    home = tmp_path_factory.mktemp("surroundings")
    shared = tmp_path_factory.getbasetemp()
    if hasattr(pytestconfig, "workerinput"):  # the environment says so to runs within tests, too
        shared = shared.parent
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("XPU_")]:
            patch.delenv(name)
        patch.setenv("XPU_STORE", "")  # a test that wants a store names one
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("XPU_BUILD_CACHE", str(shared / "built"))
        yield


@pytest.fixture
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes on a test machine must not decide what is stored."""
    first_party.plugin("cpu")
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.0)
