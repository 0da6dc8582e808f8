"""What every test of the core shares: the checkout, and surroundings of its own."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import first_party
import pytest
import tomli_w
from surroundings import own_surroundings

__all__ = ["own_surroundings"]


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


@pytest.fixture
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes on a test machine must not decide what is stored."""
    first_party.plugin("cpu")
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.0)
