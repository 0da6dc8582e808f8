"""What a backend plugin supplies: a compiler half and a device half.

The compiler half works with no device present. The device half gives facts, memory,
launches, time and the share of the device that others hold. The core calls both and
knows no vendor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec.compiler import Compiler
from xpu.spec.design import Launch
from xpu.spec.elements import host_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


@attrs.frozen
class Availability:
    """Whether a backend can be used here; if not, why, and the command that mends it."""

    is_available: bool
    reason: str = ""
    fix: str = ""


class LoadedKernel(ABC):
    """A code object loaded on a device, ready to be launched."""

    entry: str


@attrs.frozen
class DeviceArray:
    """Memory that a launch can take: `address` in bytes, and what keeps it alive."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: Any

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        import math

        return math.prod(self.shape) * host_dtype(self.dtype).itemsize


class TimerTier(ABC):
    """A clock that brackets launches.

    Attributes
    ----------
    settle_ns
        Device time, in nanoseconds, that launches run untimed before a bracket. Where what
        ran before changes the pace of what comes next (clocks that fall for wide
        instructions and rise again later), an arm would else be timed at another's pace.
    stream
        Where launches that are to be timed go best: what `Device.launcher` takes. None where
        that makes no difference.
    """

    name: str
    settle_ns: float = 0.0
    stream: Any = None

    @abstractmethod
    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Run the launches one after another and return the nanoseconds for all of them.

        What the bracket itself costs is taken off. The result is NaN when the bracket
        cannot be believed.
        """

    def describe(self) -> Mapping[str, Any]:
        """Return calibration figures, names with units."""
        return {}


class Device(ABC):
    """The device half: one open device."""

    facts: DeviceFacts

    @abstractmethod
    def load(self, code: Path, entry: str) -> LoadedKernel:
        """Load a verified code object.

        Raises
        ------
        XpuLaunchException
            The code cannot be loaded here.
        """

    def routine(self, name: str) -> LoadedKernel:
        """Return a routine of a library, which `launcher` takes as it takes a kernel.

        Raises
        ------
        XpuLaunchException
            There is none of that name; see `Backend.library`.
        """
        raise XpuLaunchException(f"this device offers no routine {name!r} of a library")

    @abstractmethod
    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a caller's array without a copy.

        Raises
        ------
        XpuLaunchException
            The array is not contiguous, not writable where it must be, or not reachable
            from this device.
        """

    @abstractmethod
    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        """Return fresh memory as an uint8 array, filled with 0xFF bytes when poisoned."""

    @abstractmethod
    def from_host(self, array: Array) -> DeviceArray:
        """Copy a host array to fresh device memory."""

    @abstractmethod
    def to_host(self, array: DeviceArray) -> Array:
        """Copy device memory to a fresh host array."""

    @abstractmethod
    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy device memory to device memory of the same size."""

    @abstractmethod
    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes: NaN in every float type."""

    @abstractmethod
    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack one launch; each call of the result makes it again.

        The result keeps none of the arrays alive: whoever holds it does. Memory that a
        library works in is its own; an attribute ``memory``, a tuple of arrays, names it
        where it has to stay for as long as what was recorded of it. It may be called from
        any thread. A host device returns when the work is done, another one when it is queued.
        One that is a `MovableLaunch` serves other arrays, too.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all queued work is done."""

    def is_capturing(self, stream: Any = None) -> bool:
        """Whether what is launched on a stream is recorded to be replayed, instead of run.

        Nothing may be measured or waited for then.
        """
        return False

    @abstractmethod
    def timer(self) -> TimerTier:
        """Return the best clock for this device."""

    @abstractmethod
    def foreign_load(self) -> float | None:
        """Return the share of the device that other processes hold, 0 to 1; None if unknown."""

    def queue_ns(self) -> float | None:
        """Measure nanoseconds from work on one queue to work waiting on another; None: no other."""
        return None

    def identity(self) -> Mapping[str, str]:
        """Return what an answer rests on beyond the code: device, driver, threads, power mode."""
        facts = self.facts
        return {"device": facts.uuid or "", "driver": facts.driver_version or ""}

    def close(self) -> None:
        """Give everything back. Calling it twice is allowed."""
        return


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
