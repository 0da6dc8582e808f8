"""A kernel that holds a stream until the host lets it go, so that launches queue up behind it.

It ends by itself when its time is up, by the device's own timer: a host that dies, or that
waits for the device while it should let go, can never hang it.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked

# From PTX, for it must run where there is no compiler. flag and late are words of host memory.
_PTX: Final = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry xpu_hold(.param .u64 flag, .param .u64 turn, .param .u64 limit_ns, .param .u64 late)
{
    .reg .pred %p<2>;
    .reg .b64 %flag, %turn, %limit, %late, %start, %now, %seen;
    ld.param.u64 %flag, [flag];
    ld.param.u64 %turn, [turn];
    ld.param.u64 %limit, [limit_ns];
    ld.param.u64 %late, [late];
    mov.u64 %start, %globaltimer;
look:
    ld.volatile.u64 %seen, [%flag];
    setp.ge.u64 %p0, %seen, %turn;
    @%p0 bra done;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %p1, %now, %limit;
    @%p1 bra look;
    st.volatile.u64 [%late], %turn;
done:
    ret;
}
.visible .entry xpu_nothing()
{
    ret;
}
"""
_MAPPED: Final = 0x1 | 0x2
"""Portable and mapped. Source: CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP of cuda.h."""
_NEVER: Final = 1 << 62


class Stall:
    """Holds streams of one context, one at a time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turn = 0
        with context.current() as cu:
            what = "the kernel that holds a stream cannot be loaded"
            self._module = checked(cu.cuModuleLoadData(_PTX), what)
            self._hold, self._nothing = (
                checked(cu.cuModuleGetFunction(self._module, name), what)
                for name in (b"xpu_hold", b"xpu_nothing")
            )
            for function in (self._hold, self._nothing):
                checked(cu.cuFuncLoad(function), what)
            what = "memory that the device shares with the host cannot be had"
            self._memory = int(checked(cu.cuMemHostAlloc(16, _MAPPED), what))
            device = int(checked(cu.cuMemHostGetDevicePointer(self._memory, 0), what))
        self._words = (ctypes.c_uint64 * 2).from_address(self._memory)
        self._words[:] = [0, 0]
        # What the kernel takes, and a pointer to each, as the driver reads them.
        self._values = (ctypes.c_uint64 * 4)(device, 0, 0, device + 8)
        start = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * 4)(*range(start, start + 32, 8))

    def hold(self, stream: int, limit_ns: int) -> None:
        """Hold a stream until `release`, at most `limit_ns`. The context is current."""
        self._turn += 1
        self._launch(stream, self._turn, limit_ns)

    def release(self) -> None:
        """Let the stream go."""
        self._words[0] = self._turn

    @property
    def was_late(self) -> bool:
        """Whether the last hold ended before its release; asked when its stream has ended."""
        return bool(self._words[1] == self._turn)

    def pause(self, stream: int, duration_ns: int) -> None:
        """Queue a kernel that takes a time, by the device's timer. The context is current."""
        self._launch(stream, _NEVER, duration_ns)

    def nothing(self, stream: int, blocks: int = 1) -> None:
        """Queue a kernel whose blocks, of one thread, end at once. The context is current.

        One that looks at the flag would not do: a thousand blocks that read the host's memory
        take half a millisecond.
        """
        launch = self._context.cu.cuLaunchKernel
        result = launch(self._nothing, blocks, 1, 1, 1, 1, 1, 0, stream, 0, 0)
        checked(result, "a kernel that does nothing cannot be launched")

    def close(self) -> None:
        """Give memory and code back; no stream is held."""
        del self._words
        self._context.quietly(lambda cu: cu.cuMemFreeHost(self._memory))
        self._context.quietly(lambda cu: cu.cuModuleUnload(self._module))

    def _launch(self, stream: int, turn: int, limit_ns: int) -> None:
        # The driver copies the values before it returns.
        self._values[1], self._values[2] = turn, limit_ns
        launch = self._context.cu.cuLaunchKernel
        pointers: Any = ctypes.addressof(self._pointers)
        checked(
            launch(self._hold, 1, 1, 1, 1, 1, 1, 0, stream, pointers, 0),
            "the kernel that holds a stream cannot be launched",
        )
