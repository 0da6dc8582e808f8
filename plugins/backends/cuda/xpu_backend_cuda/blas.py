"""Routines of `xpu.spec.routines` by cuBLASLt: an algorithm chosen once, a call that is one call.

What can be done once is done when a launch is packed: the library is asked for an algorithm,
its workspace is allocated, and the call is rehearsed in a capture that is thrown away, so that
the library has loaded its code before a program captures the call.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import DeviceArray, LoadedKernel
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.cublaslt import CublasLt, Heuristic, find_cublaslt, library
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.launch import LEGACY_STREAM, stream_number

# Source: library_types.h, cublas_api.h and cublasLt.h of CUDA 13.
_FLOAT32: Final = 0
_BFLOAT16: Final = 14
_SUM_IN_FLOAT32: Final = 68
_TRANSPOSED: Final = 1
_TRANSPOSE_A: Final = 3
_MOST_WORKSPACE: Final = 1
_ALIGNMENTS: Final = (5, 6, 7, 8)
"""Of A, B, C and D."""
_MOST_ALIGNMENT_BYTES: Final = 256
_NON_BLOCKING: Final = 0x1
"""A stream of its own. Source: CU_STREAM_NON_BLOCKING of cuda.h."""
_WORKSPACE_BYTES: Final = 32 << 20
"""What an algorithm may take. Source: the cuBLAS documentation, cublasSetWorkspace, which
recommends it for compute capability 9.0."""
_ONE: Final = ctypes.c_float(1.0)
_ZERO: Final = ctypes.c_float(0.0)


@attrs.frozen(eq=False)
class Plan:
    """A product as the library is asked for it: what it is of, and the algorithm that makes it.

    `layouts` are those of A = W, B = x and D = y. The library counts columns first: it is
    asked for y transposed = W transposed twice, times x transposed.
    """

    product: ctypes.c_void_p
    layouts: tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    heuristic: Heuristic


@attrs.frozen(eq=False)
class _Laid:
    """A call as the library takes it, and what has to stay for it."""

    plan: Plan
    alignments: tuple[int, ...]
    arguments: tuple[Any, ...]
    memory: tuple[DeviceArray, ...]

    @property
    def pointers(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]:
        """Those to W, x and y among the arguments."""
        return self.arguments[3], self.arguments[5], self.arguments[8]


class CudaRoutine(LoadedKernel):
    """A routine on one context. Plans are kept by sizes and alignments."""

    def __init__(self, name: str, context: Context, allocate: Callable[[int], DeviceArray]) -> None:
        try:
            library(name)
        except XpuBuildError as error:
            raise XpuLaunchException(str(error)) from None
        self.entry = name
        self.context = context
        self._lt: CublasLt = find_cublaslt()
        self._allocate = allocate
        self._lock = threading.Lock()
        self._plans: dict[tuple[int, ...], Plan] = {}
        self._rehearsed: set[Plan] = set()
        with context.current():
            self._handle = self._lt.made("cublasLtCreate")
        destroy = self._lt.function("cublasLtDestroy")
        handle = self._handle
        end = weakref.finalize(self, context.quietly, lambda _cu: destroy(handle))
        end.atexit = False  # the driver gives everything back when the process ends

    def packed(
        self, buffers: Sequence[DeviceArray], sizes: Sequence[int], stream: Any
    ) -> Callable[[], None]:
        """Pack one call, a `MovableLaunch`. It keeps its workspace, and none of the arrays.

        Raises
        ------
        XpuLaunchException
            Arrays and sizes are not the routine's, or the library cannot make the product.
            Each call of the result raises it when the library refuses.
        """
        if (len(buffers), len(sizes)) != (3, 3):
            raise XpuLaunchException(
                f"{self.entry} takes 3 arrays (W, x, y) and 3 sizes (m, n, k), given "
                f"{len(buffers)} and {len(sizes)}; nothing was launched"
            )
        number, addresses = stream_number(stream), [buffer.address for buffer in buffers]
        told = {"stream": number, "is_recordable": number != LEGACY_STREAM}
        if 0 in sizes[:2]:
            return _with(lambda: None, **told, memory=(), addresses=addresses)
        laid = self._laid(tuple(sizes), addresses)
        launch = self._call(laid, tuple(sizes), number, addresses)
        return _with(launch, **told, memory=laid.memory, addresses=addresses)

    def _laid(self, sizes: tuple[int, ...], addresses: Sequence[int]) -> _Laid:
        """Lay a call out, and rehearse it where its plan is new."""
        alignments = tuple(map(_alignment, addresses))
        plan = self._plan(sizes, alignments)
        nbytes = plan.heuristic.workspace_bytes
        memory = (self._allocate(nbytes),) if nbytes else ()
        arguments = self._arguments(plan, addresses, memory)
        if plan not in self._rehearsed:
            self._rehearse(arguments)
            self._rehearsed.add(plan)
        return _Laid(plan, alignments, arguments, memory)

    def _call(
        self, laid: _Laid, sizes: tuple[int, ...], stream: int, addresses: list[int]
    ) -> Callable[[], None]:
        """Return what makes the call, on the arrays that are at `addresses` by then."""
        lt, entry, context = self._lt, self.entry, self.context
        matmul = lt.function("cublasLtMatmul")
        current, handle = context.cu.cuCtxGetCurrent, int(context.handle)
        queue = ctypes.c_void_p(stream)
        given, known = (*laid.arguments, queue), addresses.copy()

        def move() -> None:
            nonlocal laid, given, known
            if tuple(map(_alignment, addresses)) == laid.alignments:
                for pointer, address in zip(laid.pointers, addresses, strict=True):
                    pointer.value = address
            else:  # another algorithm, it may be, and another workspace
                found = self._laid(sizes, addresses)
                given, laid = (*found.arguments, queue), found
            known = addresses.copy()  # last: another thread may be calling, too

        def call() -> None:
            if addresses != known:
                move()
            # The library works on the context that is current, whatever its handle is of.
            if int(current()[1]) == handle:
                status = matmul(*given)
            else:
                with context.current():
                    status = matmul(*given)
            if status:
                lt.checked(status, f"{entry} cannot be launched")

        return call

    def _arguments(
        self, plan: Plan, addresses: Sequence[int], memory: Sequence[DeviceArray]
    ) -> tuple[Any, ...]:
        """Lay out what the library takes before the stream, as objects that need no conversion."""
        weights, x, y = map(ctypes.c_void_p, addresses)
        of_weights, of_x, of_y = plan.layouts
        workspace = ctypes.c_void_p(memory[0].address if memory else None)
        return (
            *(self._handle, plan.product, ctypes.addressof(_ONE)),
            *(weights, of_weights, x, of_x, ctypes.addressof(_ZERO)),
            *(y, of_y, y, of_y),
            ctypes.addressof(plan.heuristic.algorithm),
            *(workspace, plan.heuristic.workspace_bytes),
        )

    def _rehearse(self, arguments: tuple[Any, ...]) -> None:
        """Make the call in a capture of its own: nothing runs, and the code is loaded."""
        what = f"{self.entry} cannot be rehearsed"
        matmul = self._lt.function("cublasLtMatmul")
        with self.context.current() as cu:
            relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            stream = checked(cu.cuStreamCreate(_NON_BLOCKING), what)
            try:
                checked(cu.cuStreamBeginCapture(stream, relaxed), what)
                status = matmul(*arguments, ctypes.c_void_p(int(stream)))
                code, graph = cu.cuStreamEndCapture(stream)
                if not code:
                    cu.cuGraphDestroy(graph)
            finally:
                cu.cuStreamDestroy(stream)
        self._lt.checked(status, f"{self.entry} cannot be launched")
        checked((code,), what)

    def _plan(self, sizes: tuple[int, ...], alignments: tuple[int, ...]) -> Plan:
        with self._lock:
            plan = self._plans.get((*sizes, *alignments))
            if plan is None:
                with self.context.current():
                    plan = self._planned(sizes, alignments)
                self._plans[(*sizes, *alignments)] = plan
            return plan

    def _planned(self, sizes: tuple[int, ...], alignments: tuple[int, ...]) -> Plan:
        lt, (m, n, k) = self._lt, sizes
        product = lt.made("cublasLtMatmulDescCreate", _SUM_IN_FLOAT32, _FLOAT32)
        _set(lt, "MatmulDesc", product, _TRANSPOSE_A, ctypes.c_int32(_TRANSPOSED))
        layouts = (
            lt.made("cublasLtMatrixLayoutCreate", _BFLOAT16, k, n, k),
            lt.made("cublasLtMatrixLayoutCreate", _BFLOAT16, k, m, k),
            lt.made("cublasLtMatrixLayoutCreate", _FLOAT32, n, m, n),
        )
        plan = Plan(product, layouts, Heuristic())
        weakref.finalize(plan, _destroy, lt, product, layouts).atexit = False
        self._choose(plan, alignments, f"{self.entry} has no algorithm for {m=}, {n=}, {k=}")
        return plan

    def _choose(self, plan: Plan, alignments: tuple[int, ...], what: str) -> None:
        """Have the library choose an algorithm. It chooses the same one every time."""
        lt, count = self._lt, ctypes.c_int()
        wish = lt.made("cublasLtMatmulPreferenceCreate")
        try:
            workspace = ctypes.c_uint64(_WORKSPACE_BYTES)
            _set(lt, "MatmulPreference", wish, _MOST_WORKSPACE, workspace)
            for name, nbytes in zip(_ALIGNMENTS, (*alignments, alignments[-1]), strict=True):
                _set(lt, "MatmulPreference", wish, name, ctypes.c_uint32(nbytes))
            a, b, d = plan.layouts
            ask = lt.function("cublasLtMatmulAlgoGetHeuristic")
            given = (self._handle, plan.product, a, b, d, d, wish)
            status = ask(*given, 1, ctypes.byref(plan.heuristic), ctypes.byref(count))
        finally:
            lt.function("cublasLtMatmulPreferenceDestroy")(wish)
        lt.checked(status or plan.heuristic.state, what)


def _set(lt: CublasLt, kind: str, of: ctypes.c_void_p, name: int, value: Any) -> None:
    function = f"cublasLt{kind}SetAttribute"
    status = lt.function(function)(of, name, ctypes.byref(value), ctypes.sizeof(value))
    lt.checked(status, f"{function} refuses {value.value} as attribute {name}")


def _destroy(lt: CublasLt, product: ctypes.c_void_p, layouts: Sequence[ctypes.c_void_p]) -> None:
    lt.function("cublasLtMatmulDescDestroy")(product)
    for layout in layouts:
        lt.function("cublasLtMatrixLayoutDestroy")(layout)


def _alignment(address: int) -> int:
    """Return the largest power of two that an address is a multiple of, as far as it counts."""
    return min(address & -address, _MOST_ALIGNMENT_BYTES)


def _with(call: Callable[[], None], **kept: Any) -> Callable[[], None]:
    """Give a launch what is read of it: its stream, its memory, and what it has to keep."""
    for name, value in kept.items():
        setattr(call, name, value)
    return call
