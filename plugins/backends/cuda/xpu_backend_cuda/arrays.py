"""The arrays of callers, taken without a copy: torch, CuPy, JAX, and whatever speaks as they do.

torch's tensors are asked directly, which costs a fifth of building an interface; then
``__cuda_array_interface__``, then DLPack. Nothing here waits for the device: an array is
ready on the stream that it was made on, and its user launches there. What comes through
DLPack is ordered before the legacy stream, where launches without a stream go.
"""

from __future__ import annotations

from typing import Any, Final

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, dlpack
from xpu.spec.pool import Block, owner_of
from xpu_backend_cuda.context import Context

_HOST: Final = (
    "lies in host memory; give an array of the device: torch's tensor.cuda(), cupy.asarray(array), "
    "jax.device_put(array), or what Device.from_host(array) returns"
)
_HOST_MEMORY: Final = 1
"""Source: CU_MEMORYTYPE_HOST of cuda.h."""
_CUDA: Final = 2
_MANAGED: Final = 13
"""Kinds of memory. Source: kDLCUDA and kDLCUDAManaged of dlpack.h."""
_LEGACY_STREAM: Final = 1
"""Source: Python array API, ``__dlpack__``: for CUDA 1 is the legacy default stream."""
# Arrays that never change. Their interface does not wait for one that is still being computed,
# their DLPack does.
_IMMUTABLE: Final = frozenset({"jax", "jaxlib"})
_torch_names: dict[Any, str] = {}


def import_array(context: Context, value: Any, *, writable: bool) -> DeviceArray:
    """Take an array that lies on the context's device.

    Raises
    ------
    XpuLaunchException
        It is no array, not contiguous, not writable where it must be, in foreign byte order,
        on another device or in host memory; the message says which, and what to do.
    """
    if getattr(value, "is_cuda", None) is not None:
        return _from_torch(context, value)
    if isinstance(value, DeviceArray):
        return _from_device(context, value)
    if not _is_immutable(value):
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is not None and "V" not in interface["typestr"]:  # V: a type without a name
            return _from_interface(context, value, interface, writable)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(context, value, writable)
    if hasattr(value, "__array_interface__"):
        raise XpuLaunchException(f"the {type(value).__name__} {_HOST}")
    raise XpuLaunchException(
        f"an object of type {type(value).__name__} is no array of a CUDA device; pass one of "
        "torch, CuPy or JAX, or one that offers __cuda_array_interface__ or __dlpack__"
    )


def _from_torch(context: Context, tensor: Any) -> DeviceArray:
    if not tensor.is_cuda:
        raise XpuLaunchException(f"the tensor on {tensor.device} {_HOST}")
    if tensor.get_device() != context.index:
        raise XpuLaunchException(_elsewhere(context, f"number {tensor.get_device()}"))
    if not tensor.is_contiguous():
        raise XpuLaunchException(
            f"the tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()} is not "
            "contiguous; pass tensor.contiguous()"
        )
    if tensor.requires_grad:
        raise XpuLaunchException("the tensor requires a gradient; pass tensor.detach()")
    if tensor.is_neg():  # its memory holds the numbers with the other sign
        raise XpuLaunchException("the tensor is a lazy negative; pass tensor.resolve_neg()")
    dtype = tensor.dtype
    name = _torch_names.get(dtype)
    if name is None:
        name = _torch_names[dtype] = str(dtype).removeprefix("torch.")
    return DeviceArray(tensor.data_ptr(), tuple(tensor.shape), name, tensor)


def _from_device(context: Context, array: DeviceArray) -> DeviceArray:
    owner = owner_of(array)
    if isinstance(owner, Block):
        if owner.index != context.index:
            raise XpuLaunchException(_elsewhere(context, f"number {owner.index}"))
    else:
        _check_place(context, array.address)
    return array


def _from_interface(
    context: Context, value: Any, interface: dict[str, Any], writable: bool
) -> DeviceArray:
    import numpy as np

    what = f"the {type(value).__name__} of shape {interface['shape']}"
    address, is_read_only = interface["data"]
    if writable and is_read_only:
        raise XpuLaunchException(f"{what} is read-only; pass one that may be written, or a copy")
    if interface.get("mask") is not None:
        raise XpuLaunchException(f"{what} has a mask; pass an array without one")
    dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    if not dtype.isnative:
        raise XpuLaunchException(f"{what} is in foreign byte order; pass a copy in this machine's")
    strides = interface.get("strides")
    if strides is not None and not _has_no_gaps(shape, strides, dtype.itemsize):
        raise XpuLaunchException(_gaps(what, strides, "bytes"))
    _check_place(context, address)
    return DeviceArray(address or 0, shape, dtype.name, value)


def _from_dlpack(context: Context, value: Any, writable: bool) -> DeviceArray:
    what = f"the {type(value).__name__}"
    kind, number = value.__dlpack_device__()
    _check_kind(context, what, int(kind), int(number))
    try:
        exported = dlpack.export(value, _LEGACY_STREAM)
    except Exception as error:  # whatever a producer says no with
        raise XpuLaunchException(
            f"{what} cannot be taken through DLPack: {error}; pass an array of torch or CuPy"
        ) from error
    _check_kind(context, what, *exported.device)
    what = f"{what} of shape {exported.shape}"
    # The older protocol cannot say whether memory may be written.
    if writable and (exported.is_read_only or _is_immutable(value)):
        raise XpuLaunchException(f"{what} is read-only; pass one that may be written, or a copy")
    if exported.strides is not None and not _has_no_gaps(exported.shape, exported.strides, 1):
        raise XpuLaunchException(_gaps(what, exported.strides, "elements"))
    owner = (exported.take(), value)
    return DeviceArray(exported.address, exported.shape, exported.dtype, owner)


def _is_immutable(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _IMMUTABLE


def _check_kind(context: Context, what: str, kind: int, number: int) -> None:
    if kind not in (_CUDA, _MANAGED):
        where = _HOST if kind in (1, 3) else f"lies on another kind of device (DLPack {kind})"
        raise XpuLaunchException(f"{what} {where}")
    if kind == _CUDA and number != context.index:
        raise XpuLaunchException(_elsewhere(context, f"number {number}"))


def _check_place(context: Context, address: int) -> None:
    """Refuse an address that is not in the memory of the context's device."""
    if not address:  # of an array without elements
        return
    cu, kinds = context.cu, context.cu.CUpointer_attribute
    code, memory = cu.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
    if code or memory is None or int(memory) == _HOST_MEMORY:
        raise XpuLaunchException(f"the array at {address:#x} {_HOST}")
    _, number = cu.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    if number != context.index:
        raise XpuLaunchException(_elsewhere(context, f"number {number}"))


def _elsewhere(context: Context, where: str) -> str:
    return (
        f"the array lies on another device, {where}; this one is number {context.index}: copy it "
        "there, or open that device"
    )


def _gaps(what: str, strides: Any, unit: str) -> str:
    return (
        f"{what} with strides {tuple(strides)} ({unit}) is not contiguous; pass a contiguous copy"
    )


def _has_no_gaps(shape: tuple[int, ...], strides: Any, step: int) -> bool:
    """Whether elements follow each other in C order; axes of length 1 may have any stride."""
    if 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(tuple(strides)), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True
