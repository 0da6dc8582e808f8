"""What ``xpu plugin new`` writes is installed by pip, found, and passes its own tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import first_party
import pytest

# Tests that pass at least: a suite that skips everything shows nothing.
PASSING = {"backend": 55, "family": 9, "probe": 6}


def finished(command: list[str], **options: object) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", PASSING)
def test_it_installs_is_found_and_passes_its_tests(kind: str, tmp_path: Path) -> None:
    if kind == "family":
        first_party.plugin("cpu")  # something must run its kernels
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *(it for it in sys.path if it)]),
    }
    command = [sys.executable, "-m", "xpu.cli", "plugin", "new", kind, "my_part", "--json"]
    made = json.loads(finished(command, cwd=tmp_path, env=environment))
    folder = tmp_path / made["directory"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-compile"]
    alone = ["--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site")]
    finished([sys.executable, "-m", "pip", "install", *quiet, *alone, str(folder)])
    doctor = finished([sys.executable, "-m", "xpu.cli", "doctor", "--json"], env=environment)
    found = {plugin["name"]: plugin for plugin in json.loads(doctor)["plugins"]}["my_part"]
    assert (found["state"], found["distribution"]) == ("loaded", made["distribution"])
    # Only its tests: the package is the installed one.
    tests = folder.rename(tmp_path / "checkout") / "tests"
    output = finished(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-c", os.devnull, "."],
        cwd=tests,
        env=environment,
    )
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None, output
    assert int(passed[1]) >= PASSING[kind], output
