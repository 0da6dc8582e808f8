"""A backend that has no device: for tests of whatever stands above backends.

It takes every source for compiled, launches nothing, or runs a Python function that stands for
the kernels. It tells any facts, so that any part's limits can be tried.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import DeviceFacts, KernelFacts
from xpu.spec import Availability, Backend, CompiledCode, Compiler, Device, KernelUnit
from xpu.testing.functions import function_reference
from xpu.testing.null_device import NullDevice, NullFunction

TARGET: Final = "null"


class NullBackend(Backend):
    """Compiles anything to bytes and launches nothing, or `function`.

    Parameters
    ----------
    dialect
        The dialect that it says it takes.
    function
        What stands for every kernel. A function of a module runs in worker processes too.
    facts
        What its one device reports.
    name
        Its name.

    Notes
    -----
    A source that begins with ``#error`` is refused, as a member that does not compile.
    """

    name = "null"
    dialect = "c"

    def __init__(
        self,
        dialect: str = "c",
        function: NullFunction | None = None,
        *,
        facts: DeviceFacts | None = None,
        name: str = "null",
    ) -> None:
        self.name = name
        self.dialect = dialect
        self._function = function
        self._facts = facts or DeviceFacts(
            backend=name,
            name="no device at all",
            uuid="null",
            driver_version="1",
            multiprocessors=1,
            memory_bytes=1 << 30,
        )

    def availability(self) -> Availability:
        """Return that it is there, as it always is."""
        return Availability(True)

    def compiler(self) -> Compiler:
        """Return the compiler half."""
        return NullCompiler(function_reference(self._function))

    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts that it was given."""
        return (self._facts,)

    def open(self, index: int = 0) -> Device:
        """Open the one device.

        Raises
        ------
        XpuLaunchException
            The number is not 0.
        """
        if index != 0:
            raise XpuLaunchException(
                f"backend {self.name!r} has one device, number 0; asked for {index}"
            )
        return NullDevice(self._facts, self._function)


class NullCompiler(Compiler):
    """Writes down what it was given; `reference` says where the function is found."""

    def __init__(self, reference: Mapping[str, str]) -> None:
        self._reference = dict(reference)

    @property
    def identity(self) -> str:
        """Its name."""
        return "null 1"

    def native_target(self) -> str:
        """Name the one target."""
        return TARGET

    def fingerprint(self, target: str) -> str:
        """Return where the function stands."""
        return json.dumps(self._reference)

    def compile(
        self, units: Sequence[KernelUnit], target: str, *, deadline_s: float
    ) -> Sequence[CompiledCode | XpuBuildError]:
        """Write each unit down."""
        return [self._compiled(unit, target) for unit in units]

    def _compiled(self, unit: KernelUnit, target: str) -> CompiledCode | XpuBuildError:
        if target != TARGET:
            return XpuBuildError(f"{unit.kernel}: target {target!r}; allowed: {TARGET}")
        first = unit.text.strip().partition("\n")[0]
        if first.startswith("#error"):
            return XpuBuildError(f"{unit.kernel}: {first}")
        sources = repr((unit.text, sorted(unit.includes.items())))
        document = {
            "kernel": unit.kernel,
            "entry": unit.entry,
            "defines": dict(sorted(unit.defines.items())),
            "dtypes": [argument.dtype for argument in unit.arguments],
            "function": self._reference,
            "source": hashlib.sha256(sources.encode()).hexdigest(),
        }
        return CompiledCode(json.dumps(document).encode(), KernelFacts())
