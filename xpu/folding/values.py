"""Expressions of host code, folded: arithmetic, parameters, launches, calls of the same plugin.

Called by `xpu.folding.folder`, which follows statements.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any, Final

import attrs

from xpu.folding.effects import PURE, READING, uncached
from xpu.folding.folded import (
    UNKNOWN,
    LaunchValue,
    Parameters,
    Several,
    alternatives,
    applied,
    is_known,
    joined,
)
from xpu.folding.frame import Frame
from xpu.spec import Launch

BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def value_of(frame: Frame, node: ast.expr) -> Any:
    """Return what an expression may be; what changes in place is unknown."""
    return frame.folder.changes.settled(_value(frame, node))


def _value(frame: Frame, node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return frame.load(name)
        case ast.Attribute(value=of, attr=name):
            return joined(
                _attribute(frame, each, name) for each in alternatives(value_of(frame, of))
            )
        case ast.Subscript(value=of, slice=key):
            return _item(value_of(frame, of), value_of(frame, key))
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            row = _row(frame, parts)
            return list(row) if isinstance(node, ast.List) and row is not UNKNOWN else row
        case ast.Dict():
            return _table(frame, node)
        case ast.BinOp(left=left, op=op, right=right):
            function = BINARY.get(type(op))
            operands = value_of(frame, left), value_of(frame, right)
            return UNKNOWN if function is None else applied(function, *operands)
        case ast.UnaryOp(op=op, operand=operand):
            return applied(_UNARY[type(op)], value_of(frame, operand))
        case ast.BoolOp() | ast.Compare() | ast.IfExp():
            return _chosen(frame, node)
        case ast.NamedExpr(value=value):
            return value_of(frame, value)  # the name itself is unknown: it may not be reached
        case ast.Call():
            return _called(frame, node)
    return UNKNOWN


def _chosen(frame: Frame, node: ast.BoolOp | ast.Compare | ast.IfExp) -> Any:
    match node:
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            sides = frame.branch(value_of(frame, test))
            return joined(value_of(frame, body if side else otherwise) for side in sides)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compared(frame, left, ops, others)
        case ast.BoolOp(op=op, values=parts):
            # What decides an `and` is false, what decides an `or` is true.
            decides = isinstance(op, ast.Or)
            found: list[Any] = []
            for part in parts[:-1]:
                value = value_of(frame, part)
                sides = frame.branch(value)
                if decides in sides:
                    found.append(value)
                if sides == (decides,):
                    return joined(found)
            return joined([*found, value_of(frame, parts[-1])])
    return UNKNOWN


def _compared(frame: Frame, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> Any:
    values = [value_of(frame, each) for each in (left, *others)]
    results = []
    for op, one, other in zip(ops, values, values[1:], strict=False):
        if isinstance(other, Parameters) and isinstance(op, ast.In | ast.NotIn):
            has = applied(other.has, one)
            results.append(has if isinstance(op, ast.In) else applied(operator.not_, has))
        else:
            results.append(applied(_COMPARED[type(op)], one, other))
    if any(each is False for each in results):
        return False
    return True if all(each is True for each in results) else UNKNOWN


def _row(frame: Frame, parts: list[ast.expr]) -> Any:
    made: list[Any] = []
    for part in parts:
        if isinstance(part, ast.Starred):
            several = value_of(frame, part.value)
            if not isinstance(several, tuple | list):
                return UNKNOWN
            made.extend(several)
        else:
            made.append(value_of(frame, part))
    return tuple(made)


def _table(frame: Frame, node: ast.Dict) -> Any:
    made: dict[Any, Any] = {}
    base: Parameters | None = None
    for key, part in zip(node.keys, node.values, strict=True):
        value = value_of(frame, part)
        if key is not None:
            name = value_of(frame, key)
            if not is_known(name):
                return UNKNOWN
            made[name] = value
        elif isinstance(value, Parameters):
            base = Parameters({**made, **value.known}, value.recorded, is_copy=True)
            made = {}
        elif isinstance(value, Mapping):
            made |= value
        else:
            return UNKNOWN
    return made if base is None else base.over(made)


def _attribute(frame: Frame, value: Any, name: str) -> Any:
    if value is UNKNOWN or name in frame.folder.changes.attributes:
        return UNKNOWN
    if isinstance(value, LaunchValue):
        return value.block if name == "block" else UNKNOWN
    if isinstance(value, Parameters):
        return {"get": value.item}.get(name, UNKNOWN)
    try:
        return getattr(value, name)
    except Exception:  # a property of a plugin's object may raise anything
        return UNKNOWN


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, Parameters):
        return joined(value.item(each) if is_known(each) else UNKNOWN for each in alternatives(key))
    if isinstance(value, tuple | list | dict) and is_known(key):
        try:
            return value[key]  # the other items may be unknown
        except (LookupError, TypeError):
            return UNKNOWN
    return applied(operator.getitem, value, key)


def _arguments(frame: Frame, node: ast.Call) -> tuple[list[Any], dict[str, Any]] | None:
    """Return what a call is given; None where that is not known by name and place."""
    row = _row(frame, node.args)
    if row is UNKNOWN:
        return None
    named: dict[str, Any] = {}
    for each in node.keywords:
        value = value_of(frame, each.value)
        if each.arg is not None:
            named[each.arg] = value
        elif isinstance(value, dict):
            named |= value
        else:
            return None
    return list(row), named


def _called(frame: Frame, node: ast.Call) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return _super(frame)
    given = _arguments(frame, node)
    functions = list(alternatives(value_of(frame, node.func)))
    if given is None:
        return joined(
            LaunchValue(UNKNOWN, frame.where(node)) if each is Launch else UNKNOWN
            for each in functions
        )
    return joined(_result(frame, node, each, *given) for each in functions)


def _result(
    frame: Frame, node: ast.Call, function: Any, given: list[Any], named: dict[str, Any]
) -> Any:
    if function is Launch:
        block = named.get("block", given[1] if len(given) > 1 else None)
        return LaunchValue(block, frame.where(node))
    if (function is attrs.evolve or function is dataclasses.replace) and given:
        return joined(_evolved(frame, node, each, named) for each in alternatives(given[0]))
    if isinstance(function, MethodType) and isinstance(function.__self__, Parameters):
        return joined(function.__func__(function.__self__, *each) for each in _cases(given))
    if function is dict and len(given) == 1 and isinstance(given[0], Parameters):
        return given[0].over(named)
    if isinstance(function, MethodType):
        function, given = function.__func__, [function.__self__, *given]
    if isinstance(function, functools.partial):
        given, named = [*function.args, *given], {**function.keywords, **named}
        function = function.func
    inner = uncached(function)
    if isinstance(inner, FunctionType) and frame.folder.reads(inner):
        frame.followed.add(node)
        return frame.folder.call(inner, given, named)
    if _is_pure(function) and not named:
        return applied(function, *given)
    return UNKNOWN


def _cases(given: list[Any]) -> Iterator[list[Any]]:
    first, *rest = given or [UNKNOWN]
    for each in alternatives(first):
        yield [each, *rest] if is_known(each) else [UNKNOWN]


def _is_pure(function: Any) -> bool:
    try:
        if function in PURE:
            return True
    except TypeError:  # it cannot be hashed
        return False
    owner = getattr(function, "__self__", None)
    is_plain = isinstance(owner, str | int | tuple | list | Mapping)
    return is_plain and getattr(function, "__name__", "") in READING


def _evolved(frame: Frame, node: ast.Call, launch: Any, named: dict[str, Any]) -> Any:
    if isinstance(launch, Launch):
        launch = LaunchValue(launch.block, frame.where(node))
    if not isinstance(launch, LaunchValue):
        return UNKNOWN
    if "block" not in named:
        return launch
    return LaunchValue(named["block"], frame.where(node))


def _super(frame: Frame) -> Any:
    cls = frame.load("__class__")
    arguments = frame.function.__code__.co_varnames
    own = frame.names.get(arguments[0]) if arguments else None
    if not isinstance(cls, type) or isinstance(own, Several):
        return UNKNOWN
    try:
        return super(cls, own)
    except TypeError:
        return UNKNOWN
