"""What a user installs: the whole wheel, the core alone, and each plugin beside the core.

Wheels are built and installed by pip, those of plugins unpacked as pip would; they run from an
empty directory, see the dependencies of the running environment, and nothing of the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

pytestmark = pytest.mark.slow

RECORDS = """
import json
from xpu.registry import default_registry
print(json.dumps([[r.name, r.distribution, r.state, r.cause] for r in default_registry().records]))
"""
# In a process each they take longer to start than to build.
BUILD_ALL = """
import json, os, sys
from hatchling.build import build_wheel
for project, out in json.loads(sys.argv[1]):
    os.chdir(project)
    build_wheel(out)
"""
Record = tuple[str, str, str, str]


def finished(command: list[str], **options: Any) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(project: Path, out: Path) -> Path:
    finished(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], cwd=project
    )
    (wheel,) = out.glob("*.whl")
    return wheel


def install(wheel: Path, target: Path) -> Path:
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    finished(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(wheel)]
    )
    return target


def run(command: list[str], targets: list[Path], empty: Path) -> str:
    """Run Python with the installed targets before this environment's dependencies.

    Without ``site`` (-S) no path file is read, so that an editable install of the checkout
    does not lend its packages.
    """
    libraries = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    path = os.pathsep.join([*map(str, targets), *dict.fromkeys(libraries)])
    empty.mkdir(exist_ok=True)
    return finished(
        [sys.executable, "-S", *command], cwd=empty, env={**os.environ, "PYTHONPATH": path}
    )


def records(targets: list[Path], empty: Path) -> list[Record]:
    return [tuple(record) for record in json.loads(run(["-c", RECORDS], targets, empty))]


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder)


@pytest.fixture(scope="module")
def wheel(buildable: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(buildable, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def core(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a wheel of the core without any plugin."""
    copy = tmp_path_factory.mktemp("core")
    for name in ("xpu", "config"):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(root / name, copy)
    settings = project(root)
    del settings["project"]["entry-points"]
    settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = ["xpu"]
    (copy / "pyproject.toml").write_text(tomli_w.dumps(settings), "utf-8")
    return install(build(copy, copy / "dist"), tmp_path_factory.mktemp("core_target"))


def test_the_wheel_holds_every_file_of_every_package_and_no_other(
    buildable: Path, wheel: Path
) -> None:
    expected = set()
    for package in project(buildable)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        name = Path(package).name
        expected |= {f"{name}/{path.as_posix()}" for path in files(buildable / package)}
    expected |= {f"xpu/_config/{path.as_posix()}" for path in files(buildable / "config")}
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == expected


def test_what_is_no_python_is_in_it_too(root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    shipped = {"families.toml", "rules.toml", "buckets.toml", "probes.toml"}
    assert {f"xpu/_config/{name}" for name in shipped} <= set(inside)
    assert "xpu/py.typed" in inside
    for kernels in root.glob("plugins/*/*/xpu_*/kernels"):
        ours = [name for name in inside if name.startswith(f"{kernels.parent.name}/kernels/")]
        assert any(name.endswith((".c", ".cpp", ".h")) for name in ours)
    assert any(name.endswith(".h") for name in inside)
    assert any(name.startswith("xpu/") and name.endswith(".json") for name in inside)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)


def test_the_wheel_installed_brings_every_plugin(
    buildable: Path, whole: Path, tmp_path: Path
) -> None:
    command = [str(whole / "bin" / "xpu"), "doctor", "--json"]
    plugins = json.loads(run(command, [whole], tmp_path / "empty"))["plugins"]
    found = {plugin["name"]: (plugin["distribution"], plugin["state"]) for plugin in plugins}
    declared = project(buildable)["project"]["entry-points"]["xpu"]
    assert found == dict.fromkeys(declared, ("xpu-orchestrator", "loaded"))


def test_the_wheel_runs_from_what_it_installed(
    buildable: Path, whole: Path, tmp_path: Path
) -> None:
    entries = project(buildable)["project"]["entry-points"]["xpu"].values()
    modules = ["xpu", *(entry.partition(".")[0] for entry in entries)]
    code = (
        f"import {', '.join(modules)}\nfor module in ({', '.join(modules)}): print(module.__file__)"
    )
    for origin in run(["-c", code], [whole], tmp_path / "empty").splitlines():
        assert Path(origin).is_relative_to(whole)


def test_the_core_alone_has_no_plugin(core: Path, tmp_path: Path) -> None:
    assert records([core], tmp_path / "empty") == []


def test_the_core_alone_is_no_failure_of_doctor(core: Path, tmp_path: Path) -> None:
    output = run([str(core / "bin" / "xpu"), "doctor", "--json"], [core], tmp_path / "empty")
    said = json.loads(output)
    assert said["plugins"] == []
    assert said["backends"] == []


def test_each_plugin_alone_appears(core: Path, plugin_folders: list[Path], tmp_path: Path) -> None:
    places = [(str(folder), str(tmp_path / f"{folder.name}-dist")) for folder in plugin_folders]
    finished([sys.executable, "-c", BUILD_ALL, json.dumps(places)])
    for folder, (_, dist) in zip(plugin_folders, places, strict=True):
        target = tmp_path / f"{folder.name}-target"
        (wheel,) = Path(dist).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:  # as pip does: it is pure and has no program
            assert not {name for name in archive.namelist() if ".data/" in name}
            archive.extractall(target)
        declared = project(folder)["project"]["name"]
        found = records([target, core], tmp_path / "empty")
        assert found == [(folder.name, declared, "loaded", "")]
