"""What host code may change: names, containers and attributes of which a fold says nothing.

A fold follows values and no identities. Whatever a function that is reached may change in
place, bind behind the back of a statement, or hand to code that is not read, is therefore
unknown from the beginning, in all of the fold. Called by `xpu.folding.folder`.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import attrs

from xpu.folding.folded import UNKNOWN, alternatives
from xpu.folding.frame import Frame
from xpu.folding.host_code import Function
from xpu.spec import Launch

PURE: Final[frozenset[Any]] = frozenset(
    {abs, bool, dict, divmod, float, int, len, list, max, min, round, sorted, str, sum, tuple}
    | {function for function in vars(math).values() if isinstance(function, BuiltinFunctionType)}
)
"""Functions that change nothing, and are called where all of their arguments are known."""

READING: Final = frozenset({"get", "keys", "values", "items", "index", "count", "bit_length"})
"""Methods of plain values that change nothing."""

_HARMLESS: Final[frozenset[Any]] = PURE | {
    *(Launch, attrs.evolve, super, set, frozenset, range, zip, enumerate, reversed),
    *(any, all, isinstance, issubclass, callable, hasattr, repr, type, hash),
}
_HARMLESS_NAMES: Final = {("dataclasses", "replace")}
_ANYTHING: Final = frozenset(
    {"setattr", "delattr", "exec", "eval", "globals", "locals", "vars"}
    | {"__setattr__", "__delattr__", "__dict__"}
)
"""Names by which code changes what its text does not name."""


@attrs.frozen
class Written:
    """What the text of a function binds and changes, the functions within it included.

    `hidden` are names that more than its own statements bind: those of walruses, patterns and
    handlers, and those that are another function's, too.
    """

    hidden: frozenset[str]
    bound: frozenset[str]
    attributes: frozenset[str]
    has_items: bool
    has_anything: bool
    calls: tuple[ast.Call, ...]


@functools.cache
def written(node: Function) -> Written:
    """Return what a function binds and changes."""
    body: list[Any] = node.body if isinstance(node.body, list) else [node.body]
    every = [each for part in body for each in ast.walk(part)]
    return Written(
        frozenset(name for each in every for name in _hidden(each)),
        frozenset(name for each in every for name in _bound(each)),
        frozenset(
            each.attr
            for each in every
            if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
        ),
        any(map(_changes_items, every)),
        any(
            (isinstance(each, ast.Name) and each.id in _ANYTHING)
            or (isinstance(each, ast.Attribute) and each.attr in _ANYTHING)
            for each in every
        ),
        tuple(each for each in every if isinstance(each, ast.Call)),
    )


def _hidden(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.NamedExpr(target=ast.Name(id=name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names


def _bound(node: ast.AST) -> Iterator[str]:
    yield from _hidden(node)
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=other):
            yield (other or name).partition(".")[0]


def _changes_items(node: ast.AST) -> bool:
    """Whether a node assigns an item, or is a function within another that adds to a name."""
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(node, inner) and any(
        isinstance(each, ast.AugAssign) for each in ast.walk(node)
    )


def note(frame: Frame, node: Function) -> None:
    """Note what a function that was folded may change, and visit what it may call beside that."""
    text, changes = written(node), frame.folder.changes
    changes.everything |= text.has_anything
    changes.attributes |= text.attributes
    changes.parameters |= text.has_items
    changes.containers |= text.has_items
    for call in text.calls:
        # Each of them is looked at: what one assigns counts whatever another does.
        harmless = [_is_harmless(frame, call, each) for each in _called(frame, call, text)]
        changes.containers |= not all(harmless)


def _called(frame: Frame, call: ast.Call, text: Written) -> Iterator[Any]:
    """Yield what a call may call, where that is known by the names alone."""
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    match root:
        case ast.Call(func=ast.Name(id="super")):
            yield from alternatives(frame.value(call.func))
        case ast.Name(id=name) if name not in text.bound:
            yield from alternatives(frame.value(call.func))
        case _:
            yield UNKNOWN


def _is_harmless(frame: Frame, call: ast.Call, function: Any) -> bool:
    """Whether a call changes nothing, or only what is noted where it is followed."""
    if any(each.arg == "key" and not isinstance(each.value, ast.Lambda) for each in call.keywords):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr in READING:
        return True
    given: list[Any] = []
    if isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, MethodType):
        function, given = function.__func__, [function.__self__]
    function = uncached(function)
    if isinstance(function, FunctionType) and frame.folder.reads(function):
        if call not in frame.followed:
            frame.folder.visit(function, given)
        return True
    try:
        named = (getattr(function, "__module__", ""), getattr(function, "__name__", ""))
        return function in _HARMLESS or named in _HARMLESS_NAMES or _is_error(function)
    except TypeError:  # it cannot be hashed
        return False


def _is_error(function: Any) -> bool:
    return isinstance(function, type) and issubclass(function, BaseException)


def uncached(function: Any) -> Any:
    """Return the function behind a cache; another wrapper is what it is, and followed itself."""
    while isinstance(function, functools._lru_cache_wrapper):
        function = function.__wrapped__
    return function
