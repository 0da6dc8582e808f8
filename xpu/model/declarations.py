"""What only an author knows of a kernel: declared on a design, or by a family in TOML.

Values of the compile step, which evaluates them for each member and holds them against what
the compiler made. Nothing here is derived from code.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from xpu.model.member import Member

Value = int | str
"""A whole number, or an expression over ``member.*`` that is one for each member."""

Gate = Literal["spill", "no-code", "unbounded-launch", "deadline", "scalar-loop", "stale"]

LOWERING_GATES: Final[tuple[Gate, ...]] = ("no-code", "spill", "deadline", "scalar-loop")
"""Gates that an `Unlowered` may track."""


@attrs.frozen
class Unlowered:
    """A kernel that a backend does not lower as it should, and the plan item that tracks it.

    Attributes
    ----------
    item
        What tracks it: an issue, a line of a plan.
    backend
        Name of the backend.
    gate
        Which gate it tracks, and no other: ``no-code``, ``spill``, ``deadline`` or
        ``scalar-loop``.
    targets
        For which targets of the backend; empty: for each.
    compilers
        With which compilers: a name with its version or the beginning of that, ``cc 12`` for
        instance. What a release spills another one does not. Empty: with any.
    members
        Of which members; empty: of whichever it happens to.
    """

    item: str
    backend: str
    gate: Gate = "no-code"
    targets: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()

    def speaks_of(self, backend: str, target: str, compiler: str) -> bool:
        """Whether it is about what a compiler of a backend makes for a target."""
        return self.is_made_by(backend, compiler) and (not self.targets or target in self.targets)

    def is_made_by(self, backend: str, compiler: str) -> bool:
        """Whether it is about a compiler of a backend, for whatever target."""
        known = (f"{compiler} ".startswith((f"{each} ", f"{each}.")) for each in self.compilers)
        return self.backend == backend and (not self.compilers or any(known))


@attrs.frozen
class Unbounded:
    """A launch whose block nobody knows before the problem, and the plan item that tracks it.

    `members` are those whose launch it is; empty: whichever it happens to.
    """

    item: str
    members: tuple[str, ...] = ()


@attrs.frozen
class Declarations:
    """All that is declared of a design, or of a family.

    Attributes
    ----------
    max_threads, max_waves
        The most threads, or waves, of a block in any launch; one of them or none.
    wave
        The width of a wave that the kernel's indexing assumes, in lanes; None: any.
    fast_math
        Whether the compiler may reassociate, use approximate division and square roots and
        flush subnormal numbers to zero. None: not stated, which is no.
    members
        Shapes that every family of the design has.
    requires
        Expressions over ``member.*`` that hold for every member.
    unlowered, unbounded
        What is wrong, known, and tracked.
    """

    max_threads: Value | None = None
    max_waves: Value | None = None
    wave: Value | None = None
    fast_math: bool | None = None
    members: tuple[Member, ...] = ()
    requires: tuple[str, ...] = ()
    unlowered: tuple[Unlowered, ...] = ()
    unbounded: tuple[Unbounded, ...] = ()

    def over(self, lower: Declarations) -> Declarations:
        """Return these put over a lower layer's: what is stated here replaces, lists add up."""
        stated = self.max_threads is not None or self.max_waves is not None
        occupancy = self if stated else lower
        return Declarations(
            occupancy.max_threads,
            occupancy.max_waves,
            lower.wave if self.wave is None else self.wave,
            lower.fast_math if self.fast_math is None else self.fast_math,
            (*lower.members, *self.members),
            (*lower.requires, *self.requires),
            (*lower.unlowered, *self.unlowered),
            (*lower.unbounded, *self.unbounded),
        )
