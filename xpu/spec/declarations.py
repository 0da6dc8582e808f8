"""Declarations: what only the author of a kernel knows, said by decorators on its design.

Each adds to `Design.declared`, which subclasses inherit; `occupancy`, `wave` and `fast_math`
also stand on a `Preparation`. A value is a whole number or a text: an expression over
``member.*`` that is constant for each member. The compile step evaluates it and holds it
against the source, and against what the compiler made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import attrs

from xpu.model import (
    LOWERING_GATES,
    PREPARATION,
    Declarations,
    Gate,
    Member,
    Unbounded,
    Unlowered,
    Value,
    nearest,
)
from xpu.spec.design import Design, Preparation

C = TypeVar("C", bound=type)


def occupancy(
    *, max_threads: Value | None = None, max_waves: Value | None = None
) -> Callable[[C], C]:
    """Declare the most threads, or the most waves, of a block in any launch.

    A launch whose block depends on the problem is bounded by it, and the kernel is compiled for
    it where it is more than host code shows. A launch that is known to be larger fails the build.

    Raises
    ------
    TypeError
        Neither or both are given, or one is no whole number of 1 or more and no text.
    """
    if (max_threads is None) == (max_waves is None):
        raise TypeError("@occupancy takes max_threads=… or max_waves=…, one of them")
    for name, value in (("max_threads", max_threads), ("max_waves", max_waves)):
        if value is not None:
            _value("@occupancy", name, value)
    return _declare(
        "@occupancy",
        lambda before: attrs.evolve(before, max_threads=max_threads, max_waves=max_waves),
    )


def wave(*, width: Value) -> Callable[[C], C]:
    """Declare the width of a wave, in lanes, that the kernel's indexing assumes.

    Its members are refused for targets whose waves have another width.

    Raises
    ------
    TypeError
        The width is no whole number of 1 or more and no text.
    """
    checked = _value("@wave", "width", width)
    return _declare("@wave", lambda before: attrs.evolve(before, wave=checked))


def fast_math(cls: C) -> C:
    """Allow the compiler to reassociate, to approximate division and square roots and to flush.

    NaN and infinities stay what they are.
    """
    declared: C = _declare("@fast_math", lambda before: attrs.evolve(before, fast_math=True))(cls)
    return declared


def instantiate(
    name: str, *, dialects: Collection[str] | None = None, **parameters: int
) -> Callable[[C], C]:
    """Declare a shape that every family of the design has.

    As a member in the lowest layer of configuration: a file replaces it by its name, or adds
    others behind it. Decorators that stand below come first.

    Raises
    ------
    TypeError
        A parameter is no whole number of 0 or more, or the name is the weight preparation's.
    """
    if name == PREPARATION:
        raise TypeError(
            f"@instantiate({name!r}): this names the weight preparation wherever a member is "
            "named; give the shape another name"
        )
    for key, value in parameters.items():
        if type(value) is not int or value < 0:
            raise TypeError(f"@instantiate({name!r}): {key} is a whole number, not {value!r}")
    member = Member(name, parameters, None if dialects is None else tuple(dialects))

    def add(before: Declarations) -> Declarations:
        if any(each.name == name for each in before.members):
            raise TypeError(f"@instantiate({name!r}) stands twice; give each shape its own name")
        return attrs.evolve(before, members=(*before.members, member))

    return _declare("@instantiate", add, Design)


def requires(expression: str) -> Callable[[C], C]:
    """Declare what holds for every member of every family of the design.

    Raises
    ------
    TypeError
        It is no text.
    """
    text = _text("@requires", "expression", expression)
    return _declare(
        "@requires", lambda before: attrs.evolve(before, requires=(*before.requires, text)), Design
    )


def unlowered(
    item: str,
    backend: str,
    *,
    gate: Gate = "no-code",
    targets: Collection[str] = (),
    members: Collection[str] = (),
    compilers: Collection[str] = (),
) -> Callable[[C], C]:
    """Declare what a backend does not lower as it should, by the plan item that tracks it.

    The gate then passes the build; once its cause is gone, the declaration itself fails it.
    See `xpu.model.Unlowered`.

    Raises
    ------
    TypeError
        Item or backend are no texts, or no gate of that name can be tracked so.
    """
    if gate not in LOWERING_GATES:
        raise TypeError(f"@unlowered: found the gate {gate!r}; {nearest(gate, LOWERING_GATES)}")
    made = Unlowered(
        _text("@unlowered", "item", item),
        _text("@unlowered", "backend", backend),
        gate,
        tuple(targets),
        tuple(members),
        tuple(compilers),
    )
    return _declare(
        "@unlowered", lambda one: attrs.evolve(one, unlowered=(*one.unlowered, made)), Design
    )


def unbounded(item: str, *, members: Collection[str] = ()) -> Callable[[C], C]:
    """Declare that a launch's block is not known before the problem, by what tracks it.

    Raises
    ------
    TypeError
        The item is no text.
    """
    made = Unbounded(_text("@unbounded", "item", item), tuple(members))
    return _declare(
        "@unbounded", lambda one: attrs.evolve(one, unbounded=(*one.unbounded, made)), Design
    )


def _declare(
    name: str, add: Callable[[Declarations], Declarations], *wanted: type
) -> Callable[[C], C]:
    kinds = wanted or (Design, Preparation)

    def decorate(cls: C) -> C:
        if not isinstance(cls, type) or not issubclass(cls, kinds):
            named = " or a ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} stands on a {named}, not on {cls!r}")
        owner: Any = cls
        owner.declared = add(owner.declared)
        return cls

    return decorate


def _value(decorator: str, name: str, value: object) -> Value:
    if isinstance(value, str) and value.strip():
        return value
    if type(value) is int and value >= 1:
        return value
    raise TypeError(
        f"{decorator}: {name} is a whole number of 1 or more, or an expression over member.* in "
        f"quotes, not {value!r}"
    )


def _text(decorator: str, name: str, value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise TypeError(f"{decorator}: {name} is a text that is not empty, not {value!r}")
