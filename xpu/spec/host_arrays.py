"""Arrays of the host's memory taken through DLPack, bfloat16 among them, which numpy has not.

Called by backends that reach that memory. Nothing is copied; whose the memory is stays as the
producer says.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from xpu.spec.elements import BFLOAT16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UINT: Final = 1
_BFLOAT16: Final = (4, 16, 1)
"""Type code, bits and lanes. Source: DLDataType of dlpack.h."""
_DEVICE_AND_AXES: Final = ctypes.sizeof(ctypes.c_void_p) + 4 + 4 + 4
"""What comes before the type in a DLTensor: address, device type and number, ndim."""
_PLACES: Final = {
    b"dltensor": _DEVICE_AND_AXES,
    # Behind version (2 x uint32), context, deleter and flags.
    b"dltensor_versioned": _DEVICE_AND_AXES + 8 + 2 * ctypes.sizeof(ctypes.c_void_p) + 8,
}

# Python's functions on capsules. They keep the interpreter's lock.
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def numpy_view(value: Any) -> tuple[NDArray[np.generic], str]:
    """Return a numpy view of an array that is offered through DLPack, and its element type's name.

    A view of bfloat16 is one of uint16.

    Raises
    ------
    BufferError, RuntimeError, TypeError, ValueError
        numpy cannot take it, or its producer does not give it.
    """
    import numpy as np

    try:
        array: NDArray[np.generic] = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        bits = _AsBits(value)
        array = np.from_dlpack(bits)  # raises the same again, where that is not what it lacks
        return array, BFLOAT16 if bits.was_bfloat16 else array.dtype.name
    return array, array.dtype.name


class _AsBits:
    """Offers what another object offers through DLPack, its bfloat16 as uint16.

    `was_bfloat16` says, once it was asked for its capsule, whether there was any.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self.was_bfloat16 = False

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._value.__dlpack_device__()
        return int(kind), int(number)

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._value.__dlpack__(**options)
        for name, place in _PLACES.items():
            if _is_valid(capsule, name):
                self._relabel(_pointer(capsule, name) + place)
        return capsule

    def _relabel(self, address: int) -> None:
        code, bits = (ctypes.c_uint8.from_address(address + at) for at in (0, 1))
        lanes = ctypes.c_uint16.from_address(address + 2)
        if (code.value, bits.value, lanes.value) == _BFLOAT16:
            code.value = _UINT
            self.was_bfloat16 = True
