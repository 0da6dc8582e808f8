"""The device half of the null backend: memory of the host, launches of a Python function."""

from __future__ import annotations

import ctypes
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from xpu.errors import XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel, TimerTier, host_dtype
from xpu.testing.functions import found_function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_LINE_BYTES: Final = 64


@attrs.frozen(eq=False)
class NullLaunch:
    """One launch, as the function that stands for a kernel sees it.

    Attributes
    ----------
    kernel, entry
        Name and symbol of the kernel; the symbol is ``xpu_DESIGN_MEMBER``.
    defines
        Its macros: parameters and constants.
    buffers
        Its arrays over the launch's own memory, flat, of the arguments' element types; bytes
        for a weight preparation.
    sizes, launch
        The problem's sizes, and grid and block.
    """

    kernel: str
    entry: str
    defines: Mapping[str, str]
    buffers: tuple[NDArray[Any], ...]
    sizes: tuple[int, ...]
    launch: Launch


NullFunction = Callable[[NullLaunch], float | None]
"""Runs a launch. What it returns counts as the launch's nanoseconds on the device's clock; None:
the host's clock is read."""


class NullKernel(LoadedKernel):
    """What the compiler wrote down, and the function to run."""

    def __init__(self, document: Mapping[str, Any], function: NullFunction | None) -> None:
        self.entry = document["entry"]
        self.document = document
        self.function = function


class NullTimer(TimerTier):
    """The host's clock, or what launches say that they took."""

    name = "null"

    def __init__(self, said: list[float]) -> None:
        self._said = said

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Return the nanoseconds of all launches."""
        self._said.clear()
        start = time.perf_counter_ns()
        for launch in launches:
            launch()
        elapsed = time.perf_counter_ns() - start
        return math.fsum(self._said) if self._said else float(elapsed)


class NullDevice(Device):
    """Memory of the host, and launches that run nothing but a Python function."""

    def __init__(self, facts: DeviceFacts, function: NullFunction | None = None) -> None:
        self.facts = facts
        self._function = function
        self._said: list[float] = []

    def load(self, code: Path, entry: str) -> NullKernel:
        """Read what the compiler wrote down.

        Raises
        ------
        XpuLaunchException
            It is not the compiler's, or of another entry.
        """
        try:
            document = json.loads(code.read_bytes())
            if document["entry"] != entry:
                raise ValueError(f"it holds {document['entry']!r}")
            return NullKernel(document, self._function or found_function(document["function"]))
        except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
            raise XpuLaunchException(
                f"kernel {entry!r} cannot be loaded from {code}: {error}"
            ) from error

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take an array of the host without a copy.

        Raises
        ------
        XpuLaunchException
            It is no array of the host, or not contiguous, aligned, in this machine's byte
            order, or writable.
        """
        if isinstance(value, DeviceArray):
            return value
        kind = getattr(value, "__dlpack_device__", lambda: (1, 0))()[0]
        if int(kind) != 1:  # Source: DLDeviceType of dlpack.h
            raise XpuLaunchException(f"a {type(value).__name__} is not in the host's memory")
        try:
            array = value if isinstance(value, np.ndarray) else np.from_dlpack(value)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            raise XpuLaunchException(f"a {type(value).__name__} is no array: {error}") from error
        for is_so, what in (
            (array.flags.c_contiguous, "contiguous"),
            (array.flags.aligned, "aligned"),
            (array.dtype.isnative, "in this machine's byte order"),
            (not writable or value is not array or array.flags.writeable, "writable"),
        ):
            if not is_so:
                raise XpuLaunchException(f"the array is not {what}")
        return DeviceArray(array.ctypes.data, array.shape, array.dtype.name, (value, array))

    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        """Return memory of the host, aligned as the dialect `c` promises."""
        # Filled either way: a test must not pass by what memory happened to hold.
        raw = np.full(nbytes + _LINE_BYTES, 0xFF if poisoned else 0xA5, np.uint8)
        start = -raw.ctypes.data % _LINE_BYTES
        owner = raw[start : start + nbytes]
        return DeviceArray(raw.ctypes.data + start, (nbytes,), "uint8", owner)

    def from_host(self, array: Array) -> DeviceArray:
        """Copy an array."""
        owner = np.array(array, order="C")
        return DeviceArray(owner.ctypes.data, owner.shape, owner.dtype.name, owner)

    def to_host(self, array: DeviceArray) -> Array:
        """Copy memory to a fresh array."""
        return _view(array, array.dtype).reshape(array.shape).copy()

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size."""
        ctypes.memmove(destination.address, source.address, source.nbytes)

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes."""
        ctypes.memset(array.address, 0xFF, array.nbytes)

    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack a call of the function."""
        assert isinstance(kernel, NullKernel)
        document = kernel.document
        dtypes = document["dtypes"] or ["uint8"] * len(buffers)
        views = [_view(buffer, dtype) for buffer, dtype in zip(buffers, dtypes, strict=True)]
        packed = NullLaunch(
            document["kernel"],
            document["entry"],
            document["defines"],
            tuple(views),
            tuple(sizes),
            launch,
        )

        def call() -> None:
            if launch.clears_result:
                views[-1][:] = 0
            if kernel.function is not None:
                took_ns = kernel.function(packed)
                if took_ns is not None:
                    self._said.append(took_ns)

        return call

    def synchronize(self) -> None:
        """Return at once."""

    def timer(self) -> TimerTier:
        """Return the clock."""
        return NullTimer(self._said)

    def foreign_load(self) -> float | None:
        """Return 0: nobody else has it."""
        return 0.0


def _view(array: DeviceArray, dtype: str) -> NDArray[Any]:
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.address)
    return np.ndarray((array.nbytes,), np.uint8, memoryview(memory)).view(host_dtype(dtype))
