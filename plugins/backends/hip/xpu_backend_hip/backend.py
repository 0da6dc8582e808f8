"""The backend ``hip``: clang compiles the dialect `simt` for AMD's GPUs; nothing is run."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Compiler, Device

_RUNS_NONE: Final = "this version builds code for AMD GPUs and runs none"


class HipBackend(Backend):
    """AMD's GPUs, as far as a compiler goes: `availability` says that nothing is run."""

    name = "hip"
    dialect = "simt"

    def availability(self) -> Availability:
        """Say that there is no device half, and what to install where there is no compiler."""
        from xpu_backend_hip.toolchain import FIX, find_toolchain

        try:
            find_toolchain()
        except XpuBuildError as error:
            reason = f"{_RUNS_NONE}; nor is there a compiler: {error}"
            return Availability(False, reason, f"to compile: {FIX}")
        return Availability(False, _RUNS_NONE)

    def compiler(self) -> Compiler:
        """Return the compiler half.

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

    def devices(self) -> Sequence[DeviceFacts]:
        """Return nothing: there is no device half."""
        return ()

    def open(self, index: int = 0) -> Device:
        """Refuse: there is no device half.

        Raises
        ------
        XpuLaunchException
            Always.
        """
        raise XpuLaunchException(
            f"backend 'hip' cannot open device {index}: {_RUNS_NONE}; build with "
            "--target gfx1151 or another, and run on another backend"
        )
