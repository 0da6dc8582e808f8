"""A candidate: one member of a family, considered at a bind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpu.errors import XpuConfigError
from xpu.model._facts import frozen_mapping


class ShapeCandidate:
    """A named set of shape parameters.

    Parameters
    ----------
    name
        The member's name.
    code_hash
        sha256 of the member's device code, or another text that changes when the code
        does; None when nothing is known of it.
    library
        Name and version of the library that the member calls instead of own code;
        `code_hash` is then of that and of what runs before the call.
    parameters
        Any named whole numbers: ``tile_m``, ``tile_n``, ``tile_k``, ``threads``,
        ``dynamic_shared_bytes`` (bytes), ``index_bits`` … Read them as attributes.

    Raises
    ------
    XpuConfigError
        A parameter is not a whole number.
    """

    __slots__ = ("code_hash", "library", "name", "parameters")
    name: str
    code_hash: str | None
    library: str | None
    parameters: Mapping[str, int]

    def __init__(
        self,
        name: str,
        *,
        code_hash: str | None = None,
        library: str | None = None,
        **parameters: int | None,
    ) -> None:
        kept = {key: value for key, value in parameters.items() if value is not None}
        for key, value in kept.items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise XpuConfigError(f"candidate {name!r}: {key} is a whole number, not {value!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "code_hash", code_hash)
        object.__setattr__(self, "library", library)
        object.__setattr__(self, "parameters", frozen_mapping(kept))

    @classmethod
    def of(
        cls,
        name: str,
        parameters: Mapping[str, int],
        code_hash: str | None = None,
        library: str | None = None,
    ) -> ShapeCandidate:
        """Make a candidate from a member's parameters."""
        named: dict[str, Any] = dict(parameters)
        return cls(name, code_hash=code_hash, library=library, **named)

    def __getattr__(self, name: str) -> int:
        if name in ShapeCandidate.__slots__:
            raise AttributeError(name)
        try:
            return self.parameters[name]
        except KeyError:
            raise AttributeError(f"candidate {self.name!r} has no parameter {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a ShapeCandidate cannot be changed")

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _restore, (self.name, self.code_hash, self.library, dict(self.parameters))

    def _identity(self) -> tuple[object, ...]:
        return (self.name, self.code_hash, self.library, tuple(sorted(self.parameters.items())))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeCandidate):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        shown = "".join(f", {key}={value}" for key, value in self.parameters.items())
        return f"ShapeCandidate({self.name!r}{shown})"


def _restore(
    name: str, code_hash: str | None, library: str | None, parameters: dict[str, Any]
) -> ShapeCandidate:
    return ShapeCandidate(name, code_hash=code_hash, library=library, **parameters)
