"""Reads a DLPack capsule: where an array lies, and whose it is to give back.

For memory of devices: numpy's own reader takes host memory only. Called by backends. A capsule
that is not taken stays its producer's, whose destructor frees it; one that is taken is renamed,
and its deleter is called once, when what was taken dies. Source: dlpack.h 1.1, and the Python
specification of DLPack.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Final

import attrs

_NOT_WRITABLE: Final = 0b11
"""Flags: memory that must not be written, and a copy, in which nobody would see the result."""
_KINDS: Final = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_NAMED: Final = {(4, 16): "bfloat16", (6, 8): "bool"}

# Python's functions on capsules. They keep the interpreter's lock.
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_set_name: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


# By the newer protocol first. What a taken capsule is called: its destructor leaves that alone.
_PROTOCOLS: Final = (
    (b"dltensor_versioned", b"used_dltensor_versioned", _Versioned),
    (b"dltensor", b"used_dltensor", _Managed),
)


@attrs.frozen(eq=False)
class Exported:
    """An array as its producer describes it; `take` makes its memory the taker's.

    `strides` are in elements, None when there are no gaps. `is_read_only` is None where the
    protocol cannot say.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    device: tuple[int, int]
    is_read_only: bool | None
    _capsule: Any
    _managed: Any
    _used_name: bytes

    def take(self) -> Taken:
        """Take the memory; it stays valid for as long as the result lives."""
        _set_name(self._capsule, self._used_name)
        return Taken(self._managed)


class Taken:
    """Memory that came through DLPack."""

    def __init__(self, managed: Any) -> None:
        end = weakref.finalize(self, _delete, managed)
        end.atexit = False


def export(value: Any, stream: int) -> Exported:
    """Ask a producer for its array, ordered before what a stream does next.

    Parameters
    ----------
    stream
        What the Python array API calls the stream, for this kind of device.

    Raises
    ------
    TypeError, ValueError
        The array cannot be described here; the producer may raise others.
    """
    try:
        capsule = value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        capsule = value.__dlpack__(stream=stream)
    for name, used_name, structure in _PROTOCOLS:
        if _is_valid(capsule, name):
            managed = structure.from_address(_pointer(capsule, name))
            return _described(capsule, managed, used_name)
    raise TypeError("its __dlpack__ gives no capsule, or one that somebody has taken")


def _described(capsule: Any, managed: Any, used_name: bytes) -> Exported:
    if getattr(managed, "major", 1) != 1:
        raise ValueError(f"it speaks version {managed.major} of DLPack, known is 1")
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    is_read_only = bool(managed.flags & _NOT_WRITABLE) if isinstance(managed, _Versioned) else None
    return Exported(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=strides,
        dtype=_dtype(tensor),
        device=(tensor.device_type, tensor.device_id),
        is_read_only=is_read_only,
        capsule=capsule,
        managed=managed,
        used_name=used_name,
    )


def _dtype(tensor: _Tensor) -> str:
    code, bits = tensor.code, tensor.bits
    if bits % 8:
        name = f"{_KINDS[code]}{bits}" if code in _KINDS else f"DLPack {code}, {bits} bits"
        raise ValueError(
            f"its element type ({name}) is no whole number of bytes; pass what it is packed in, "
            "as uint8"
        )
    if tensor.lanes == 1 and code in _KINDS:
        return f"{_KINDS[code]}{bits}"
    if tensor.lanes == 1 and (code, bits) in _NAMED:
        return _NAMED[code, bits]
    raise ValueError(
        f"its element type (DLPack {code}, {bits} bits, {tensor.lanes} lanes) is unknown"
    )


def _delete(managed: Any) -> None:
    # Called with the interpreter's lock held: a deleter may drop references without asking for it.
    if managed.deleter:
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))
