"""What is read of a kernel: from the note that the compiler puts into an AMDGPU code object.

Source of the names and of the note's type: LLVM, User Guide for AMDGPU Backend, code object
metadata.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any, Final

import msgpack
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from xpu.errors import XpuBuildError
from xpu.model import KernelFacts

_NOTE: Final[tuple[object, object]] = ("AMDGPU", 32)
"""Owner and type of the note with the metadata, NT_AMDGPU_METADATA."""
_WORD_BYTES: Final = 4


def kernel_facts(
    code: bytes, entry: str, wave_width: int, called_spill_bytes: int | None
) -> KernelFacts:
    """Read what the compiler made of a kernel.

    Parameters
    ----------
    code
        The code object.
    entry
        Name of the kernel.
    wave_width
        Lanes of a wave that its source was compiled for.
    called_spill_bytes
        What the functions that it calls spill, which the note does not say; None when not known.

    Raises
    ------
    XpuBuildError
        The code object has no such kernel, or one that cannot be served.
    """
    kernel = next((one for one in kernels(code) if one.get(".name") == entry), None)
    if kernel is None:
        raise XpuBuildError("the source defines no kernel; begin it with XPU_KERNEL(…) {")
    width = kernel.get(".wavefront_size")
    if width != wave_width:
        raise XpuBuildError(
            f"the source was compiled for waves of {wave_width} lanes, and the compiler made "
            f"waves of {width}; name another target"
        )
    if kernel.get(".uses_dynamic_stack"):
        raise XpuBuildError(
            "nobody can say how much stack the kernel needs; take out recursion, calls through "
            "pointers and arrays of unknown size"
        )
    registers = _number(kernel, ".vgpr_count")
    return KernelFacts(
        # Where accumulation registers lie in the same file (from gfx90a on) they are counted in
        # it. A kernel that uses none is given some all the same.
        registers=None if registers is None else max(registers, 1),
        spill_bytes=_spill_bytes(kernel, called_spill_bytes),
        static_shared_bytes=_number(kernel, ".group_segment_fixed_size"),
        stack_bytes=_number(kernel, ".private_segment_fixed_size"),
        pinned_block=_number(kernel, ".max_flat_workgroup_size"),
        code_hash=hashlib.sha256(code).hexdigest(),
    )


def _spill_bytes(kernel: Mapping[str, Any], called: int | None) -> int | None:
    """Return the bytes of a thread's memory that hold registers, in called functions as well.

    The note counts the stores of vector registers, 4 bytes of each thread, several perhaps to one
    place: never more than all the memory that a thread has, that of called functions included.
    Scalar registers are the wave's; they are kept in lanes of vector registers, which `registers`
    counts, and take no memory.
    """
    spilled = _number(kernel, ".vgpr_spill_count")
    private = _number(kernel, ".private_segment_fixed_size")
    if spilled is None or private is None or (called is None and private > 0):
        return None
    return min(spilled * _WORD_BYTES + (called or 0), private)


def _number(kernel: Mapping[str, Any], name: str) -> int | None:
    value = kernel.get(name)
    return value if isinstance(value, int) else None


def kernels(code: bytes) -> list[Mapping[str, Any]]:
    """Return what the note says of each kernel, by the note's own names.

    Raises
    ------
    XpuBuildError
        The bytes are no code object.
    """
    try:
        for section in ELFFile(io.BytesIO(code)).iter_sections():
            if isinstance(section, NoteSection):
                for note in section.iter_notes():
                    if (note["n_name"], note["n_type"]) == _NOTE:
                        return list(msgpack.unpackb(note["n_descdata"])["amdhsa.kernels"])
    except (ELFError, ValueError, LookupError, TypeError, msgpack.UnpackException) as error:
        raise XpuBuildError(f"the compiler gave something that is no code object: {error!r}") from (
            error
        )
    raise XpuBuildError("the compiler gave an object without AMD's metadata")
