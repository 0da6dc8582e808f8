"""One function that is being folded, and what all functions of a fold may change."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any, Protocol

import attrs

from xpu.folding import host_code
from xpu.folding.folded import UNKNOWN, Parameters, Several, alternatives, applied, joined


@attrs.define
class Changes:
    """What the code of a fold may change.

    Attributes
    ----------
    containers, parameters
        Whether lists, dictionaries and the like change in place, and the parameters that a
        launch was given.
    attributes
        Names of attributes that are assigned.
    everything
        Whether some of it cannot be followed at all.
    """

    containers: bool = False
    parameters: bool = False
    everything: bool = False
    attributes: frozenset[str] = frozenset()

    def settled(self, value: Any) -> Any:
        """Return a value as far as nothing changes it."""
        if self.everything:
            return UNKNOWN
        if isinstance(value, Several):
            return joined(map(self.settled, value.values))
        if isinstance(value, Parameters):
            is_changed = self.parameters or (value.is_copy and self.containers)
            return UNKNOWN if is_changed else value
        return UNKNOWN if self.containers and not _is_fixed(value) else value


class Reading(Protocol):
    """What a frame is folded by: `Folder`."""

    changes: Changes

    def value(self, frame: Frame, node: ast.expr) -> Any:
        """Return what an expression may be."""

    def reads(self, function: Any) -> bool:
        """Whether a function is one of those that are read."""

    def call(self, function: FunctionType, given: Sequence[Any], named: dict[str, Any]) -> Any:
        """Return what a function may give for arguments of which some are unknown."""

    def visit(self, function: FunctionType, given: Sequence[Any]) -> None:
        """Note what a function may change with any arguments; `given` are the first ones."""

    def step(self) -> None:
        """Count a statement."""


@attrs.define(eq=False)
class Frame:
    """One function being folded: its names, what it gave so far, and the calls in it.

    `hidden` are names that its statements do not bind alone, `followed` calls that were followed.
    """

    folder: Reading
    function: Any  # a FunctionType, which mypy would bind to the instance
    names: dict[str, Any]
    hidden: frozenset[str] = frozenset()
    returned: list[Any] = attrs.field(factory=list)
    followed: set[ast.Call] = attrs.field(factory=set)

    def where(self, node: ast.AST) -> str:
        """Return file and line of a node."""
        return host_code.where(self.function, getattr(node, "lineno", None))

    def load(self, name: str) -> Any:
        """Return what a name stands for."""
        if name in self.hidden:
            return UNKNOWN
        if name in self.names:
            return self.names[name]
        if name in host_code.rebound(self.function) or name in self.folder.changes.attributes:
            return UNKNOWN  # another function's, which assigns it, or a module's
        code, closure = self.function.__code__, self.function.__closure__ or ()
        for free, cell in zip(code.co_freevars, closure, strict=True):
            if free == name:
                try:
                    return cell.cell_contents
                except ValueError:  # not assigned yet
                    return UNKNOWN
        spaces = (self.function.__globals__, vars(builtins))
        return next((space[name] for space in spaces if name in space), UNKNOWN)

    def value(self, node: ast.expr | None) -> Any:
        """Return what an expression may be."""
        return None if node is None else self.folder.value(self, node)

    def branch(self, test: Any) -> tuple[bool, ...]:
        """Return which of the two sides of a condition may be taken."""
        truths = [
            UNKNOWN if each is UNKNOWN else applied(bool, each) for each in alternatives(test)
        ]
        if not all(isinstance(each, bool) for each in truths):
            return (True, False)
        return tuple(dict.fromkeys(truths))


def _is_fixed(value: Any) -> bool:
    """Whether nothing in a value can change in place; attributes are looked at by name."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    if isinstance(value, str | bytes | frozenset | range | type | ModuleType):
        return True
    return not (hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__"))
