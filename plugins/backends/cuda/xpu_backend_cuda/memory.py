"""Memory of the device from the driver, kept and used again as `xpu.spec.pool` does."""

from __future__ import annotations

from collections.abc import Sequence

from xpu.errors import XpuLaunchException
from xpu.spec import pool
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.errors import CudaError


class Pool(pool.Pool):
    """Allocations on one context; `memory_bytes` of the device decide how much is kept."""

    def __init__(self, context: Context, memory_bytes: int) -> None:
        super().__init__(context.index, memory_bytes)
        self._context = context

    def obtain(self, size: int, what: str) -> int:
        """Return fresh memory of the driver's."""
        with self._context.current() as cu:
            return int(checked(cu.cuMemAlloc(size), what))

    def release(self, addresses: Sequence[int]) -> None:
        """Give memory back to the driver, which waits for whatever still uses it."""
        self._context.quietly(lambda cu: [cu.cuMemFree(address) for address in addresses])

    def is_final(self, error: XpuLaunchException) -> bool:
        """Whether the context is lost with the error."""
        return isinstance(error, CudaError) and error.is_sticky
