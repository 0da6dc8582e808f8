"""The backend ``cuda``: NVRTC compiles the dialect `simt`, NVIDIA's driver runs it."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpu.errors import XpuBuildError
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Compiler, Device


class CudaBackend(Backend):
    """The GPUs that the driver shows.

    What it needs of CUDA is imported when it is asked for: without it everything else of XPU
    works, and `availability` says what to install.
    """

    name = "cuda"
    dialect = "simt"
    further_facts = ("max_block_x", "max_block_y", "max_block_z")
    _needs_compiler = True

    def availability(self) -> Availability:
        """Say whether there is a device, and a compiler for it."""
        from xpu_backend_cuda.driver import availability
        from xpu_backend_cuda.toolchain import FIX, find_nvrtc

        state = availability()
        if not state.is_available:
            # The extra is of use without a device, too. This is asked at every start, so no import.
            if importlib.util.find_spec("cuda") is None and state.fix != FIX:
                reason = f"{state.reason}; nor is there the extra 'cuda', with which it compiles"
                return Availability(False, reason, f"{state.fix}; to compile: {FIX}")
            return state
        try:
            if self._needs_compiler:
                find_nvrtc()
        except XpuBuildError as error:
            return Availability(False, str(error), FIX)
        return state

    def compiler(self) -> Compiler:
        """Return the compiler half, which needs no device.

        Raises
        ------
        XpuBuildError
            There is no NVRTC.
        """
        return self._compiler

    @functools.cached_property
    def _compiler(self) -> Compiler:
        from xpu_backend_cuda.compiler import CudaCompiler
        from xpu_backend_cuda.toolchain import find_nvrtc

        return CudaCompiler(find_nvrtc())

    def code_targets(self, index: int = 0) -> Sequence[str]:
        """Name the targets whose code a device runs: its own, and older ones of its generation.

        Source: CUDA C++ Programming Guide, "Binary Compatibility".
        """
        from xpu_backend_cuda.facts import capability_of
        from xpu_backend_cuda.toolchain import runnable

        return runnable(*capability_of(index))

    def wave_width(self, target: str) -> int | None:
        """Return the lanes of a warp: the same for every target."""
        return 32

    def runs_code(self, architecture: str, target: str) -> bool:
        """Whether code for a target runs on an architecture; see `code_targets`."""
        from xpu_backend_cuda.toolchain import runnable

        named = re.fullmatch(r"sm_([0-9]+)([0-9])a?", architecture)
        return named is not None and target in runnable(int(named[1]), int(named[2]))

    def prebuilt(self, runtime: Mapping[str, Path]) -> Backend:
        """Return the backend as it runs kernels that are built: without NVRTC."""
        made = CudaBackend()
        made._needs_compiler = False
        return made

    def library(self, routine: str) -> str:
        """Return name and version of the library that has a routine; see `cublaslt.library`."""
        from xpu_backend_cuda.cublaslt import library

        return library(routine)

    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts of every device, in the driver's order."""
        from xpu_backend_cuda.facts import all_facts

        return all_facts()

    def open(self, index: int = 0) -> Device:
        """Open a device by number.

        Raises
        ------
        XpuLaunchException
            There is no such device.
        """
        from xpu_backend_cuda.device import CudaDevice

        return CudaDevice(index)
