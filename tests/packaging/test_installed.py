"""Tests on what is installed: a source archive's wheel, in an empty directory, not the checkout.

The wheel is built from the unpacked source archive, so what is missing there is missed here. A
part of this repository's own tests then runs against it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# What looks at files, configuration and kernels: an archive can lack those, and nothing else.
SUBSET = (
    "tests/unit/test_public_names.py",
    "tests/unit/settings/test_shipped_configuration.py",
    "tests/unit/filter/test_shipped_rules.py",
    "tests/unit/filter/test_feasibility_vectors.py",
    "tests/integration/test_orchestrator.py",
)
# Of the orchestrator's, those that build, time in a worker process, keep an answer, and call.
ASKED = "not test_orchestrator or test_first_use or test_results_are_right"


def finished(command: list[str | Path], **more: object) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def built(kind: str, project: Path, out: Path) -> Path:
    finished([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out], cwd=project)
    (archive,) = out.iterdir()
    return archive


@pytest.fixture(scope="module")
def sdist(buildable: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    place = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", buildable, place / "dist")) as archive:
        archive.extractall(place / "source", filter="data")
    (project,) = (place / "source").iterdir()
    return project


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    finished([sys.executable, "-m", "pip", "install", *options, "--target", target, wheel])
    return target


def environment(installed: Path) -> dict[str, str]:
    """Reach the installed wheel, and of this environment only what `pip` put there."""
    libraries = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(installed), *libraries])}


def test_the_wheel_is_the_same_from_the_archive_and_from_the_checkout(
    buildable: Path, wheel: Path, tmp_path: Path
) -> None:
    def contents(path: Path) -> dict[str, int]:
        with zipfile.ZipFile(path) as archive:
            return {entry.filename: entry.CRC for entry in archive.infolist()}

    assert contents(wheel) == contents(built("wheel", buildable, tmp_path / "dist"))


def test_the_configuration_is_inside_and_is_what_is_read(
    root: Path, installed: Path, tmp_path: Path
) -> None:
    inside = sorted(path.name for path in (installed / "xpu" / "_config").glob("*.toml"))
    assert inside == sorted(path.name for path in (root / "config").glob("*.toml"))
    command: list[str | Path] = [sys.executable, "-S", installed / "bin" / "xpu", "doctor"]
    said = finished(command, cwd=tmp_path, env={**environment(installed), "COLUMNS": "400"})
    assert str(installed / "xpu" / "_config" / "families.toml") in said
    assert str(root) not in said


def test_a_part_of_the_tests_passes_on_the_installed_wheel(
    root: Path, plugin_folders: list[Path], installed: Path, tmp_path: Path
) -> None:
    for name in ("config", "tests/conftest.py", "tests/support", "tests/vectors", *SUBSET):
        _copied(root / name, tmp_path / name)
        for parent in Path(name).parents:
            if (root / parent / "conftest.py").is_file():
                _copied(root / parent / "conftest.py", tmp_path / parent / "conftest.py")
    options = "[pytest]\naddopts = --import-mode=importlib\nfilterwarnings = error\n"
    options += "pythonpath = tests/support\nmarkers = slow\n"
    (tmp_path / "pytest.ini").write_text(options)
    environ = environment(installed)
    packages = ["xpu", *(path.name for folder in plugin_folders for path in folder.glob("xpu_*"))]
    code = "".join(f"import {name}; print({name}.__file__)\n" for name in packages)
    where = finished([sys.executable, "-S", "-c", code], cwd=tmp_path, env=environ)
    assert all(Path(line).is_relative_to(installed) for line in where.split())
    said = finished(
        [
            sys.executable,
            "-S",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            ASKED,
            tmp_path / "tests",
        ],
        cwd=tmp_path,
        env=environ,
    )
    assert int(re.findall(r"(\d+) passed", said)[-1]) > 100


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
    else:
        shutil.copy(source, target)
