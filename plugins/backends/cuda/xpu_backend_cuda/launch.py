"""One launch, packed: all that can be done once is done here, a call is one call of the driver."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, Launch, LoadedKernel
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.errors import is_sticky
from xpu_backend_cuda.kernel import CudaKernel

LEGACY_STREAM: Final = 0
DEFAULT_STREAMS: Final = frozenset({LEGACY_STREAM, 1, 2})
"""Numbers that mean a stream of whatever context is current.

Source: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD of cuda.h.
"""
_Words: TypeAlias = "array.array[int]"  # it takes numpy's integers, which ctypes does not


def stream_number(stream: Any) -> int:
    """Return a stream as the driver's number.

    Parameters
    ----------
    stream
        None (the legacy default stream), a number, a stream of torch, CuPy or cuda-python, or
        any object with ``__cuda_stream__``.

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
    if type(stream).__module__.startswith("cuda."):
        return int(stream)
    raise XpuLaunchException(
        f"{stream!r} is no stream; pass None, a stream of torch, CuPy or cuda-python, or its "
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
        driver refuses the launch, or reports what an earlier one did.
    """
    if not isinstance(kernel, CudaKernel) or kernel.context.index != context.index:
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
    made.parameters = memory  # read at every call: it must stay
    made.stream = number  # a clock asks where its launches go
    # The legacy stream cannot be captured. The driver copies parameters when it is called.
    made.is_recordable = number != LEGACY_STREAM
    made.addresses = addresses
    return cast("Callable[[], None]", made)


def _launch(
    context: Context, kernel: CudaKernel, shape: tuple[Any, ...] | None, stream: int, memory: _Words
) -> Any:
    if shape is None:  # a grid without blocks
        return lambda: None
    arguments = (*shape, stream, _address(memory), 0)
    cu_launch_kernel = context.cu.cuLaunchKernel

    def call() -> None:
        if code := cu_launch_kernel(*arguments)[0]:
            _again(kernel, arguments, code)

    return call


def _cleared(
    context: Context,
    nbytes: int,
    addresses: memoryview[int],
    stream: int,
    launch: Callable[[], None],
) -> Any:
    """Put zeros in the result, the last array, before each launch, in the same queue."""
    cu_memset = context.cu.cuMemsetD8Async
    current, handle = context.cu.cuCtxGetCurrent, int(context.handle)
    # Another context's default stream would take the clearing, and not the launch.
    is_of_context = stream in DEFAULT_STREAMS

    def call() -> None:
        address = addresses[-1]
        is_elsewhere = is_of_context and int(current()[1]) != handle
        # A stream that belongs to one context is refused in another.
        if is_elsewhere or cu_memset(address, 0, nbytes, stream)[0]:
            with context.current():
                checked(cu_memset(address, 0, nbytes, stream), "the result cannot be cleared")
                launch()
        else:
            launch()

    return call


def _again(kernel: CudaKernel, arguments: tuple[Any, ...], code: Any) -> None:
    """Make a launch that was refused, if another context was current in this thread."""
    context, what = kernel.context, f"kernel {kernel.entry!r} cannot be launched"
    cu = context.cu
    failed, found = cu.cuCtxGetCurrent()
    if failed or is_sticky(code) or int(found) == int(context.handle):
        checked((code,), what)
    if int(found) == 0:
        # A thread that has none gets it for good, as the runtime library does.
        checked(cu.cuCtxSetCurrent(context.handle), what)
        checked(cu.cuLaunchKernel(*arguments), what)
    else:
        with context.current():
            checked(cu.cuLaunchKernel(*arguments), what)


def _parameters(values: Sequence[int], count: int) -> _Words:
    """Lay values out as the driver reads them: a pointer to each, then what these point to."""
    memory = array.array("q", bytes(16 * count))
    first = _address(memory) + 8 * count
    for place, value in enumerate((*range(first, first + 8 * count, 8), *values)):
        memory[place] = value
    return memory


def _address(memory: _Words) -> int:
    return memory.buffer_info()[0]
