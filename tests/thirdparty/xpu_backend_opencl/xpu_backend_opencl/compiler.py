"""The compiler half: the driver's compiler, run in a child process.

A driver's compiler cannot be told to stop, and some end the process when they fail: a child can
be stopped, and ends alone. The child is `xpu_backend_opencl.build`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from xpu.errors import XpuBuildError
from xpu.model import BufferAccess, KernelFacts
from xpu.spec import CompiledCode, Compiler, KernelUnit
from xpu_backend_opencl.steady import steady

if TYPE_CHECKING:
    import pyopencl as cl

TARGET: Final = "native"
_OPTIONS: Final = ("-cl-std=CL1.2", "-w")
_ERROR_LINES: Final = 4


class OpenClCompiler(Compiler):
    """Compiles for the devices that the backend serves."""

    def __init__(self, device: cl.Device) -> None:
        self._identity = f"{device.platform.name} {device.platform.version}".strip()
        self._device = f"{device.name}, {device.version}, {device.driver_version}"

    @property
    def identity(self) -> str:
        """Platform and version."""
        return self._identity

    def native_target(self) -> str:
        """Name the kind of device that is served."""
        return TARGET

    def fingerprint(self, target: str) -> str:
        """Return options, device and driver."""
        return f"{' '.join(_OPTIONS)}; {self._device}"

    def compile(
        self, units: Sequence[KernelUnit], target: str, *, deadline_s: float
    ) -> Sequence[CompiledCode | XpuBuildError]:
        """Compile units one after another, each within `deadline_s` seconds."""
        return [self._one(unit, target, deadline_s) for unit in units]

    def _one(
        self, unit: KernelUnit, target: str, deadline_s: float
    ) -> CompiledCode | XpuBuildError:
        if target != TARGET:
            return XpuBuildError(f"{unit.kernel}: target {target!r}; allowed: {TARGET}")
        with tempfile.TemporaryDirectory(prefix="xpu-opencl-") as name:
            try:
                answer = _built(unit, Path(name), deadline_s)
            except subprocess.TimeoutExpired:
                why = f"passed its deadline of {deadline_s:g} s and was ended"
            except (OSError, ValueError) as error:
                why = f"could not be run: {error}"
            else:
                if "error" not in answer:
                    return _code(unit, Path(name), answer)
                why = f"failed: {answer['error']}"
        return XpuBuildError(f"{unit.kernel}: {self.identity} {why}; mend the source")


def _built(unit: KernelUnit, directory: Path, deadline_s: float) -> Mapping[str, Any]:
    _write(unit, directory)
    defines = {"XPU_ENTRY": unit.entry, **unit.defines}
    options = [*_OPTIONS, *(f"-D{key}={value}" for key, value in defines.items()), "-I", "include"]
    job = {"entry": unit.entry, "options": options}
    (directory / "job.json").write_text(json.dumps(job), "utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path),
        # A cache of its own: PoCL packs into a binary what the cache holds of the program.
        "POCL_CACHE_DIR": str(directory / "cache"),
        "PYOPENCL_NO_CACHE": "1",
    }
    with (directory / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "xpu_backend_opencl.build"],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            process_group=0,
        )
    try:
        status = process.wait(deadline_s)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # with the linker that a driver may start
        process.wait()
    answer = directory / "answer.json"
    if status != 0 or not answer.exists():
        lines = (directory / "said").read_text(errors="replace").strip().splitlines()
        return {"error": " ".join([f"it ended with status {status}", *lines[-1:]])}
    result: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    return result


def _write(unit: KernelUnit, directory: Path) -> None:
    (directory / "cache").mkdir()
    (directory / "kernel.cl").write_text(unit.text, "utf-8")
    for name, text in unit.includes.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"a file to include is called {name!r}; allowed: a relative path")
        place = directory / "include" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")


def _code(unit: KernelUnit, directory: Path, answer: Mapping[str, Any]) -> CompiledCode:
    return CompiledCode(
        steady((directory / "code").read_bytes(), directory),
        KernelFacts(
            static_shared_bytes=answer["local_bytes"], pinned_block=answer["work_group"] or None
        ),
        tuple(BufferAccess(argument.name, argument.access) for argument in unit.arguments),
    )


def shown(log: str) -> str:
    """Return the first lines of a build log that say what is wrong."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    first = next((at for at, line in enumerate(lines) if "error:" in line), 0)
    return " | ".join(lines[first : first + _ERROR_LINES]) or "it says nothing"
