"""The device half of a backend: memory, launches, time, and the share that others hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from xpu.errors import XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec.design import Launch
from xpu.spec.elements import host_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


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

    def trim(self) -> None:
        """Give back memory that is kept for later; one that keeps none has nothing to do.

        Arrays that are alive stay as they are. It may be called from any thread, and after
        `close`. It may wait for the device.
        """
        return

    def close(self) -> None:
        """Give everything back. Calling it twice is allowed."""
        return
