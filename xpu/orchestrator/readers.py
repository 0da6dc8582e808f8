"""What tells the address of an array that is like one which a device took, and of no other.

`MovableLaunch` says what being like means. A reader keeps the array that it was made of alive
no longer than the call it is made in.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from xpu.orchestrator.weights import PreparedWeights

if TYPE_CHECKING:
    from xpu.orchestrator.arguments import Slot
    from xpu.spec import DeviceArray

Reader = Callable[[Any], int]
"""Gives the address of an array, 0 when it is not like the one that the reader was made of."""
Guard = Callable[..., bool]
"""Says whether tensors are like those that it was made of, each like its own."""

# Source: NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED and NPY_ARRAY_WRITEABLE of ndarraytypes.h.
_READABLE: Final = 0x0001 | 0x0100
_WRITABLE: Final = 0x0400


def reader(slot: Slot, value: Any, array: DeviceArray) -> Reader | None:
    """Return what reads the likes of `value`, that a device took as `array`.

    None when they have to be taken one by one: raw weights, which are repacked for each call,
    what the device took elsewhere than where it says it lies, and what does not say enough.
    """
    import numpy as np

    if type(value) is PreparedWeights:
        return _of_prepared(value)
    if slot.preparer is not None:
        return None
    make = _of_numpy if type(value) is np.ndarray else _of_tensor
    try:
        made = make(slot, value)
        return made if made(value) == array.address else None
    except Exception:
        return None


def guard(*tensors: Any) -> Guard | None:
    """Return what says at one call whether tensors are like these; None where nothing can.

    To compare attributes costs 0.4 us a tensor: most of them make an object for it. PyTorch
    compares all of them in C, type, strides and lazy views included, for the code that it
    compiles. That is no public interface of it, so it is used only where it is seen to tell
    tensors apart. A no means little: a mode of the program (inference, autocast) is compared,
    too.
    """
    try:
        guards = sys.modules["torch"]._C._dynamo.guards
        check: Guard = guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        ).check
        is_telling = check(*tensors) is True and not any(
            check(*tensors[:place], tensor.new_empty(0), *tensors[place + 1 :])
            for place, tensor in enumerate(tensors)
        )
    except Exception:
        # Another library's tensors, or a release of PyTorch without it.
        return None
    return check if is_telling else None


def _of_prepared(like: PreparedWeights) -> Reader:
    kind = like.kind

    def read(value: PreparedWeights) -> int:
        return value.array.address if value.kind == kind else 0

    return read


def _of_tensor(slot: Slot, like: Any) -> Reader:
    dtype, device, shape = like.dtype, like.device, slot.shape
    has_gradient = getattr(like, "requires_grad", None)
    # A tensor whose numbers have to be negated yet has the address of those that are not.
    is_lazy = like.is_neg() if hasattr(like, "is_neg") else None

    def read(value: Any) -> int:
        if (
            value.dtype is dtype
            and value.shape == shape
            and value.device == device
            and (has_gradient is None or value.requires_grad is has_gradient)
            and (is_lazy is None or value.is_neg() is is_lazy)
            and value.is_contiguous()
        ):
            address: int = value.data_ptr()
            return address
        return 0

    return read


def _of_numpy(slot: Slot, like: Any) -> Reader:
    dtype, shape = like.dtype, slot.shape
    wanted = _READABLE | _WRITABLE if slot.is_written else _READABLE
    buffer, address_of = ctypes.c_char.from_buffer, ctypes.addressof

    def read(value: Any) -> int:
        flags = value.flags.num
        if value.dtype is dtype and value.shape == shape and flags & wanted == wanted:
            if flags & _WRITABLE:
                # A buffer tells in a fifth of the time, of memory that may be written.
                return address_of(buffer(value))
            address: int = value.__array_interface__["data"][0]
            return address
        return 0

    return read
