"""Memory of the device from the runtime, kept and used again as `xpu.spec.pool` does."""

from __future__ import annotations

from collections.abc import Sequence

from xpu.errors import XpuLaunchException
from xpu.spec import pool
from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.errors import HipError


class Pool(pool.Pool):
    """Allocations on one context; `memory_bytes` of the device decide how much is kept."""

    def __init__(self, context: Context, memory_bytes: int) -> None:
        super().__init__(context.index, memory_bytes)
        self._context = context

    def obtain(self, size: int, what: str) -> int:
        """Return fresh memory of the runtime's."""
        with self._context.current() as hip:
            return int(checked(hip.hipMalloc(size), what))

    def release(self, addresses: Sequence[int]) -> None:
        """Give memory back to the runtime, which waits for whatever still uses it."""
        self._context.quietly(lambda hip: [hip.hipFree(address) for address in addresses])

    def is_final(self, error: XpuLaunchException) -> bool:
        """Whether the context is lost with the error."""
        return isinstance(error, HipError) and error.is_sticky
