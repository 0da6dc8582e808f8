"""What is read of a kernel: from its CUBIN, and from what the compiler reports of it.

A CUBIN is a 64-bit ELF file. Registers, stack and shared memory stand in both; spills only in the
report, the block that a kernel is bound to only in the CUBIN. The CUBIN's own figure of shared
memory has from sm_90 on 1024 bytes more, which the part reserves in each block: the report's has
not.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from typing import Final

from xpu.errors import XpuBuildError
from xpu.model import KernelFacts

_HEADER: Final = struct.Struct("<4s36xQ10xHHH")
"""Magic, where the section headers lie, their size, their number, the one with the names."""
_SECTION: Final = struct.Struct("<I20xQQ24x")
"""Where a section's name stands, where the section lies, and its size."""
_MAGIC: Final = b"\x7fELF"
_MAX_THREADS: Final = 0x05
_PARAMETER: Final = 0x17
_SIZED: Final = 0x04
"""Attributes of ``.nv.info`` and a form. Source: ``cuobjdump -elf``, EIATTR_MAX_THREADS,
EIATTR_KPARAM_INFO (one for each parameter, whose last word has the size in its upper 14 bits) and
EIFMT_SVAL: a size of 16 bits and as many bytes; every other form has 16 bits."""

_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_FRAME: Final = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_REGISTERS: Final = re.compile(r"Used (\d+) registers(.*)")
_STACK: Final = re.compile(r"(\d+) bytes cumulative stack size")
_SHARED: Final = re.compile(r"(\d+) bytes smem")


def kernel_facts(code: bytes, log: str, entry: str) -> KernelFacts:
    """Read what the compiler made of a kernel.

    Parameters
    ----------
    code
        The CUBIN.
    log
        The compiler's report, with ``-Xptxas -v``.
    entry
        Name of the kernel.

    Raises
    ------
    XpuBuildError
        The CUBIN has no such kernel.
    """
    sections = dict(_sections(code))
    if f".text.{entry}" not in sections:
        raise XpuBuildError("the source defines no kernel; begin it with XPU_KERNEL(…) {")
    registers, spill, stack, shared = _reported(log, entry)
    return KernelFacts(
        registers=registers,
        spill_bytes=spill,
        static_shared_bytes=shared,
        stack_bytes=stack,
        pinned_block=_threads(sections.get(f".nv.info.{entry}", b"")),
        code_hash=hashlib.sha256(code).hexdigest(),
    )


def _sections(code: bytes) -> Iterator[tuple[str, bytes]]:
    _, start, size, count, names_at = _HEADER.unpack_from(code)
    found = [_SECTION.unpack_from(code, start + i * size) for i in range(count)]
    names = found[names_at][1]
    for name, offset, length in found:
        begin = names + name
        yield code[begin : code.index(b"\0", begin)].decode(), code[offset : offset + length]


def parameter_bytes(code: bytes, entry: str) -> tuple[int, ...] | None:
    """Return the size of each parameter of a kernel, in order; None when the code is no CUBIN."""
    if not code.startswith(_MAGIC):
        return None
    info = dict(_sections(code)).get(f".nv.info.{entry}", b"")
    found = {}
    for attribute, value in _attributes(info):
        if attribute == _PARAMETER:
            _, ordinal, _, packed = struct.unpack("<IHHI", value)
            found[ordinal] = packed >> 18
    return tuple(found[ordinal] for ordinal in sorted(found))


def _threads(info: bytes) -> int | None:
    """Return the most threads of a block, from the attributes of a kernel."""
    for attribute, value in _attributes(info):
        if attribute == _MAX_THREADS:
            x, y, z = struct.unpack("<3I", value)
            return int(x * y * z)
    return None


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of a kernel that have a size, with their bytes."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SIZED:
            yield attribute, info[at : at + size]
            at += size


def _reported(log: str, entry: str) -> tuple[int | None, int | None, int | None, int | None]:
    """Return registers, spill, stack and static shared bytes; what is not said is None.

    What a kernel calls and is not part of it is reported after it, and its spills are added.
    """
    parts = _ENTRY.split(log)[1:]
    text = dict(zip(parts[::2], parts[1::2], strict=True)).get(entry, "")
    frames, used = _FRAME.findall(text), _REGISTERS.search(text)
    spill = sum(max(int(stores), int(loads)) for _, stores, loads in frames)
    if used is None:
        return None, spill if frames else None, None, None
    # With calls the frames of all that may be called at once are added up; else it is its own.
    stack = _STACK.search(used[2])
    own = stack[1] if stack else frames[0][0] if frames else None
    shared = _SHARED.search(used[2])
    return (
        int(used[1]),
        spill if frames else None,
        int(own) if own is not None else None,
        int(shared[1]) if shared else 0,
    )
