"""The backend ``hip``: clang compiles the dialect `simt` for AMD's GPUs, their runtime runs it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Compiler, Device


class HipBackend(Backend):
    """The GPUs that AMD's runtime shows.

    What it needs of ROCm is imported when it is asked for: without it everything else of XPU
    works, and `availability` says what to install.
    """

    name = "hip"
    dialect = "simt"
    further_facts = ("max_block_x", "max_block_y", "max_block_z")
    _needs_compiler = True

    def availability(self) -> Availability:
        """Say whether there is a device, and a compiler for it."""
        from xpu_backend_hip.driver import availability
        from xpu_backend_hip.toolchain import FIX, find_toolchain

        state = availability()
        try:
            if self._needs_compiler:
                find_toolchain()
        except XpuBuildError as error:
            if state.is_available:
                return Availability(False, str(error), FIX)
            reason = f"{state.reason}; nor is there a compiler: {error}"
            return Availability(False, reason, f"{state.fix}; to compile: {FIX}")
        return state

    def compiler(self) -> Compiler:
        """Return the compiler half, which needs no device.

        Raises
        ------
        XpuBuildError
            There is no clang with its linker, or nothing that reads what it makes.
        """
        return self._compiler

    @functools.cached_property
    def _compiler(self) -> Compiler:
        from xpu_backend_hip.compiler import HipCompiler
        from xpu_backend_hip.toolchain import find_toolchain

        return HipCompiler(find_toolchain())

    def wave_width(self, target: str) -> int | None:
        """Return the lanes of a wave as the compiler makes them for a target."""
        from xpu_backend_hip.targets import generation, wave_width

        return None if generation(target) is None else wave_width(target)

    def runs_code(self, architecture: str, target: str) -> bool:
        """Whether code for a target runs on an architecture, with whichever features of both."""
        from xpu_backend_hip.hardware import runnable

        return target.partition(":")[0] in runnable(architecture.partition(":")[0])

    def code_targets(self, index: int = 0) -> Sequence[str]:
        """Name the targets whose code a device runs: its own, and those of several parts."""
        from xpu_backend_hip.facts import target_of
        from xpu_backend_hip.hardware import runnable

        try:
            return runnable(target_of(index))
        except XpuLaunchException as error:
            raise XpuBuildError(str(error)) from error

    def prebuilt(self, runtime: Mapping[str, Path]) -> Backend:
        """Return the backend as it runs kernels that are built: without a compiler."""
        made = HipBackend()
        made._needs_compiler = False
        return made

    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts of every device, in the runtime's order."""
        from xpu_backend_hip.facts import all_facts

        return all_facts()

    def open(self, index: int = 0) -> Device:
        """Open a device by number.

        Raises
        ------
        XpuLaunchException
            There is no such device.
        """
        from xpu_backend_hip.device import HipDevice

        return HipDevice(index)
