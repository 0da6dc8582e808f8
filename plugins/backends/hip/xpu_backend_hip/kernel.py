"""Code on the device: each code object is loaded once, and its kernels know what they can do."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence
from ctypes import c_uint, c_void_p
from pathlib import Path
from typing import Any, Final

import attrs

from xpu.errors import XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Launch, LoadedKernel
from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.parameters import parameter_bytes

_MOST_SHAPES: Final = 4096
"""Launches of one kernel that are remembered as possible; past that they are looked at again."""
_LEAST_GRID: Final = 65535
"""What every part takes along y and z. Source: hipDeviceProp_t.maxGridSize on all of them."""
_MOST_THREADS_OF_GRID: Final = 2**32 - 1
"""Along each axis. Source: hipModuleLaunchKernel: a grid of 2^32 threads or more is not
supported."""
_SHARED_BYTES: Final = 64 << 10
"""What every part takes. Source: AMD, GPU hardware specifications, LDS."""


@attrs.frozen(eq=False)
class Shape:
    """A launch that was found possible.

    `arguments` are what ``hipModuleLaunchKernel`` takes before the stream, as ctypes passes them;
    None when a side of the grid is 0: there is nothing to launch.
    """

    arguments: tuple[Any, ...] | None


class HipKernel(LoadedKernel):
    """A kernel on one device.

    Attributes
    ----------
    threads
        Threads that a block of it may have: what it was compiled for, where it says so.
    registers, static_shared_bytes, local_bytes
        Its footprint as loaded: registers and local memory of a thread, shared memory of a block.
    parameters
        How many 64-bit parameters it takes; None where its code does not say, or nothing reads it.
    """

    def __init__(
        self,
        entry: str,
        context: Context,
        module: _Module,
        facts: DeviceFacts,
        sizes: Sequence[int] | None,
    ) -> None:
        self.entry = entry
        self.context = context
        self._module = module  # must stay while the function is used
        self._facts = facts
        self._shapes: dict[Launch, Shape] = {}
        what = f"kernel {entry!r} is not in its code"
        with context.current() as hip:
            found = checked(hip.hipModuleGetFunction(module.handle, entry.encode()), what)
            self.function = int(found)
            self.threads = self._attribute("MAX_THREADS_PER_BLOCK")
            self.registers = self._attribute("NUM_REGS")
            self.static_shared_bytes = self._attribute("SHARED_SIZE_BYTES")
            self.local_bytes = self._attribute("LOCAL_SIZE_BYTES")
        self.parameters = self._counted(sizes)

    def shape(self, launch: Launch) -> Shape:
        """Return a launch as the driver takes it, found possible once.

        Raises
        ------
        XpuLaunchException
            The device or the kernel cannot make it; the message says need and limit.
        """
        found = self._shapes.get(launch)
        if found is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            found = self._shapes[launch] = self._found_possible(launch)
        return found

    def _found_possible(self, launch: Launch) -> Shape:
        block = (self.threads, 1, 1) if launch.block is None else launch.block
        complaint = self._complaint(launch, block)
        if complaint:
            raise XpuLaunchException(
                f"kernel {self.entry!r} cannot be launched: {complaint}; nothing was launched"
            )
        if 0 in launch.grid:
            return Shape(None)
        # No opting in to more shared memory: a block gets at once all that the part has for it.
        sizes = (*launch.grid, *block, launch.dynamic_shared_bytes)
        return Shape((c_void_p(self.function), *map(c_uint, sizes)))

    def _complaint(self, launch: Launch, block: tuple[int, int, int]) -> str:
        facts = self._facts
        for size, axis in zip(launch.grid, "xyz", strict=True):
            most = facts.get(f"max_grid_{axis}") or _LEAST_GRID
            if not 0 <= size <= most:
                return f"the grid has {size} blocks along {axis}, the device takes 0 to {most}"
        if min(block) < 1:
            return f"the block {block} has a side below 1"
        for size, axis in zip(block, "xyz", strict=True):
            most = facts.get(f"max_block_{axis}")
            if isinstance(most, int) and size > most:
                return f"the block has {size} threads along {axis}, the device takes 1 to {most}"
        for blocks, size, axis in zip(launch.grid, block, "xyz", strict=True):
            if blocks * size > _MOST_THREADS_OF_GRID:
                return (
                    f"the grid has {blocks * size} threads along {axis}, the device takes "
                    f"{_MOST_THREADS_OF_GRID}"
                )
        threads = block[0] * block[1] * block[2]
        if threads > self.threads:
            return (
                f"the block has {threads} threads, with {self.registers} registers a thread and "
                f"as it was compiled it takes {self.threads}"
            )
        need = self.static_shared_bytes + launch.dynamic_shared_bytes
        limits = (facts.shared_bytes_per_block, facts.shared_bytes_per_block_optin)
        most = max([limit for limit in limits if limit is not None], default=_SHARED_BYTES)
        if launch.dynamic_shared_bytes < 0 or need > most:
            return (
                f"the block needs {need} bytes of shared memory ({self.static_shared_bytes} of "
                f"them static), the device takes {most}"
            )
        return ""

    def _attribute(self, name: str) -> int:
        """Ask for a footprint; the device is current."""
        attribute = self.context.names.hipFunction_attribute[f"HIP_FUNC_ATTRIBUTE_{name}"]
        result = self.context.hip.hipFuncGetAttribute(attribute, self.function)
        return int(checked(result, f"kernel {self.entry!r} does not say its {name}"))

    def _counted(self, sizes: Sequence[int] | None) -> int | None:
        if sizes is None:
            return None
        for index, size in enumerate(sizes):
            if size != 8:
                raise XpuLaunchException(
                    f"kernel {self.entry!r} takes {size} bytes as parameter {index}; allowed "
                    "are addresses and int64 sizes, of 8 bytes"
                )
        return len(sizes)


class _Module:
    """One loaded code object; unloaded when nobody can launch from it any more."""

    def __init__(self, context: Context, image: bytes, what: str) -> None:
        self._image = image  # the runtime may read it for as long as the module is loaded
        with context.current() as hip:
            self.handle = checked(hip.hipModuleLoadData(image), what)
        end = weakref.finalize(self, context.quietly, _unloading(self.handle))
        end.atexit = False


class Modules:
    """The code objects of one device, each loaded once whatever files it came from."""

    def __init__(self, context: Context, facts: DeviceFacts) -> None:
        self._context = context
        self._facts = facts
        self._lock = threading.Lock()
        self._modules: dict[str, _Module] = {}
        self._kernels: dict[tuple[str, str], HipKernel] = {}

    def load(self, code: Path, entry: str) -> HipKernel:
        """Return a kernel of a code object.

        Raises
        ------
        XpuLaunchException
            The file cannot be read, is no code for this device, or does not define the entry.
        """
        what = f"kernel {entry!r} cannot be loaded from {code}"
        try:
            image = code.read_bytes()
        except OSError as error:
            raise XpuLaunchException(f"{what}: {error}; build it again") from error
        digest = hashlib.sha256(image).hexdigest()
        with self._lock:
            kernel = self._kernels.get((digest, entry))
            if kernel is None:
                module = self._modules.get(digest)
                if module is None:
                    module = self._modules[digest] = _Module(self._context, image, what)
                sizes = parameter_bytes(image, entry)
                kernel = HipKernel(entry, self._context, module, self._facts, sizes)
                self._kernels[digest, entry] = kernel
            return kernel

    def clear(self) -> None:
        """Forget all code; what is still held by a caller stays loaded."""
        with self._lock:
            self._kernels.clear()
            self._modules.clear()


def _unloading(handle: Any) -> Any:
    return lambda hip: hip.hipModuleUnload(handle)
