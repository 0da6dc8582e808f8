"""From text to a tree of our own: everything that is not allowed is refused here.

A text passes a lexer that knows every token of the language, then Python's parser, then a
translation of the few node kinds below. Whatever runs later is made from `Node` alone, so
that nothing of the text can reach it but numbers and checked names.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.expressions.names import Names

MAX_LENGTH: Final = 1000
"""Most characters of an expression."""
MAX_DEPTH: Final = 32
"""Most operations nested in one another."""
LARGEST: Final = 2**128
"""Largest magnitude of a number. The product of three sizes of a problem, 2**40 each, is below."""

FUNCTIONS: Final = {"min": None, "max": None, "ceil_div": 2}
"""Functions by name, with the number of arguments where it is fixed."""
KEYWORDS: Final = frozenset({"and", "or", "not", "if", "else"})
ALLOWED: Final = (
    "allowed: numbers, + - * // / %, < <= > >= == !=, and or not, x if c else y, "
    "min max ceil_div, and facts such as device.multiprocessors"
)
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    | (?P<number>(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?![\w.]))
    | (?P<mark>//|\*\*|[<>=!]=|[-+*/%<>(),])""",
    re.ASCII | re.VERBOSE,
)
_BINARY: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@attrs.frozen
class Number:
    """A literal."""

    value: int | float


@attrs.frozen
class Name:
    """A fact (``device.multiprocessors``) or a local (``need``)."""

    name: str


@attrs.frozen
class Operation:
    """An operator or function with its operands; ``if`` takes condition, then, else."""

    operator: str
    operands: tuple[Node, ...]


Node = Number | Name | Operation


def number_or_absent(value: object) -> int | float | None:
    """Give a number back when it is one within bounds; anything else is absent."""
    if isinstance(value, int | float) and -LARGEST <= value <= LARGEST:
        return value
    return None


def read(text: str, names: Names, local_names: Collection[str]) -> tuple[str, Node]:
    """Read a text; give it on one line, and its tree.

    Raises
    ------
    XpuConfigError
        The text is not of the language; the message names the part and what is allowed.
    """
    if len(text) > MAX_LENGTH:
        raise XpuConfigError(
            f"expression {clip(text)} has {len(text)} characters; allowed: {MAX_LENGTH}"
        )
    try:
        line = _one_line(text, names, local_names)
        if not line:
            raise XpuConfigError(f"it is empty; {ALLOWED}")
        return line, _translate(_parse(line), line, frozenset(local_names), 1)
    except XpuConfigError as error:
        raise XpuConfigError(f"expression {clip(text)}: {error}") from None


def read_number(value: object) -> tuple[str, Node]:
    """Read a number that stands where an expression may.

    Raises
    ------
    XpuConfigError
        It is no number, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise XpuConfigError(f"an expression is a text or a number, not {type(value).__name__}")
    if number_or_absent(value) is None:
        raise XpuConfigError("a number in an expression lies within 2**128 on either side of 0")
    return repr(value), Number(value)


def clip(text: str) -> str:
    """Show a text on one line, in 60 characters at most."""
    shown = repr(text[:61])
    return shown if len(shown) <= 60 else f"{shown[:56]}…{shown[-1]}"


def _one_line(text: str, names: Names, local_names: Collection[str]) -> str:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            part = re.split(r"\s", text[at:], maxsplit=1)[0] or text[at]
            raise XpuConfigError(f"{clip(part)} is not allowed; {ALLOWED}")
        at = match.end()
        if match.lastgroup == "name":
            _check_name(match.group(), names, local_names)
        tokens.append(" " if match.lastgroup == "space" else match.group())
    return "".join(tokens).strip()


def _check_name(name: str, names: Names, local_names: Collection[str]) -> None:
    if name in KEYWORDS or name in FUNCTIONS or name in local_names:
        return
    if name.count(".") == 1:
        names.check(name)
    elif "." in name:
        raise XpuConfigError(f"{clip(name)} has more than one dot; {ALLOWED}")
    else:
        close = difflib.get_close_matches(name[:60], {*FUNCTIONS, *local_names}, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        more = "".join(f", {local}" for local in sorted(local_names))
        raise XpuConfigError(f"{clip(name)} is not allowed; {hint}{ALLOWED}{more}")


def _parse(line: str) -> ast.expr:
    try:
        return ast.parse(line, mode="eval").body
    except SyntaxError as error:
        start = max((error.offset or 1) - 1, 0)
        part = clip(line[start : start + 20] or line[-20:])
        raise XpuConfigError(f"it cannot be read at {part} ({error.msg}); {ALLOWED}") from None
    except (ValueError, RecursionError, MemoryError):
        raise XpuConfigError(
            f"it is nested too deeply; allowed: {MAX_DEPTH} operations in one another"
        ) from None


def _translate(node: ast.expr, line: str, local_names: frozenset[str], depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise XpuConfigError(
            f"it is nested too deeply; allowed: {MAX_DEPTH} operations in one another"
        )
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if number_or_absent(value) is None:
                raise XpuConfigError("a number in it is too large; allowed: at most 2**128")
            return Number(value)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _translate(operand, line, local_names, depth + 1)
        case ast.Name(id=name) if name in local_names:
            return Name(name)
        case ast.Attribute(value=ast.Name(id=space), attr=name):
            return Name(f"{space}.{name}")
    operator, parts = _operation(node, line)
    operands = tuple(_translate(part, line, local_names, depth + 1) for part in parts)
    if operator == "chain":
        return _chain(node, operands)
    return Operation(operator, operands)


def _operation(node: ast.expr, line: str) -> tuple[str, list[ast.expr]]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)], [left, right]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return "negative", [operand]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return "not", [operand]
        case ast.BoolOp(op=op, values=values):
            return ("and" if isinstance(op, ast.And) else "or"), values
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return "if", [test, body, orelse]
        case ast.Compare(left=left, comparators=comparators):
            return "chain", [left, *comparators]
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if function in FUNCTIONS:
            return function, _arguments(function, args)
    # A slice of the line, not ast.unparse: that recurses, and hostile nesting would break it.
    part = line[node.col_offset : node.end_col_offset]
    raise XpuConfigError(f"{clip(part)} is not allowed; {ALLOWED}")


def _arguments(function: str, args: list[ast.expr]) -> list[ast.expr]:
    wanted = FUNCTIONS[function]
    if len(args) < 2 or (wanted is not None and len(args) != wanted):
        count = "two" if wanted == 2 else "two or more"
        raise XpuConfigError(f"{function} takes {count} arguments, not {len(args)}")
    return args


def _chain(node: Any, operands: tuple[Node, ...]) -> Node:
    steps = tuple(
        Operation(_COMPARISONS[type(op)], operands[index : index + 2])
        for index, op in enumerate(node.ops)
    )
    return steps[0] if len(steps) == 1 else Operation("and", steps)
