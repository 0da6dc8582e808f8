"""How a kernel uses its buffers, followed from the addresses through the generated code.

A compiler half reads its code into steps: what each makes, from what, and through which
addresses it reads and writes. The order of steps does not matter: what may happen in any
order counts, so loops and branches need no care. Nothing here knows a language or a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from xpu.errors import XpuBuildError
from xpu.model import BufferAccess
from xpu.spec.design import Argument

UNUSED: Final = "unused"
"""The mode of a buffer that the code touches nowhere."""
PRIVATE: Final = "private memory"
"""The memory of a thread alone, as one value: what is stored there comes out again."""
_MODES: Final = {
    (False, False): UNUSED,
    (True, False): "read",
    (False, True): "write",
    (True, True): "update",
}


@attrs.frozen
class Step:
    """One operation of the generated code, by the names of the values that it takes and makes.

    Attributes
    ----------
    makes
        Values that hold an address when one of `uses` does.
    uses
        Values that go into those made: address arithmetic, choices, casts.
    reads, writes
        Addresses that are read and written through.
    escapes
        Values that go where nobody follows them: into memory, into a call.
    """

    makes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    escapes: tuple[str, ...] = ()


def derive_modes(
    addresses: Sequence[Iterable[str]], steps: Iterable[Step]
) -> tuple[str | None, ...]:
    """Return the mode of each buffer: ``read``, ``write``, ``update`` or ``unused``.

    None where its address goes somewhere that cannot be followed, or is one of several.

    Parameters
    ----------
    addresses
        For each buffer the values that hold its address to begin with.
    steps
        All operations of the kernel, in any order.
    """
    steps = list(steps)
    held = _followed(addresses, steps)
    lost = _buffers(held, (name for step in steps for name in step.escapes))
    reads = [held.get(name, frozenset()) for step in steps for name in step.reads]
    writes = [held.get(name, frozenset()) for step in steps for name in step.writes]
    modes: list[str | None] = []
    for index in range(len(addresses)):
        may = tuple(any(index in buffers for buffers in all_) for all_ in (reads, writes))
        # An address that lies in one of several buffers says of none what is done to it.
        must = tuple(any(buffers == {index} for buffers in all_) for all_ in (reads, writes))
        modes.append(_MODES[must[0], must[1]] if may == must and index not in lost else None)
    return tuple(modes)


def _buffers(held: Mapping[str, frozenset[int]], names: Iterable[str]) -> frozenset[int]:
    return frozenset().union(*(held[name] for name in names if name in held))


def _followed(
    addresses: Sequence[Iterable[str]], steps: Sequence[Step]
) -> Mapping[str, frozenset[int]]:
    """Return, for each value that may hold an address, the buffers that it may lie in."""
    held: dict[str, frozenset[int]] = {}
    for index, names in enumerate(addresses):
        for name in names:
            held[name] = held.get(name, frozenset()) | {index}
    takers: dict[str, list[Step]] = {}
    for step in steps:
        for name in step.uses:
            takers.setdefault(name, []).append(step)
    waiting = list(held)
    while waiting:
        name = waiting.pop()
        for step in takers.get(name, ()):
            for made in step.makes:
                known = held.get(made, frozenset())
                if not held[name] <= known:
                    held[made] = known | held[name]
                    waiting.append(made)
    return held


def buffer_accesses(
    arguments: Sequence[Argument], modes: Sequence[str | None] = ()
) -> tuple[BufferAccess, ...]:
    """Return the access of each argument: as the code has it, else as the design declares it.

    Parameters
    ----------
    modes
        Of the kernel's buffers in order, as `derive_modes` gives them; one that is None or
        missing is not known.

    Raises
    ------
    XpuBuildError
        The code writes an argument that the design only reads.
    """
    known = (*modes, *(None,) * (len(arguments) - len(modes)))
    for argument, mode in zip(arguments, known, strict=False):
        if argument.access == "read" and mode in ("write", "update"):
            raise XpuBuildError(
                f"the design only reads {argument.name!r}, and the code that the compiler made "
                "writes it; make its parameter one to const, or the design's argument one to "
                'update (access="update")'
            )
    return tuple(
        BufferAccess(argument.name, argument.access)
        if mode is None
        else BufferAccess(argument.name, mode, is_derived=True)
        for argument, mode in zip(arguments, known, strict=False)
    )
