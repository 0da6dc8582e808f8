"""The shared object of a kernel: its descriptor, and what a launch of it looks like in memory.

The structures are those of ``runtime/xpu_emulator.h``.
"""

from __future__ import annotations

import _ctypes
import ctypes
import re
from pathlib import Path
from typing import Final

import attrs

from xpu.errors import XpuBuildError

VERSION: Final = 2
CELL_BYTES: Final = 12
FLIGHT_BYTES: Final = 12


class Buffer(ctypes.Structure):
    """One array of a launch."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("nbytes", ctypes.c_int64),
        ("written", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    )


class Fault(ctypes.Structure):
    """The first fault of a launch; `check` is 0 when there is none."""

    _fields_ = (
        ("check", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("block", ctypes.c_int32 * 3),
        ("address", ctypes.c_uint64),
        ("text", ctypes.c_char * 360),
    )


class LaunchRecord(ctypes.Structure):
    """One launch, and the host memory that it may use."""

    _fields_ = (
        ("buffers", ctypes.POINTER(Buffer)),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("grid", ctypes.c_int32 * 3),
        ("threads", ctypes.c_int32),
        ("stacks", ctypes.c_void_p),
        ("stack_bytes", ctypes.c_int64),
        ("dynamic_shared_bytes", ctypes.c_int64),
        ("shared", ctypes.c_void_p),
        ("cells", ctypes.c_void_p),
        ("flights", ctypes.c_void_p),
        ("threads_memory", ctypes.c_void_p),
        ("result", ctypes.POINTER(Fault)),
    )


class Descriptor(ctypes.Structure):
    """What the symbol of a kernel's entry is."""

    _fields_ = (
        ("version", ctypes.c_int32),
        ("wave", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("is_checked", ctypes.c_int32),
        ("buffers", ctypes.c_int32),
        ("sizes", ctypes.c_int32),
        ("thread_bytes", ctypes.c_int32),
        ("written", ctypes.c_int32),
        ("parameters", ctypes.c_char_p),
        ("body", ctypes.c_void_p),
        ("static_shared_bytes", ctypes.CFUNCTYPE(ctypes.c_int64)),
        (
            "run",
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(LaunchRecord)),
        ),
    )


@attrs.frozen(eq=False)
class Code:
    """A loaded object: the library, which must stay, its descriptor, and its parameters."""

    path: Path
    library: ctypes.CDLL
    descriptor: Descriptor
    names: tuple[str, ...]
    static_shared_bytes: int

    @property
    def base(self) -> int:
        """Where the entry's symbol lies in this process."""
        return ctypes.addressof(self.descriptor)


def load(path: Path, entry: str) -> Code:
    """Load an object.

    Raises
    ------
    OSError, ValueError
        It is no shared object for this machine, or does not define the entry.
    """
    library = ctypes.CDLL(str(path))
    descriptor = Descriptor.in_dll(library, entry)
    if descriptor.version != VERSION:
        raise ValueError(f"{entry} is not a kernel of this version of the emulator")
    names = array_names(descriptor.parameters.decode(), descriptor.buffers)
    return Code(path, library, descriptor, names, descriptor.static_shared_bytes())


@attrs.frozen
class Footprint:
    """What an object says of its kernel.

    Attributes
    ----------
    static_shared_bytes, threads
        Of a block.
    written
        For each array of its parameters, whether the kernel may write it.
    """

    static_shared_bytes: int
    threads: int
    written: tuple[bool, ...]


def footprint(path: Path, entry: str) -> Footprint:
    """Read from an object what is known of its kernel before a launch.

    Raises
    ------
    XpuBuildError
        The object does not define the entry.
    """
    try:
        code = load(path, entry)
    except ValueError as error:
        raise XpuBuildError(
            f"the source defines no kernel: {error}; begin it with XPU_KERNEL(…) {{"
        ) from error
    descriptor = code.descriptor
    written = tuple(bool(descriptor.written >> at & 1) for at in range(descriptor.buffers))
    read = Footprint(code.static_shared_bytes, descriptor.threads, written)
    _ctypes.dlclose(code.library._handle)
    return read


def array_names(parameters: str, count: int) -> tuple[str, ...]:
    """Return the names of a kernel's arrays, its first parameters, from the parameters' text."""
    names: list[str] = []
    depth = start = 0
    for at, sign in enumerate(f"{parameters},"):
        depth += (sign == "<") - (sign == ">")
        if sign == "," and depth == 0:
            found = re.search(r"(\w+)\s*$", parameters[start:at])
            names.append(found[1] if found else f"array {len(names)}")
            start = at + 1
    return tuple(names[:count]) + tuple(f"array {at}" for at in range(len(names), count))
