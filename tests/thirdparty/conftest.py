"""A fresh environment as a user's: XPU's wheel, a backend from outside, and broken plugins.

The distributions in these folders are never imported from here: they are built as wheels and
installed, and what they need comes from the package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from filelock import FileLock

from xpu.testing.surroundings import session_directory

collect_ignore = ["xpu_backend_opencl", "xpu_plugin_broken"]
HERE = Path(__file__).parent


@attrs.frozen
class Environment:
    """A virtual environment; what runs in it sees nothing of the checkout or of this one."""

    directory: Path
    empty: Path
    variables: dict[str, str]

    def run(self, *command: str | Path, timeout_s: float = 300, **more: Any) -> str:
        """Run one of its programs from the empty directory and return what it printed."""
        done = self.tried(*command, timeout_s=timeout_s, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tried(
        self, program: str, *rest: str | Path, timeout_s: float = 300, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.directory / "bin" / program, *rest],
            cwd=self.empty,
            env={**self.variables, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def install(self, *requirements: str | Path) -> subprocess.CompletedProcess[str]:
        return self.tried("pip", "install", "--quiet", "--no-input", *requirements)


def built(project: Path, out: Path) -> Path:
    """Build a project's wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=project, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def unavailable(what: str, said: str) -> None:
    """Skip with the reason; where everything must be there, fail."""
    why = f"{what}: {said}"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def outside(
    pytestconfig: pytest.Config, buildable: Path, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """Build three wheels and install them, with what they need, in a fresh environment.

    It is one for all processes of the session; each asks and keeps answers in a place of its own.
    """
    shared = session_directory(pytestconfig, tmp_path_factory) / "outside"
    own = tmp_path_factory.mktemp("outside")
    (own / "empty").mkdir()
    environment = Environment(shared / "venv", own / "empty", _variables(own, shared))
    with FileLock(f"{shared}.lock"):
        outcome = shared / "outcome"
        if not outcome.exists():
            shutil.rmtree(shared, ignore_errors=True)  # of a process that did not come so far
            shared.mkdir()
            done = _install(environment, buildable, shared)
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            outcome.write_text(" ".join(["failed:", *said]) if done.returncode else "", "utf-8")
    if failure := outcome.read_text("utf-8"):
        unavailable("PoCL and pyopencl cannot be installed", failure)
    return environment


def _install(
    environment: Environment, buildable: Path, folder: Path
) -> subprocess.CompletedProcess[str]:
    subprocess.run([sys.executable, "-m", "venv", environment.directory], check=True)
    projects: Sequence[Path] = (buildable, HERE / "xpu_backend_opencl", HERE / "xpu_plugin_broken")
    core, opencl, broken = (
        built(_copy(project, folder / "source"), folder / f"dist-{project.name}")
        for project in projects
    )
    return environment.install(core, f"{opencl}[pocl]", broken, "pytest")


def _copy(project: Path, place: Path) -> Path:
    """Copy a project of this folder, for a build must leave nothing in the checkout."""
    if project.parent != HERE:
        return project
    return shutil.copytree(project, place / project.name)


def _variables(own: Path, shared: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XPU_", "PYTHON", "POCL_", "PYOPENCL_", "VIRTUAL_ENV"))
    }
    caches = {
        "XDG_CONFIG_HOME": own / "config",
        "XPU_STORE": own / "store",
        "XPU_BUILD_CACHE": shared / "built",
        "POCL_CACHE_DIR": shared / "pocl",
        "PYOPENCL_CACHE_DIR": own / "pyopencl",
    }
    return {**kept, **{name: str(place) for name, place in caches.items()}}
