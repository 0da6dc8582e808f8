"""What is read of the texts that the compiler leaves beside a code object, from the same run.

Its assembly names the matrix and dot operations, and says what called functions spill; its own
form of the kernel, behind the last of its passes, says how the buffers are used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xpu.model import Operation
from xpu.spec import llvm_ir

_END: Final = "annotation-remarks"
"""The pass that ends the pipeline at every level. Source: LLVM, buildO0DefaultPipeline and
buildPerModuleDefaultPipeline in PassBuilderPipelines.cpp."""

# Source: LLVM, AMDGPU instruction syntax of gfx9 to gfx12; sparse matrices among them. What stands
# behind the last underscore tells encodings apart, not operations.
_NATIVE: Final = re.compile(
    r"^\s+(v_(?:wmma|swmmac|mfma|smfmac|dot)\w*?)(?:_e32|_e64|_dpp)?(?:_dpp)?\s", re.MULTILINE
)
# Source: LLVM, AsmPrinter.cpp: its comments on functions, and on instructions that spill. One
# comment may stand for several stores: of a clause it says all the bytes.
_FUNCTION: Final = re.compile(
    r"; -- Begin function ([^\n]+)\n(.*?)(?=; -- End function|\Z)", re.DOTALL
)
_SPILL: Final = re.compile(r"; (\d+)-byte (?:Folded )?Spill\b")
_NAMED: Final = re.compile(r'("[^"\n]+"|[\w.$]+)@(?:rel|abs|got)')
"""A function whose address an instruction makes: where it is called, it is made first."""


def kept_forms(entry: str, directory: str) -> Iterator[str]:
    """Yield the options with which a compiler keeps its form of a kernel in a directory.

    A release that does not know the pass by this name keeps nothing, and is silent: then the
    modes are not known. Into a directory, for the compiler writes it to its output word by word.
    """
    for option in (
        f"-print-after={_END}",
        f"-filter-print-funcs={entry}",
        f"-ir-dump-directory={directory}",
    ):
        yield from ("-mllvm", option)


def buffer_modes(directory: Path, entry: str, count: int) -> tuple[str | None, ...]:
    """Return how a kernel uses its first `count` parameters, by what is kept in a directory."""
    texts = [path.read_text("utf-8", errors="replace") for path in sorted(directory.glob("*.ll"))]
    # Several would be of several runs of the pass; the last one is the code's.
    return llvm_ir.buffer_modes(texts[-1] if texts else "", entry, count)


def native_operations(assembly: str) -> tuple[Operation, ...]:
    """Name each matrix and dot operation once, in alphabetic order."""
    found = Counter(_NATIVE.findall(assembly))
    return tuple(Operation(name, places=found[name]) for name in sorted(found))


def called_spill_bytes(assembly: str, entry: str) -> int | None:
    """Return the bytes of registers that functions which a kernel calls store in memory.

    The note of a code object counts the kernel's own alone. What a function has to keep of the
    registers of its caller is among them. None when the assembly does not say it.
    """
    bodies = {name.strip('"'): body for name, body in _FUNCTION.findall(assembly)}
    if entry not in bodies:
        return None
    reached, waiting = {entry}, [entry]
    while waiting:
        named = {name.strip('"') for name in _NAMED.findall(bodies[waiting.pop()])}
        new = (named & bodies.keys()) - reached
        reached |= new
        waiting.extend(new)
    spills = (_SPILL.findall(bodies[name]) for name in reached - {entry})
    return sum(int(count) for found in spills for count in found)
