"""One launch, packed: all that can be done once is done here, a call is one call of the runtime."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_ubyte, c_void_p
from typing import Any, Final, TypeAlias, cast

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, Launch, LoadedKernel
from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.kernel import HipKernel

LEGACY_STREAM: Final = 0
DEFAULT_STREAMS: Final = frozenset({LEGACY_STREAM, 1, 2})
"""Numbers that mean a stream of whatever device is current.

Source: hipStreamLegacy and hipStreamPerThread of hip_runtime_api.h.
"""
_Words: TypeAlias = "array.array[int]"  # it takes numpy's integers, which ctypes does not


def stream_number(stream: Any) -> int:
    """Return a stream as the runtime's number.

    Parameters
    ----------
    stream
        None (the legacy default stream), a number, a stream of torch, CuPy or hip-python, or
        any object with ``__cuda_stream__``, which frameworks for ROCm offer by that name, too.

    Raises
    ------
    XpuLaunchException
        It is none of these.
    """
    if stream is None:
        return LEGACY_STREAM
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    found = getattr(stream, "__cuda_stream__", None)
    if found is not None:
        # A method that returns version and number; at first it was an attribute.
        return int((found() if callable(found) else found)[1])
    for name in ("cuda_stream", "ptr"):  # torch, CuPy
        number = getattr(stream, name, None)
        if isinstance(number, int):
            return number
    if type(stream).__name__ == "ihipStream_t":  # hip-python, under either of its names
        return int(stream)
    raise XpuLaunchException(
        f"{stream!r} is no stream; pass None, a stream of torch, CuPy or hip-python, or its "
        "number; nothing was launched"
    )


def packed(
    context: Context,
    kernel: LoadedKernel,
    launch: Launch,
    buffers: Sequence[DeviceArray],
    sizes: Sequence[int],
    stream: Any,
) -> Callable[[], None]:
    """Pack one launch, a `MovableLaunch`. It keeps the kernel, and none of the arrays.

    Raises
    ------
    XpuLaunchException
        The kernel or the device cannot make it. Each call of the result raises it when the
        runtime refuses the launch, or reports what an earlier one did.
    """
    if not isinstance(kernel, HipKernel) or kernel.context.index != context.index:
        raise XpuLaunchException(
            f"kernel {kernel.entry!r} was not loaded on this device; nothing was launched"
        )
    arguments = kernel.shape(launch).arguments
    values = [buffer.address for buffer in buffers]
    values += sizes
    count = len(values)
    if kernel.parameters not in (None, count):
        raise XpuLaunchException(
            f"kernel {kernel.entry!r} takes {kernel.parameters} arrays and sizes, given "
            f"{len(buffers)} arrays and {len(sizes)} sizes; nothing was launched"
        )
    number = stream_number(stream)
    memory = _parameters(values, count)
    made: Any = _launch(context, kernel, arguments, number, memory)
    addresses = memoryview(memory)[count : count + len(buffers)]
    if launch.clears_result:
        made = _cleared(context, buffers[-1].nbytes, addresses, number, made)
    if not context.is_only:
        made = _on_device(context, made)
    made.parameters = memory  # read at every call: it must stay
    made.kernel = kernel  # its code must, too
    made.stream = number  # a clock asks where its launches go
    # The legacy stream cannot be captured. The runtime copies parameters when it is called.
    made.is_recordable = number != LEGACY_STREAM
    made.addresses = addresses
    return cast("Callable[[], None]", made)


def _launch(
    context: Context, kernel: HipKernel, shape: tuple[Any, ...] | None, stream: int, memory: _Words
) -> Any:
    if shape is None:  # a grid without blocks
        return lambda: None
    arguments = (*shape, c_void_p(stream), c_void_p(_address(memory)), None)
    hip_launch = context.hip.launch
    what = f"kernel {kernel.entry!r} cannot be launched"

    def call() -> None:
        if code := hip_launch(*arguments):
            checked((code,), what)

    return call


def _on_device(context: Context, launch: Callable[[], None]) -> Any:
    """Make a launch with its device current: the runtime goes by that, whatever the stream."""

    def call() -> None:
        if context.is_current():
            launch()
        else:
            with context.current():
                launch()

    return call


def _cleared(
    context: Context,
    nbytes: int,
    addresses: memoryview[int],
    stream: int,
    launch: Callable[[], None],
) -> Any:
    """Put zeros in the result, the last array, before each launch, in the same queue."""
    size, zero, number = c_size_t(nbytes), c_ubyte(0), c_void_p(stream)
    hip_memset = context.hip.memset

    def call() -> None:
        if code := hip_memset(c_void_p(addresses[-1]), zero, size, number):
            checked((code,), "the result cannot be cleared")
        launch()

    return call


def _parameters(values: Sequence[int], count: int) -> _Words:
    """Lay values out as the runtime reads them: a pointer to each, then what these point to."""
    memory = array.array("q", bytes(16 * count))
    first = _address(memory) + 8 * count
    for place, value in enumerate((*range(first, first + 8 * count, 8), *values)):
        memory[place] = value
    return memory


def _address(memory: _Words) -> int:
    return memory.buffer_info()[0]
