"""The backend ``emulator``: it compiles the dialect ``simt`` for the host and runs it here."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpu.errors import XpuBuildError, XpuError, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Compiler, Device
from xpu_backend_emulator.part import emulated_facts
from xpu_backend_emulator.toolchain import FIX, find_toolchain

if TYPE_CHECKING:
    from xpu_backend_emulator.compiler import EmulatorCompiler


class EmulatorBackend(Backend):
    """An emulated part.

    Parameters
    ----------
    wave_width
        Lanes of a wave, 32 or 64; None for `$XPU_EMULATOR_WAVE`, else what the facts say:
        those of the file `$XPU_EMULATOR_FACTS`, or of a generic part.
    """

    name = "emulator"
    is_by_name_only = True
    dialect = "simt"

    def __init__(self, wave_width: int | None = None) -> None:
        self._wave_width = wave_width
        self._needs_compiler = True

    @functools.cached_property
    def _facts(self) -> DeviceFacts:
        return emulated_facts(self._wave_width)

    def availability(self) -> Availability:
        """Say whether kernels can be compiled and run here."""
        try:
            self._facts  # noqa: B018 - an unreadable facts file is found here
            if self._needs_compiler:
                find_toolchain()
        except XpuBuildError as error:
            return Availability(False, str(error), FIX)
        except XpuError as error:
            return Availability(False, str(error))
        return Availability(True)

    def compiler(self) -> Compiler:
        """Return the compiler half.

        Raises
        ------
        XpuBuildError
            There is no C++ compiler.
        """
        return self._compiler

    @functools.cached_property
    def _compiler(self) -> EmulatorCompiler:
        from xpu_backend_emulator.compiler import EmulatorCompiler

        return EmulatorCompiler(
            find_toolchain(), self._facts.wave_width or 0, self._facts.matrix_shapes or ()
        )

    def code_targets(self, index: int = 0) -> Sequence[str]:
        """Name the checked and the fast code for the part's waves, on hosts of this kind."""
        from xpu_backend_emulator.compiler import TARGETS, carried

        width = self._facts.wave_width
        return tuple(carried(name) for name, (lanes, _) in TARGETS.items() if lanes == width)

    def wave_width(self, target: str) -> int | None:
        """Return the lanes of a wave of a target."""
        from xpu_backend_emulator.compiler import TARGETS, carried

        known = ((name, width) for name, (width, _) in TARGETS.items())
        return next((width for name, width in known if target in (name, carried(name))), None)

    def prebuilt(self, runtime: Mapping[str, Path]) -> Backend:
        """Return the backend as it runs kernels that are built; the runtime is part of each."""
        made = EmulatorBackend(self._wave_width)
        made._needs_compiler = False
        return made

    def library(self, routine: str) -> str:
        """Return name and version of the library that has a routine; see `library.library`."""
        from xpu_backend_emulator.library import library

        return library(routine)

    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts of the one emulated part."""
        return (self._facts,)

    def open(self, index: int = 0) -> Device:
        """Open the part.

        Raises
        ------
        XpuLaunchException
            The number is not 0.
        """
        if index != 0:
            raise XpuLaunchException(
                f"backend 'emulator' has one device, number 0; asked for {index}"
            )
        from xpu_backend_emulator.device import EmulatorDevice

        return EmulatorDevice(self._facts)
