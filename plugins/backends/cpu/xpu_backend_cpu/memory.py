"""Host memory: aligned allocation, and the arrays of callers taken without a copy."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, host_dtype, numpy_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_LINE_BYTES: Final = 64
_HUGE_PAGE_BYTES: Final = 2 << 20
# Memory that the host can reach: plain, and pinned by either GPU vendor's driver.
# Source: DLDeviceType of dlpack.h.
_HOST_KINDS: Final = frozenset({1, 3, 11})
_READ_ONLY_FLAG: Final = 1
_dtype_names: dict[np.dtype[Any], str] = {}


def allocate(nbytes: int) -> DeviceArray:
    """Return fresh memory, aligned to a cache line, or to a huge page from 2 MiB on."""
    raw: NDArray[np.uint8]
    if nbytes < _HUGE_PAGE_BYTES:
        alignment = _LINE_BYTES
        raw = np.empty(nbytes + alignment, np.uint8)
    else:
        # Weights are read once a launch, and a page walk for every 4 KiB of them shows.
        alignment = _HUGE_PAGE_BYTES
        # Private: shared memory, mmap's default, gets huge pages on few systems.
        pages = mmap.mmap(-1, nbytes + 2 * alignment, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(pages, np.uint8)
    skipped = -raw.ctypes.data % alignment
    owner = raw[skipped : skipped + nbytes]
    return DeviceArray(raw.ctypes.data + skipped, (nbytes,), "uint8", owner)


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
    if isinstance(value, np.ndarray):
        return _from_numpy(value, value, writable and not value.flags.writeable)
    if hasattr(value, "__dlpack__"):
        array, dtype = _from_dlpack(value)
        is_refused = writable and not array.flags.writeable and _is_read_only(value)
        return attrs.evolve(_from_numpy(array, value, is_refused), dtype=dtype)
    if hasattr(value, "__array_interface__"):
        array = np.asarray(value)
        return _from_numpy(array, value, writable and not array.flags.writeable)
    raise XpuLaunchException(
        f"an object of type {type(value).__name__} is no array; pass a numpy array, or one "
        "that offers __dlpack__ or __array_interface__"
    )


def _from_numpy(array: Array, value: Any, is_refused: bool) -> DeviceArray:
    flags = array.flags
    dtype = array.dtype
    if is_refused or not flags.c_contiguous or not flags.aligned or not dtype.isnative:
        raise XpuLaunchException(_complaint(array, is_refused))
    name = _dtype_names.get(dtype)
    if name is None:
        name = _dtype_names[dtype] = dtype.name
    # The caller's object and the view: either may own the memory.
    owner = value if value is array else (value, array)
    return DeviceArray(array.__array_interface__["data"][0], array.shape, name, owner)


def _complaint(array: Array, is_refused: bool) -> str:
    what = f"array of {array.dtype} {array.shape}"
    if is_refused:
        return f"{what} is not writable; pass one that is, for instance a copy"
    if not array.dtype.isnative:
        return f"{what} is in foreign byte order; pass array.astype(array.dtype.newbyteorder('='))"
    if not array.flags.c_contiguous:
        return (
            f"{what} with strides {array.strides} is not C-contiguous; "
            "pass numpy.ascontiguousarray(array)"
        )
    return f"{what} is not aligned to its element type; pass a copy of it"


def _from_dlpack(value: Any) -> tuple[Array, str]:
    """Return a view of an array's memory and the name of its element type."""
    what = f"an object of type {type(value).__name__}"
    try:
        kind, number = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (1, 0)
        if int(kind) not in _HOST_KINDS:
            raise XpuLaunchException(
                f"the array lives on another device (DLPack kind {int(kind)}, number {number}), "
                "not in host memory; copy it to the host first"
            )
        array, dtype = numpy_view(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise XpuLaunchException(
            f"{what} cannot be taken through DLPack: {error}; pass a numpy array of it"
        ) from error
    if array.flags.owndata and array.size:
        # numpy makes memory of its own for a null pointer: nobody would see the result.
        raise XpuLaunchException(f"{what} has no memory; pass an array that has")
    return array, dtype


def _is_read_only(value: Any) -> bool:
    """Whether a producer says that its memory must not be written.

    numpy makes every array read-only whose producer speaks the older protocol, which
    cannot say either way: such an array is taken to be what its owner passed it as.
    """
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if not api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        # The older protocol after all. Immutable arrays (jax) show in having no assignment.
        return not hasattr(value, "__setitem__")
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    address = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    # DLManagedTensorVersioned: version (2 x uint32), context, deleter, flags. Source: dlpack.h.
    flags = ctypes.c_uint64.from_address(address + 8 + 2 * ctypes.sizeof(ctypes.c_void_p))
    return bool(flags.value & _READ_ONLY_FLAG)
