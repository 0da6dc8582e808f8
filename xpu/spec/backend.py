"""What a backend plugin supplies: a compiler half and a device half.

The compiler half works with no device present. The device half gives facts, memory,
launches, time and the share of the device that others hold. The core calls both and
knows no vendor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from xpu.errors import XpuBuildError
from xpu.model import DeviceFacts
from xpu.spec.compiler import Compiler
from xpu.spec.device import Device


@attrs.frozen
class Availability:
    """Whether a backend can be used here; if not, why, and the command that mends it."""

    is_available: bool
    reason: str = ""
    fix: str = ""


class Backend(ABC):
    """One way to compile and to run kernels.

    Attributes
    ----------
    name
        What ``--backend`` and configuration say.
    dialect
        The source dialect that its compiler takes.
    further_facts
        Names of device facts that it declares beyond the common ones.
    is_by_name_only
        Whether it serves only whoever names it: one that imitates a part, or that is there
        to compare with, must not be taken because nothing else is available.
    """

    name: str
    dialect: str
    is_by_name_only: bool = False
    further_facts: tuple[str, ...] = ()

    @abstractmethod
    def availability(self) -> Availability:
        """Say whether the device half can be used here; never raise."""

    @abstractmethod
    def compiler(self) -> Compiler:
        """Return the compiler half.

        Raises
        ------
        XpuBuildError
            There is no compiler; the message says what to install.
        """

    def code_targets(self, index: int = 0) -> Sequence[str]:
        """Name the targets whose code a device runs, the best first.

        The names are those of `Compiler.carried_target`. A backend whose kernels are to be
        bound from a bundle overrides this, and asks no compiler.

        Raises
        ------
        XpuBuildError
            There is no such device, or, unless overridden, no compiler.
        """
        compiler = self.compiler()
        return (compiler.carried_target(compiler.native_target()),)

    def prebuilt(self, runtime: Mapping[str, Path]) -> Backend:
        """Return the backend as it serves code that is built: nothing of it asks for a compiler.

        Parameters
        ----------
        runtime
            The files of `Compiler.runtime`, by name; whole, as they were built.

        Raises
        ------
        XpuLaunchException
            A file that it needs is not among them.
        """
        return self

    def wave_width(self, target: str) -> int | None:
        """Return the lanes of a wave of a target; None where it has none, or is not known.

        It asks neither a device nor a compiler.
        """
        return None

    def runs_code(self, architecture: str, target: str) -> bool | None:
        """Whether parts of an architecture run code for a target, by names alone; None: unknown."""
        return None

    def library(self, routine: str) -> str:
        """Return name and version of the library that has a routine of `xpu.spec.routines`.

        It needs no device. A stored answer rests on the text.

        Raises
        ------
        XpuBuildError
            There is none; the message says what to install.
        """
        raise XpuBuildError(f"backend {self.name!r} offers no routine {routine!r} of a library")

    @abstractmethod
    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts of every device, in the order of their numbers."""

    @abstractmethod
    def open(self, index: int = 0) -> Device:
        """Open a device by number.

        Raises
        ------
        XpuLaunchException
            There is no such device.
        """
