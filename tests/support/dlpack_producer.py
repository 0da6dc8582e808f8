"""An array that is offered through DLPack as elements of a type that numpy may lack."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CAPSULE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
HEADS = {
    "dltensor": (),
    "dltensor_versioned": (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    ),
}
TENSOR = (
    ("data", ctypes.c_void_p),
    ("kind", ctypes.c_int32),
    ("number", ctypes.c_int32),
    ("ndim", ctypes.c_int32),
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.POINTER(ctypes.c_int64)),
    ("offset", ctypes.c_uint64),
)
TAIL = (("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Producer:
    """Offers numpy's memory as elements of another type, by one of the two protocols."""

    def __init__(self, bits: np.ndarray, protocol: str, code: int = 4) -> None:
        self._bits, self._protocol, self._code = bits, protocol, code
        self._shape = (ctypes.c_int64 * bits.ndim)(*bits.shape)
        self._alive: list[Any] = []
        self.deleted = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if self._protocol == "dltensor" and "max_version" in options:
            raise TypeError("an old producer")
        is_new = self._protocol == "dltensor_versioned"
        fields = (*HEADS[self._protocol], *TENSOR, *(() if is_new else TAIL))
        made = type("Managed", (ctypes.Structure,), {"_fields_": fields})()
        if is_new:
            made.major = 1
        made.data, made.kind = self._bits.ctypes.data, 1
        made.ndim, made.shape = self._bits.ndim, self._shape
        made.code, made.bits, made.lanes = self._code, 16, 1
        deleter = DELETER(self._delete)
        made.deleter = ctypes.cast(deleter, ctypes.c_void_p)
        name = self._protocol.encode()  # a capsule keeps no copy of it
        self._alive += [made, deleter, name]
        return CAPSULE(ctypes.addressof(made), name, None)

    def _delete(self, _address: int) -> None:
        self.deleted += 1
