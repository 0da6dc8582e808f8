"""From a tree to straight-line Python: one assignment for each distinct operation.

A tree walked at every evaluation costs several microseconds a rule; 1,000 candidates under
all rules have 20 ms. So a rule set becomes one flat function. Equal operations are computed
once, across all expressions that an emitter was given, and those that rest on nothing that
varies go to a part that runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from xpu.expressions.grammar import LARGEST, Name, Node, Number, number_or_absent

Load = Callable[[str], tuple[str, bool]]
"""Gives, for a name, the Python source that reads it, and whether it varies between calls."""


@attrs.frozen
class Value:
    """An operand in generated source: its text, and what is known of it."""

    text: str
    varies: bool = False
    may_be_absent: bool = True


class Emitter:
    """Collects the assignments of one generated function.

    Parameters
    ----------
    load
        How to read a name that is not a local.

    Attributes
    ----------
    fixed, varying
        Lines of source: those that can run once, and those for every call after them.
    """

    def __init__(self, load: Load) -> None:
        self.fixed: list[str] = []
        self.varying: list[str] = []
        self._load = load
        self._known: dict[str, Value] = {}

    def emit(self, node: Node, local_values: Mapping[str, Value] | None = None) -> Value:
        """Append what computes a tree, and return where its value is."""
        local_values = local_values or {}
        if isinstance(node, Number):
            return Value(repr(node.value), may_be_absent=False)
        if isinstance(node, Name):
            return local_values.get(node.name) or self.assign(*self._load(node.name))
        values = [self.emit(operand, local_values) for operand in node.operands]
        if node.operator in _FOLDED:
            folded = values[0]
            for value in values[1:]:
                folded = self._apply(node.operator, folded, value)
            return folded
        return self._apply(node.operator, *values)

    def _apply(self, operator: str, *values: Value) -> Value:
        return self.assign(_SOURCES[operator](*values), any(value.varies for value in values))

    def assign(self, source: str, varies: bool) -> Value:
        """Append an assignment of `source`, unless its value is at hand already."""
        known = self._known.get(source)
        if known is None:
            known = self._known[source] = Value(f"t{len(self._known)}", varies)
            (self.varying if varies else self.fixed).append(f"{known.text} = {source}")
        return known


def compile_source(lines: list[str], name: str, result: str) -> Any:
    """Run generated lines and return what they define under a name.

    Source: the lines come from an `Emitter` and fixed templates, hence hold numbers, checked
    names and operators only.
    """
    space: dict[str, Any] = {"number": number_or_absent}
    exec(compile("\n".join(lines), f"<{name}>", "exec"), space)  # noqa: S102 - see Source above
    return space[result]


def _bounded(source: str) -> str:
    """Return source that is absent where the number that `source` gives is out of bounds."""
    return f"(x if -{LARGEST} <= (x := {source}) <= {LARGEST} else None)"


def _present(*values: Value) -> str:
    checks = [f"{value.text} is not None" for value in values if value.may_be_absent]
    return " and ".join(checks) or "True"


def _arithmetic(operator: str) -> Callable[[Value, Value], str]:
    def source(a: Value, b: Value) -> str:
        result = _bounded(f"{a.text} {operator} {b.text}")
        return f"{result} if {_present(a, b)} else None"

    return source


def _division(form: str) -> Callable[[Value, Value], str]:
    def source(a: Value, b: Value) -> str:
        # An absent divisor and a divisor of 0 are both false: both make the quotient absent.
        result = _bounded(form.format(a=a.text, b=b.text))
        return f"{result} if {b.text} and {_present(a)} else None"

    return source


def _comparison(operator: str) -> Callable[[Value, Value], str]:
    return lambda a, b: f"{a.text} {operator} {b.text} if {_present(a, b)} else None"


def _logic(decides: bool) -> Callable[[Value, Value], str]:
    def source(a: Value, b: Value) -> str:
        sign = "" if decides else "not "
        decided = " or ".join(f"({_present(v)} and {sign}{v.text})" for v in (a, b))
        rest = f"{not decides} if {_present(a, b)} else None"
        return f"{decides} if {decided} else ({rest})"

    return source


def _extreme(comparison: str) -> Callable[[Value, Value], str]:
    def source(a: Value, b: Value) -> str:
        chosen = f"({a.text} if {a.text} {comparison} {b.text} else {b.text})"
        return f"{b.text} if not ({_present(a)}) else {a.text} if not ({_present(b)}) else {chosen}"

    return source


_FOLDED: Final = frozenset({"and", "or", "min", "max"})
_SOURCES: Final[dict[str, Callable[..., str]]] = {
    **{operator: _arithmetic(operator) for operator in ("+", "-", "*")},
    **{operator: _division(f"{{a}} {operator} {{b}}") for operator in ("/", "//", "%")},
    "ceil_div": _division("-(-{a} // {b})"),
    **{operator: _comparison(operator) for operator in ("<", "<=", ">", ">=", "==", "!=")},
    "and": _logic(False),
    "or": _logic(True),
    "not": lambda a: f"not {a.text} if {_present(a)} else None",
    "negative": lambda a: f"-{a.text} if {_present(a)} else None",
    "if": lambda c, a, b: f"({a.text} if {c.text} else {b.text}) if {_present(c)} else None",
    "min": _extreme("<="),
    "max": _extreme(">="),
}
