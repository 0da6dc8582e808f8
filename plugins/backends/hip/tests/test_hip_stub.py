"""Runs the kit, and tests of the device half, in processes that find the stub for the runtime.

Once a process has loaded a runtime it keeps it: in this one, other tests must find none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STUB = Path(__file__).parent / "stub"
ROOT = Path(__file__).parents[4]
SUMMARY = re.compile(r"^(\d+) passed(?:, (\d+) skipped)?[^,]*$", re.MULTILINE)
# What the dialect or the backend has not, on any device. An array of the host is no GPU's.
SKIPPED = (
    "the dialect 'simt'",
    "offers no routine",
    "DLPack: a GpuArray does not offer it",
    "the ndarray lies in host memory",
)


@pytest.fixture
def tried(machine: Callable[..., Path], compiler: object) -> Callable[..., str]:
    """Run test files against a machine and return what pytest says at its end."""

    def run(directory: Path, *names: str) -> str:
        files = [str(STUB / f"stubbed_{name}.py") for name in names]
        options = ("-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *files],
            cwd=ROOT,
            env=machine.hip_stub.environment(directory),
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gfx1151", "gfx90a"])
def test_the_kit_passes(machine, tried, architecture) -> None:
    if architecture != "gfx1151" and not os.environ.get("XPU_TEST_ALL_KERNELS"):
        pytest.skip("waves of 64 lanes take as long again; set XPU_TEST_ALL_KERNELS=1 for them")
    told = tried(machine(architecture), "kit")
    match = SUMMARY.search(told)
    assert match is not None, told
    assert int(match[1]) >= 60, told
    reasons = [line for line in told.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in reasons if not any(reason in line for reason in SKIPPED)] == []


@pytest.mark.slow
def test_the_device_half_does_as_it_should(machine, tried) -> None:
    told = tried(machine(), "launch", "memory", "timer", "family")
    assert "skipped" not in told


def test_two_devices_are_kept_apart(machine, tried) -> None:
    told = tried(machine("gfx90a", {machine.hip_stub.COUNT: 2}), "devices")
    assert "skipped" not in told
