"""What a hook gives back is looked at before anything relies on it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from xpu.errors import XpuConfigError
from xpu.expressions import Expression, Names, constant_expression
from xpu.model import MEMBER_PARAMETERS, nearest
from xpu.spec.backend import Backend
from xpu.spec.design import Design, KernelSource
from xpu.spec.probe import Probe
from xpu.spec.source import ProblemSource

# The class of each hook's items, the attributes that are texts, and those that are
# sequences of texts: the base classes only announce them.
_WANTED: Final[dict[str, tuple[type, tuple[str, ...], tuple[str, ...]]]] = {
    "xpu_backends": (Backend, ("name", "dialect"), ("further_facts",)),
    "xpu_designs": (Design, ("name",), ("parameters", "problem")),
    "xpu_probes": (Probe, ("name", "summary"), ()),
    "xpu_problem_sources": (ProblemSource, ("name",), ()),
    "xpu_kernel_sources": (KernelSource, ("dialect", "design"), ()),
}


def checked_items(hook: str, results: Iterable[object]) -> tuple[Any, ...]:
    """Return everything that a plugin's hook gave, each item checked.

    Parameters
    ----------
    hook
        Its name, for messages.
    results
        What each implementation in the plugin returned; an iterable each.

    Raises
    ------
    TypeError
        A result is not an iterable, or an item is not what the hook promises.
    FileNotFoundError
        A configuration file is not there.
    """
    items: list[object] = []
    for result in results:
        if isinstance(result, str | bytes) or not isinstance(result, Iterable):
            raise TypeError(f"{hook} returned {shown(result)}, not a list of {_kind(hook)}")
        items.extend(result)
    if hook == "xpu_config":
        return tuple(_config_file(item) for item in items)
    return tuple(_checked(hook, item) for item in items)


def _kind(hook: str) -> str:
    return _WANTED[hook][0].__name__ if hook in _WANTED else "Path"


def shown(value: object) -> str:
    """Write a value for a message, cut where it is long."""
    text = repr(value)
    return f"{text[:77]}..." if len(text) > 80 else text


def _config_file(item: object) -> Path:
    if not isinstance(item, str | os.PathLike):
        raise TypeError(f"xpu_config gave {shown(item)}, which is not a Path")
    path = Path(os.fspath(item))
    if not path.is_file():
        raise FileNotFoundError(f"xpu_config gave {path}, and there is no such file")
    return path


def _checked(hook: str, item: object) -> object:
    wanted, texts, sequences = _WANTED[hook]
    if not isinstance(item, wanted):
        raise TypeError(f"{hook} gave {shown(item)}, which is not a {wanted.__name__}")
    for attribute in texts:
        value = getattr(item, attribute, None)
        if not isinstance(value, str) or not value.strip():
            raise TypeError(f"{_where(hook, item)}: {attribute} is {shown(value)}, not a text")
    for attribute in sequences:
        _texts(getattr(item, attribute, None), f"{_where(hook, item)}: {attribute}")
    if isinstance(item, Design):
        _check_declared(item, _where(hook, item))
        _texts(item.dialects(), f"{_where(hook, item)}: dialects()")
    if isinstance(item, KernelSource):
        _check_added(item, _where(hook, item))
    return item


def _check_declared(design: Design, where: str) -> None:
    """Check that what decorators declare is constant for a member, and can be read."""
    declared = design.declared
    allowed = MEMBER_PARAMETERS.union(design.parameters)
    for name in ("max_threads", "max_waves", "wave"):
        value = getattr(declared, name)
        if value is not None:
            try:
                constant_expression(value, allowed)
            except XpuConfigError as error:
                raise TypeError(f"{where}: declared {name}: {error}") from None
    names = Names(device=(), kernel=(), member=allowed, problem=())
    for text in declared.requires:
        try:
            Expression(text, names)
        except XpuConfigError as error:
            raise TypeError(f"{where}: @requires: {error}") from None
    for member in declared.members:
        for parameter in member.parameters.keys() - allowed:
            raise TypeError(
                f"{where}: @instantiate({member.name!r}): {nearest(parameter, allowed)}"
            )


def _check_added(source: KernelSource, where: str) -> None:
    added = source.preparation
    if added is not None and not isinstance(added, KernelSource):
        raise TypeError(f"{where}: preparation is {shown(added)}, not a KernelSource or None")
    if added is not None and added.dialect != source.dialect:
        raise TypeError(
            f"{where}: its preparation is in dialect {added.dialect!r}, not {source.dialect!r}"
        )
    if source.launch is not None and not callable(source.launch):
        raise TypeError(f"{where}: launch is {shown(source.launch)}, not a function or None")


def _where(hook: str, item: object) -> str:
    return f"{hook} gave a {type(item).__name__}"


def _texts(value: object, what: str) -> None:
    if not isinstance(value, tuple | list) or not all(isinstance(text, str) for text in value):
        raise TypeError(f"{what} is {shown(value)}, not a tuple of texts")
