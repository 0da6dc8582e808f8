"""A rule set as one generated function.

Everything that rests on the device and the problem alone runs once for a filter; the rest
is straight-line code that runs once for each candidate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.expressions import LARGEST, Emitter, Expression, Names, Value, compile_source
from xpu.model import KERNEL_FACT_NAMES, Figure, KernelFacts, Rule

Read = Callable[[str], Any]
Judge = Callable[[Read, KernelFacts], tuple[int, Figure, Figure, Mapping[str, Figure]]]
"""Takes a reader of parameters and kernel facts; gives the number of the rule that prunes
(-1 for a survivor), its need and limit, and the records of all rules."""
Bind = Callable[[Read, Read], Judge]
"""Takes readers of the device's facts and of the problem's sizes."""

SURVIVES: Final = -1
_LOCALS: Final = ("need", "limit")
# A kernel fact is read as an attribute, so it must exist; the other namespaces are open here:
# what a configuration may say of them was checked when it was read.
_NAMES: Final = Names(kernel=KERNEL_FACT_NAMES)


@attrs.frozen
class _Emitted:
    prune: Value | None
    need: Value
    limit: Value
    records: Mapping[str, Value]


def bind_rules(rules: tuple[Rule, ...], device: Read, problem: Read) -> Judge:
    """Return the function that judges candidates for a device and a problem.

    Raises
    ------
    XpuConfigError
        An expression of a rule is not acceptable; the message names rule and key.
    """
    return _compiled(_Identity(rules))(device, problem)


class _Identity:
    """A rule tuple as a cache key: the same object, not an equal one. It keeps it alive."""

    __slots__ = ("rules",)

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules

    def __hash__(self) -> int:
        return id(self.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.rules is self.rules


@functools.lru_cache(maxsize=32)
def _compiled(key: _Identity) -> Bind:
    emitter = Emitter(_load)
    emitted = [_emit(emitter, rule) for rule in key.rules]
    records = {name: value for each in emitted for name, value in each.records.items()}
    shown = ", ".join(f"{name!r}: {value.text}" for name, value in records.items())
    verdicts = [
        f"if {each.prune.text}: return {index}, {each.need.text}, {each.limit.text}, records"
        for index, each in enumerate(emitted)
        if each.prune is not None
    ]
    judge = [
        *emitter.varying,
        f"records = {{{shown}}}",
        *verdicts,
        f"return {SURVIVES}, None, None, records",
    ]
    lines = [
        "def bind(device, problem):",
        *(f"    {line}" for line in emitter.fixed),
        "    def judge(member, kernel):",
        *(f"        {line}" for line in judge),
        "    return judge",
    ]
    bind: Bind = compile_source(lines, "rules", "bind")
    return bind


def _emit(emitter: Emitter, rule: Rule) -> _Emitted:
    need, limit = (
        emitter.assign("None", False)
        if source is None
        else emitter.emit(_expression(rule, key, source, ()).tree)
        for key, source in (("need", rule.need), ("limit", rule.limit))
    )
    values = {"need": need, "limit": limit}
    prune = None
    if rule.prune_when is not None:
        tree = _expression(rule, "prune_when", rule.prune_when, _LOCALS).tree
        prune = emitter.emit(tree, values)
    records = {
        name: emitter.emit(_expression(rule, f"records.{name}", source, _LOCALS).tree, values)
        for name, source in rule.records.items()
    }
    return _Emitted(prune, need, limit, records)


def _expression(
    rule: Rule, key: str, source: str | int | float, local_names: tuple[str, ...]
) -> Expression:
    try:
        return Expression(source, _NAMES, local_names)
    except XpuConfigError as error:
        raise XpuConfigError(f"rules.{rule.id}.{key} ({rule.title}): {error}") from None


# A parameter or kernel fact is a whole number of any size, or absent.
_WHOLE: Final = f"(v if (v := {{source}}) is None or -{LARGEST} <= v <= {LARGEST} else None)"
_LAUNCH: Final = {
    "launch.threads": ("kernel.pinned_block if member('threads') is None else member('threads')"),
    # An absent part counts 0; when both are absent, so is the sum.
    "launch.shared_bytes": (
        "v if (v := member('dynamic_shared_bytes')) is None and kernel.static_shared_bytes is None"
        " else (v or 0) + (kernel.static_shared_bytes or 0)"
    ),
}


def _load(name: str) -> tuple[str, bool]:
    space, _, fact = name.partition(".")
    match space:
        case "launch":
            return _WHOLE.format(source=f"({_LAUNCH[name]})"), True
        case "member":
            return _WHOLE.format(source=f"member({fact!r})"), True
        case "kernel":
            return _WHOLE.format(source=name), True
        case _:
            return f"number({space}({fact!r}))", False
