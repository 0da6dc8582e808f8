"""One launch, packed: all that can be done once is done here, a call is one call of the driver."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, Launch, LoadedKernel
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.errors import is_sticky
from xpu_backend_cuda.kernel import CudaKernel

LEGACY_STREAM: Final = 0


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
    """Pack one launch. The result keeps the kernel, and none of the arrays; `stream` is its number.

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
    if arguments is None:
        return _nothing
    memory = _parameters(values, count)
    number = stream_number(stream)
    arguments = (*arguments, number, ctypes.addressof(memory), 0)
    cu_launch_kernel = context.cu.cuLaunchKernel

    def call() -> None:
        if code := cu_launch_kernel(*arguments)[0]:
            _again(kernel, arguments, code)

    made = _cleared(context, buffers[-1], number, call) if launch.clears_result else call
    made.parameters = memory  # type: ignore[attr-defined]  # read at every call: it must stay
    made.stream = number  # type: ignore[attr-defined]  # a clock asks where its launches go
    return made


def _cleared(
    context: Context, result: DeviceArray, stream: int, launch: Callable[[], None]
) -> Callable[[], None]:
    """Put zeros in the result before each launch, in the same queue."""
    address, nbytes = result.address, result.nbytes
    cu_memset = context.cu.cuMemsetD8Async

    current, handle = context.cu.cuCtxGetCurrent, int(context.handle)

    def call() -> None:
        # Another context's default stream would take the clearing, and not the launch.
        if int(current()[1]) == handle:
            checked(cu_memset(address, 0, nbytes, stream), "the result cannot be cleared")
            launch()
        else:
            with context.current():
                checked(cu_memset(address, 0, nbytes, stream), "the result cannot be cleared")
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


def _parameters(values: Sequence[int], count: int) -> ctypes.Array[ctypes.c_int64]:
    """Lay values out as the driver reads them: a pointer to each, then what these point to."""
    memory = _words(2 * count)()
    first = ctypes.addressof(memory) + 8 * count
    memory[:] = [*range(first, first + 8 * count, 8), *values]
    return memory


def _nothing() -> None:
    """Launch a grid without blocks."""


@functools.cache
def _words(count: int) -> type[ctypes.Array[ctypes.c_int64]]:
    return ctypes.c_int64 * count
