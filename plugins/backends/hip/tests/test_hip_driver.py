"""Whether there is a device, as processes on different machines find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xpu_backend_hip import driver
from xpu_backend_hip.errors import HipError, explained

ASKED = """
import sys
{before}
from xpu_backend_hip.driver import availability
state = availability()
print(state.is_available, state.reason, state.fix, sep="|")
"""
NO_PYTHON = "sys.modules['rocm'] = sys.modules['hip'] = None"
CLEAR = ("ROCM_PATH", "ROCM_HOME", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
REAL = "libamdhip64.so.5"


def asked(environment: dict[str, str], before: str = "") -> tuple[str, str, str]:
    """Ask in a process of its own and return whether, why and what mends it."""
    clean = {name: value for name, value in os.environ.items() if name not in CLEAR}
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(before=before)],
        env={**clean, "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    whether, reason, fix = done.stdout.rstrip("\n").split("|")
    return whether, reason, fix


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without a runtime."""
    if loads(REAL) or loads("libamdhip64.so") or Path("/opt/rocm").exists():
        pytest.skip("this machine has a runtime of HIP")
    return {"ROCM_PATH": str(tmp_path)}


def loads(name: str) -> bool:
    """Whether the system's loader finds a library; asked elsewhere, for it would stay."""
    load = f"import ctypes; ctypes.CDLL({name!r})"
    return subprocess.run([sys.executable, "-c", load], capture_output=True).returncode == 0


def test_without_hip_python_it_says_what_to_install(bare) -> None:
    whether, reason, fix = asked(bare, NO_PYTHON)
    assert (whether, reason) == ("False", "the package hip-python is not installed")
    assert fix == "pip install 'xpu-orchestrator[hip]'"


def test_without_a_runtime_it_says_what_to_install(bare) -> None:
    pytest.importorskip("hip")
    whether, reason, fix = asked(bare)
    assert whether == "False"
    assert reason.startswith("HIP's runtime is not here: libamdhip64.so: cannot open")
    assert fix == "install ROCm 6.0 or newer, or say in ROCM_PATH where it is"


def test_a_named_place_without_a_runtime_is_told_from_none(bare, tmp_path) -> None:
    pytest.importorskip("hip")
    fix = "install ROCm 6.0 or newer, or say in ROCM_PATH where it is"
    nowhere = str(tmp_path / "nowhere")
    for named, why in (
        ({}, ""),
        (bare, f"; ROCM_PATH names {tmp_path}, which has no lib/libamdhip64.so"),
        ({"ROCM_HOME": nowhere}, f"; ROCM_HOME names {nowhere}, which is no directory"),
        ({"ROCM_PATH": nowhere, "ROCM_HOME": "/"}, f"; ROCM_PATH names {nowhere}, which is no"),
    ):
        _, reason, told = asked(named)
        assert why in reason
        assert (" names " in reason, told) == (bool(why), fix)


def stubbed(machine: Any, **figures: int) -> tuple[dict[str, str], str]:
    own = {getattr(machine.hip_stub, name): value for name, value in figures.items()}
    directory = machine("gfx1151", own)
    made = machine.hip_stub.environment(directory)
    names = ("ROCM_PATH", "LD_LIBRARY_PATH", "HIP_STUB_DIRECTORY")
    return {name: made[name] for name in names}, str(directory / "lib/libamdhip64.so")


def test_a_runtime_with_a_device_is_available(machine) -> None:
    environment, _ = stubbed(machine)
    assert asked(environment) == ("True", "", "")
    assert asked(environment, "import ctypes; ctypes.CDLL('libamdhip64.so')")[0] == "True"


def test_a_runtime_without_a_device_is_named(machine) -> None:
    environment, path = stubbed(machine, COUNT=0)
    whether, reason, fix = asked(environment)
    cause = "hipErrorNoDevice (no ROCm-capable device is detected)"
    assert (whether, reason) == ("False", f"HIP's runtime {path} starts with {cause}")
    assert fix
    _, _, fix = asked({**environment, "HIP_VISIBLE_DEVICES": "7"})
    assert fix == "HIP_VISIBLE_DEVICES is '7': unset it, or name a device that there is"


def test_a_runtime_that_is_too_old_is_named(machine) -> None:
    environment, path = stubbed(machine, VERSION=50221153)
    whether, reason, _ = asked(environment)
    assert (whether, reason) == (
        "False",
        f"HIP's runtime {path} is of release 5.2.21153; needed is 6.0",
    )


def test_the_runtime_that_a_framework_brought_is_taken(machine, tmp_path) -> None:
    environment, path = stubbed(machine, COUNT=0)
    copy = tmp_path / "libamdhip64.so.7"
    copy.write_bytes(Path(path).read_bytes())
    bring = f"import ctypes; ctypes.CDLL({str(copy)!r})"
    assert f"HIP's runtime {copy} starts with" in asked(environment, bring)[1]


def test_two_runtimes_in_one_process_are_refused(machine, tmp_path) -> None:
    environment, path = stubbed(machine)
    copy = tmp_path / "libamdhip64.so.7"
    copy.write_bytes(Path(path).read_bytes())
    bring = f"import ctypes; ctypes.CDLL({str(copy)!r}); ctypes.CDLL({path!r})"
    whether, reason, fix = asked(environment, bring)
    assert whether == "False"
    assert reason.startswith("this process has two runtimes of HIP, ")
    assert {str(copy), path} <= set(reason.replace(",", "").split())
    assert "ROCM_PATH" in fix


def test_doctor_names_a_real_runtime_without_a_device() -> None:
    pytest.importorskip("hip")
    if not loads(REAL):
        pytest.skip(f"{REAL} is not installed (Debian 12: apt-get install libamdhip64-5)")
    if Path("/dev/kfd").exists():
        pytest.skip("this machine has a device of AMD's")
    command = [sys.executable, "-c", "from xpu.cli import main; main()", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (hip,) = [one for one in json.loads(done.stdout)["backends"] if one["name"] == "hip"]
    assert REAL in hip["reason"]
    assert "hipErrorNoDevice" in hip["reason"]
    assert hip["fix"]


def test_an_error_says_what_it_leaves() -> None:
    lost = explained("hipErrorIllegalAddress", "a launch failed", text="an illegal memory access")
    assert str(lost).startswith(
        "a launch failed: hipErrorIllegalAddress (an illegal memory access)"
    )
    assert lost.is_sticky
    assert "end this process" in str(lost)
    plain = explained("hipErrorOutOfMemory", "no memory", text="hipErrorOutOfMemory")
    assert not plain.is_sticky
    assert str(plain) == (
        "no memory: hipErrorOutOfMemory; nothing was launched; free memory of the device, or "
        "choose a smaller problem"
    )
    import pickle

    again = pickle.loads(pickle.dumps(lost))
    assert isinstance(again, HipError)
    assert (again.name, str(again)) == (lost.name, str(lost))


def test_a_version_is_written_as_releases_are_called() -> None:
    assert driver.version_text(60342131) == "6.3.42131"
    assert driver.version_text(70253211) == "7.2.53211"
