"""Code on the device: each code object is loaded once, and its kernels know what they can do."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from xpu.errors import XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Launch, LoadedKernel
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.cubin import parameter_bytes
from xpu_backend_cuda.driver import checked

_MOST_PARAMETERS: Final = 1024
_MOST_SHAPES: Final = 4096
"""Launches of one kernel that are remembered as possible; past that they are looked at again."""
_LEAST_GRID: Final = 65535
"""What every part takes along y and z. Source: CUDA C++ Programming Guide, Compute Capabilities."""
_SHARED_BYTES: Final = 48 << 10
"""What every part takes without opting in. Source: the same."""


@attrs.frozen(eq=False)
class Shape:
    """A launch that was found possible: what ``cuLaunchKernel`` takes before the stream.

    `arguments` is None when a side of the grid is 0: there is nothing to launch.
    """

    arguments: tuple[Any, ...] | None


class CudaKernel(LoadedKernel):
    """A kernel on one context.

    Attributes
    ----------
    threads
        Threads that a block of it may have: what it was compiled for, where it says so.
    registers, static_shared_bytes, local_bytes
        Its footprint as loaded: registers and local memory of a thread, shared memory of a block.
    parameters
        How many 64-bit parameters it takes; None where the driver cannot say.
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
        self._lock = threading.Lock()
        self._shapes: dict[Launch, Shape] = {}
        what = f"kernel {entry!r} is not in its code"
        with context.current() as cu:
            self.function = checked(cu.cuModuleGetFunction(module.handle, entry.encode()), what)
            # With lazy loading the first launch would load it, and wait for the device for that.
            checked(cu.cuFuncLoad(self.function), f"kernel {entry!r} cannot be loaded")
            self.threads = self._attribute(cu, "MAX_THREADS_PER_BLOCK")
            self.registers = self._attribute(cu, "NUM_REGS")
            self.static_shared_bytes = self._attribute(cu, "SHARED_SIZE_BYTES")
            self.local_bytes = self._attribute(cu, "LOCAL_SIZE_BYTES")
            self._dynamic_bytes = self._attribute(cu, "MAX_DYNAMIC_SHARED_SIZE_BYTES")
            sizes = self._asked(cu) if sizes is None else sizes
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
        self._allow(launch.dynamic_shared_bytes)
        return Shape((self.function, *launch.grid, *block, launch.dynamic_shared_bytes))

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

    def _allow(self, dynamic_bytes: int) -> None:
        """Opt in to more dynamic shared memory than a launch gets unasked."""
        with self._lock:
            if dynamic_bytes <= self._dynamic_bytes:
                return
            what = f"kernel {self.entry!r} cannot have {dynamic_bytes} bytes of shared memory"
            with self.context.current() as cu:
                attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                checked(cu.cuFuncSetAttribute(self.function, attribute, dynamic_bytes), what)
            self._dynamic_bytes = dynamic_bytes

    def _attribute(self, cu: Any, name: str) -> int:
        attribute = getattr(cu.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        what = f"kernel {self.entry!r} does not say its {name}"
        return int(checked(cu.cuFuncGetAttribute(attribute, self.function), what))

    def _asked(self, cu: Any) -> Sequence[int]:
        """Ask the driver for what code that is no CUBIN does not say of its parameters.

        One question too many is the only way to learn that there are no more, and an error that
        tools for debugging report.
        """
        found: list[int] = []
        while len(found) < _MOST_PARAMETERS:
            code, *place = cu.cuFuncGetParamInfo(self.function, len(found))
            if code:
                break
            found.append(place[1])
        return found

    def _counted(self, sizes: Sequence[int]) -> int | None:
        for index, size in enumerate(sizes):
            if size != 8:
                raise XpuLaunchException(
                    f"kernel {self.entry!r} takes {size} bytes as parameter {index}; allowed "
                    "are addresses and int64 sizes, of 8 bytes"
                )
        # Drivers before 12.4 cannot tell: their first answer is an error, too.
        return len(sizes) or None


class _Module:
    """One loaded code object; unloaded when nobody can launch from it any more."""

    def __init__(self, context: Context, image: bytes, what: str) -> None:
        with context.current() as cu:
            self.handle = checked(cu.cuModuleLoadData(image), what)
        end = weakref.finalize(self, context.quietly, _unloading(self.handle))
        end.atexit = False


class Modules:
    """The code objects of one device, each loaded once whatever files it came from."""

    def __init__(self, context: Context, facts: DeviceFacts) -> None:
        self._context = context
        self._facts = facts
        self._lock = threading.Lock()
        self._modules: dict[str, _Module] = {}
        self._kernels: dict[tuple[str, str], CudaKernel] = {}

    def load(self, code: Path, entry: str) -> CudaKernel:
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
                kernel = CudaKernel(entry, self._context, module, self._facts, sizes)
                self._kernels[digest, entry] = kernel
            return kernel

    def clear(self) -> None:
        """Forget all code; what is still held by a caller stays loaded."""
        with self._lock:
            self._kernels.clear()
            self._modules.clear()


def _unloading(handle: Any) -> Any:
    return lambda cu: cu.cuModuleUnload(handle)
