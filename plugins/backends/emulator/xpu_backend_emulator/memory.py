"""Memory of the emulated part: the host's, with a note of every byte that was written.

Arrays of callers are taken without a copy and count as written. What the part allocates
itself knows, byte by byte, whether anything wrote it since.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, host_dtype, numpy_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

ALIGNMENT_BYTES: Final = 256
"""What every allocation is aligned to, as on parts with memory of their own."""
POISON: Final = 0xFF
# Memory that the host can reach: plain, and pinned by either GPU vendor's driver.
# Source: DLDeviceType of dlpack.h.
_HOST_KINDS: Final = frozenset({1, 3, 11})


@attrs.frozen(eq=False)
class Block:
    """One allocation: its bytes, and for each of them 1 when something wrote it."""

    data: NDArray[np.uint8]
    written: NDArray[np.uint8]


def allocate(nbytes: int) -> DeviceArray:
    """Return fresh memory that nothing wrote.

    Raises
    ------
    XpuLaunchException
        The host has not so much.
    """
    try:
        raw, notes = np.empty(nbytes + ALIGNMENT_BYTES, np.uint8), np.zeros(nbytes, np.uint8)
    except MemoryError as error:
        raise XpuLaunchException(f"{nbytes} bytes cannot be had: {error}") from error
    skipped = -raw.ctypes.data % ALIGNMENT_BYTES
    block = Block(raw[skipped : skipped + nbytes], notes)
    return DeviceArray(raw.ctypes.data + skipped, (nbytes,), "uint8", block)


def written(array: DeviceArray) -> NDArray[np.uint8] | None:
    """Return the notes of an array's bytes; None for memory that came from outside."""
    owner = array.owner
    while isinstance(owner, DeviceArray):  # a part of a larger allocation
        owner = owner.owner
    if not isinstance(owner, Block):
        return None
    start = array.address - owner.data.ctypes.data
    return owner.written[start : start + array.nbytes]


def poison(array: DeviceArray) -> None:
    """Fill memory with 0xFF; from now on nothing has written it."""
    ctypes.memset(array.address, POISON, array.nbytes)
    notes = written(array)
    if notes is not None:
        notes[:] = 0


def clear(array: DeviceArray) -> None:
    """Fill memory with zero bytes, which count as written."""
    ctypes.memset(array.address, 0, array.nbytes)
    notes = written(array)
    if notes is not None:
        notes[:] = 1


def copy(source: DeviceArray, destination: DeviceArray) -> None:
    """Copy memory of the same size, with what is known of it."""
    ctypes.memmove(destination.address, source.address, source.nbytes)
    to = written(destination)
    if to is not None:
        known = written(source)
        to[:] = 1 if known is None else known


def host_view(array: DeviceArray) -> Array:
    """Return a numpy array over the same memory; it keeps the owner alive."""
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.address)
    memory.owner = array.owner  # type: ignore[attr-defined]  # kept alive with the view
    return np.ndarray(array.shape, host_dtype(array.dtype), memoryview(memory))


def import_array(value: Any, *, writable: bool) -> DeviceArray:
    """Take a numpy array, a DLPack host array or memory with ``__array_interface__``.

    Raises
    ------
    XpuLaunchException
        It is none of these, or not contiguous, not aligned, in foreign byte order, not
        writable where it must be, or on another device.
    """
    if isinstance(value, DeviceArray):
        return value
    dtype = ""
    if isinstance(value, np.ndarray):
        array: Array = value
        # Older DLPack cannot say whether memory may be written; numpy itself can.
        is_refused = writable and not array.flags.writeable
    elif hasattr(value, "__dlpack__"):
        (array, dtype), is_refused = _from_dlpack(value), False
    elif hasattr(value, "__array_interface__"):
        array = np.asarray(value)
        is_refused = writable and not array.flags.writeable
    else:
        raise XpuLaunchException(
            f"an object of type {type(value).__name__} is no array; pass a numpy array, or one "
            "that offers __dlpack__ or __array_interface__"
        )
    complaint = _complaint(array, is_refused)
    if complaint:
        raise XpuLaunchException(f"array of {array.dtype} {array.shape} {complaint}")
    owner = (value, array)  # either may own the memory
    return DeviceArray(array.ctypes.data, array.shape, dtype or array.dtype.name, owner)


def _complaint(array: Array, is_refused: bool) -> str:
    if is_refused:
        return "is not writable; pass one that is, for instance a copy"
    if not array.dtype.isnative:
        return "is in foreign byte order; pass array.astype(array.dtype.newbyteorder('='))"
    if not array.flags.c_contiguous:
        return "is not C-contiguous; pass numpy.ascontiguousarray(array)"
    if not array.flags.aligned:
        return "is not aligned to its element type; pass a copy of it"
    return ""


def _from_dlpack(value: Any) -> tuple[Array, str]:
    """Return a view of an array's memory and the name of its element type."""
    if hasattr(value, "__dlpack_device__"):
        kind, number = value.__dlpack_device__()
        if int(kind) not in _HOST_KINDS:
            raise XpuLaunchException(
                f"the array lives on another device (DLPack kind {int(kind)}, number {number}), "
                "not in host memory; copy it to the host first"
            )
    try:
        return numpy_view(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise XpuLaunchException(
            f"an object of type {type(value).__name__} cannot be taken through DLPack: {error}; "
            "pass a numpy array of it"
        ) from error
