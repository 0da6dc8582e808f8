"""A problem: named sizes, and the key under which an answer for it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xpu.errors import XpuConfigError


class Problem:
    """Named sizes, for instance ``Problem(m=512, n=4096, k=4096)``.

    Sizes are whole numbers, 0 or more. Two problems are equal when their sizes are, in
    the same order. Read a size as an attribute or from `sizes`.

    Raises
    ------
    XpuConfigError
        No size is given, or one is not a whole number of 0 or more.
    """

    __slots__ = ("_sizes",)
    _sizes: Mapping[str, int]

    def __init__(self, **sizes: int) -> None:
        if not sizes:
            raise XpuConfigError(
                "a problem needs at least one size, for instance Problem(m=1, n=64)"
            )
        object.__setattr__(
            self, "_sizes", MappingProxyType({name: _size(name, sizes[name]) for name in sizes})
        )

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes by name, in the order given."""
        return self._sizes

    @property
    def key(self) -> str:
        """The sizes joined by ``x``, for instance ``512x4096x4096``."""
        return "x".join(str(size) for size in self._sizes.values())

    def ordered(self, names: Sequence[str]) -> Problem:
        """Return the same sizes in a family's declared order.

        Raises
        ------
        XpuConfigError
            A declared size is missing, or one is given that the family does not declare.
        """
        wanted, given = list(names), list(self._sizes)
        if sorted(wanted) != sorted(given):
            raise XpuConfigError(
                f"the problem's sizes are {', '.join(wanted)}; given: {', '.join(given)}"
            )
        return Problem(**{name: self._sizes[name] for name in wanted})

    @classmethod
    def parse(cls, names: Sequence[str], text: str) -> Problem:
        """Read ``512x4096x4096`` as sizes in the declared order.

        Raises
        ------
        XpuConfigError
            The text does not hold one whole number for each name.
        """
        parts = text.lower().split("x")
        # Python refuses to read a number of more than 4,300 digits.
        are_sizes = all(part.isascii() and part.isdigit() and len(part) < 99 for part in parts)
        if len(parts) != len(names) or not are_sizes:
            shape = "x".join(name.upper() for name in names)
            example = "x".join(["4096"] * len(names))
            raise XpuConfigError(f"a problem is {shape}, for instance {example}; given: {text!r}")
        return cls(**{name: int(part) for name, part in zip(names, parts, strict=True)})

    def __getattr__(self, name: str) -> int:
        try:
            return self._sizes[name]
        except KeyError:
            raise AttributeError(f"this problem has no size {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Problem cannot be changed")

    def __reduce__(self) -> tuple[object, tuple[dict[str, int]]]:
        return _restore, (dict(self._sizes),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        return tuple(self._sizes.items()) == tuple(other._sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._sizes.items()))

    def __repr__(self) -> str:
        return f"Problem({', '.join(f'{name}={size}' for name, size in self._sizes.items())})"


def _restore(sizes: dict[str, int]) -> Problem:
    return Problem(**sizes)


# Element offsets are computed in 64 bits; a size beyond this is a mistake, not a problem.
_LARGEST = 2**40


def _size(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise XpuConfigError(f"size {name!r} is a whole number, not {value!r}")
    size = int(value.__index__())
    if not 0 <= size <= _LARGEST:
        raise XpuConfigError(f"size {name!r} is {size}; allowed: 0 to {_LARGEST}")
    return size
