"""The backend ``cpu``: it compiles the dialect ``c`` for this machine and runs it here."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpu.errors import XpuBuildError, XpuError, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Compiler, Device
from xpu_backend_cpu.machine import FURTHER_FACTS, Machine, this_machine
from xpu_backend_cpu.toolchain import FIX, find_toolchain

if TYPE_CHECKING:
    from xpu_backend_cpu.compiler import CpuCompiler
    from xpu_backend_cpu.pool import Pool


class CpuBackend(Backend):
    """The host's processor.

    Parameters
    ----------
    workers
        How many workers run a kernel; None for `$XPU_CPU_THREADS`, else one for each core.
    pool
        The library of the worker pool, built already; None: it is built with the compiler.
    """

    name = "cpu"
    dialect = "c"
    further_facts = FURTHER_FACTS

    def __init__(self, workers: int | None = None, pool: Path | None = None) -> None:
        self._workers = workers
        self._pool_file = pool

    @functools.cached_property
    def _machine(self) -> Machine:
        return this_machine(self._workers)

    def availability(self) -> Availability:
        """Say whether kernels can be compiled and run here."""
        try:
            self._machine  # noqa: B018 - a worker count that is no number is found here
            self._pool()
        except XpuBuildError as error:
            return Availability(False, str(error).removesuffix(f"; {FIX}"), FIX)
        except (XpuError, OSError) as error:
            return Availability(False, str(error))
        return Availability(True)

    def compiler(self) -> Compiler:
        """Return the compiler half.

        Raises
        ------
        XpuBuildError
            There is no C compiler.
        """
        return self._compiler

    @functools.cached_property
    def _compiler(self) -> CpuCompiler:
        from xpu_backend_cpu.compiler import CpuCompiler

        return CpuCompiler(find_toolchain(), self._machine.workers)

    def runs_code(self, architecture: str, target: str) -> bool:
        """Whether an architecture is this machine's, for which all targets of the compiler are."""
        return architecture == self._machine.architecture

    def code_targets(self, index: int = 0) -> Sequence[str]:
        """Name this very processor, and the levels of its architecture that it has."""
        from xpu_backend_cpu.targets import runs

        return runs()

    def prebuilt(self, runtime: Mapping[str, Path]) -> Backend:
        """Return the backend with a worker pool that is built already.

        Raises
        ------
        XpuLaunchException
            There is none among the files.
        """
        from xpu_backend_cpu.pool import POOL

        if POOL not in runtime:
            raise XpuLaunchException(f"backend 'cpu' needs its worker pool, {POOL}, beside kernels")
        return CpuBackend(self._workers, runtime[POOL])

    def _pool(self) -> Pool:
        from xpu_backend_cpu.pool import load_pool, open_pool

        if self._pool_file is not None:
            return open_pool(self._pool_file)
        return load_pool(find_toolchain())

    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts of the one device that this machine is."""
        return (self._machine.facts(),)

    def open(self, index: int = 0) -> Device:
        """Open the machine.

        Raises
        ------
        XpuLaunchException
            The number is not 0.
        XpuBuildError
            There is no C compiler to build the worker pool with.
        """
        if index != 0:
            raise XpuLaunchException(f"backend 'cpu' has one device, number 0; asked for {index}")
        from xpu_backend_cpu.device import CpuDevice

        return CpuDevice(self._machine, self._pool())
