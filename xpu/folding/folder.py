"""Host code folded without running it: what a function gives when its problem is not known.

Statements of the functions of one plugin are followed; a branch whose condition is known is
taken, of another one both sides are. Expressions are those of `xpu.folding.values`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any, Final

import attrs

from xpu.folding import host_code
from xpu.folding.effects import note, written
from xpu.folding.folded import UNKNOWN, alternatives, applied, joined
from xpu.folding.frame import Changes, Frame
from xpu.folding.values import BINARY, value_of

_DEEPEST: Final = 20
"""Calls within one another that are followed."""

_MOST_STEPS: Final = 20_000
"""Statements of one launch that are followed: past them everything is unknown."""

_ADDED_TO: Final = (int, float, str, tuple)
"""What an augmented assignment makes anew."""


class OutOfReach(Exception):  # noqa: N818 - no error: it ends the reading of one path
    """A path ends without a value, or is not followed any further."""


class Folder:
    """Folds functions of some packages; whatever they call elsewhere is unknown.

    Parameters
    ----------
    packages
        Names of top packages whose functions are read.
    """

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages
        self._depth = 0
        self._steps = 0
        self._visited: set[CodeType] = set()
        self.changes = Changes()

    def fold(self, function: FunctionType, given: Sequence[Any]) -> Any:
        """Return what a function may give: no value rests on what the code may change.

        The code is gone through again until nothing more is found that changes.
        """
        while True:
            before = attrs.evolve(self.changes)
            self._steps = 0
            self._visited.clear()
            value = self.call(function, given, {})
            if self.changes.everything:
                return UNKNOWN
            if self.changes == before:
                return value

    def visit(self, function: FunctionType, given: Sequence[Any]) -> None:
        """Note what a function may change with any arguments; `given` are the first ones."""
        if function.__code__ not in self._visited:
            self._visited.add(function.__code__)
            names = host_code.arguments_of(function)[len(given) :]
            self.call(function, given, dict.fromkeys(names, UNKNOWN))

    def reads(self, function: Any) -> bool:
        """Whether a function is one of those that are read."""
        return (
            isinstance(function, FunctionType)
            and (function.__module__ or "").partition(".")[0] in self._packages
        )

    def call(self, function: FunctionType, given: Sequence[Any], named: dict[str, Any]) -> Any:
        """Return what a function may give for arguments of which some are unknown."""
        node = host_code.node_of(function)
        if node is None or self._depth >= _DEEPEST or host_code.is_resumed(function):
            self.changes.everything = True
            return UNKNOWN
        names = _bound(function, node.args, given, named)
        if names is None:
            return UNKNOWN
        frame = Frame(self, function, names, written(node).hidden)
        self._depth += 1
        try:
            value = _given(frame, node)
            note(frame, node)
            return value
        except RecursionError:
            self.changes.everything = True
            return UNKNOWN
        finally:
            self._depth -= 1

    def value(self, frame: Frame, node: ast.expr) -> Any:
        """Return what an expression may be."""
        return value_of(frame, node)

    def step(self) -> None:
        """Count a statement.

        Raises
        ------
        OutOfReach
            There were too many.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.changes.everything = True
            raise OutOfReach


def _given(frame: Frame, node: host_code.Function) -> Any:
    """Return what a function may give."""
    if isinstance(node, ast.Lambda):
        return frame.value(node.body)
    if _block(frame, node.body):
        frame.returned.append(None)
    return joined(frame.returned)


def _bound(
    function: FunctionType, wanted: ast.arguments, given: Sequence[Any], named: dict[str, Any]
) -> dict[str, Any] | None:
    """Return arguments by name; None where they do not fit."""
    names = [each.arg for each in (*wanted.posonlyargs, *wanted.args)]
    if len(given) > len(names) and wanted.vararg is None:
        return None
    made: dict[str, Any] = dict(zip(names, given, strict=False))
    if wanted.vararg is not None:
        made[wanted.vararg.arg] = tuple(given[len(names) :])
    defaults = dict(zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False))
    defaults |= function.__kwdefaults__ or {}
    allowed = {*names, *(each.arg for each in wanted.kwonlyargs)}
    rest = {name: value for name, value in named.items() if name not in allowed}
    if rest and wanted.kwarg is None:
        return None
    made |= {name: value for name, value in named.items() if name in allowed}
    if wanted.kwarg is not None:
        made[wanted.kwarg.arg] = rest
    return {**dict.fromkeys(allowed, UNKNOWN), **defaults, **made}


def _block(frame: Frame, statements: Sequence[ast.stmt]) -> bool:
    """Follow statements; return whether what comes after them is reached."""
    try:
        return all(_statement(frame, each) for each in statements)
    except OutOfReach:
        frame.returned.append(UNKNOWN)
        return False


def _statement(frame: Frame, node: ast.stmt) -> bool:
    """Follow a statement; return whether the next one is reached."""
    frame.folder.step()
    match node:
        case ast.Return(value=value):
            frame.returned.append(frame.value(value))
            return False
        case ast.Raise():
            return False
        case ast.Assign(targets=targets, value=value):
            given = frame.value(value)
            for target in targets:
                _assign(frame, target, given)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _assign(frame, target, frame.value(value))
        case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
            function = BINARY.get(type(operator))
            operands = frame.load(name), frame.value(value)
            if not all(isinstance(each, _ADDED_TO) for each in alternatives(operands[0])):
                frame.folder.changes.containers = True  # a list is added to in place
            frame.names[name] = UNKNOWN if function is None else applied(function, *operands)
        case ast.If(test=test, body=body, orelse=otherwise):
            sides = [body if side else otherwise for side in frame.branch(frame.value(test))]
            return _any_of(frame, sides)
        case ast.Expr(value=value):
            frame.value(value)
        case ast.Pass() | ast.Assert() | ast.AnnAssign() | ast.Global() | ast.Nonlocal():
            pass
        case _:
            return _unfolded(frame, node)
    return True


def _any_of(frame: Frame, sides: Sequence[Sequence[ast.stmt]]) -> bool:
    """Follow each of some blocks from here; names are then what any of them made of them."""
    before = dict(frame.names)
    after: list[dict[str, Any]] = []
    for side in sides:
        frame.names = dict(before)
        if _block(frame, side):
            after.append(frame.names)
    every = dict.fromkeys(name for names in after for name in names)
    frame.names = {
        name: joined(names.get(name, UNKNOWN) for names in after) for name in every
    } or before
    return bool(after)


def _unfolded(frame: Frame, node: ast.stmt) -> bool:
    """Pass a statement that is not folded: what it assigns is unknown, what it returns counts."""
    inner = [each for each in ast.walk(node) if isinstance(each, ast.Name | ast.alias)]
    for each in inner:
        if isinstance(each, ast.alias):
            frame.names[(each.asname or each.name).partition(".")[0]] = UNKNOWN
        elif not isinstance(each.ctx, ast.Load):
            frame.names[each.id] = UNKNOWN
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        frame.names[node.name] = UNKNOWN
        return True
    for block in _blocks_of(node):
        _any_of(frame, [block, []])
    return True


def _blocks_of(node: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of statements directly within a statement."""
    found = [
        block
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list)
    ]
    for name in ("handlers", "cases"):
        found += [each.body for each in getattr(node, name, ())]
    return found


def _assign(frame: Frame, target: ast.expr, value: Any) -> None:
    match target:
        case ast.Name(id=name):
            frame.names[name] = value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            fits = isinstance(value, tuple | list) and len(value) == len(parts)
            for at, part in enumerate(parts):
                _assign(frame, part, value[at] if fits else UNKNOWN)
        case ast.Starred(value=part):
            _assign(frame, part, UNKNOWN)
        case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)):
            # What is changed in place is not followed.
            frame.names[name] = UNKNOWN
