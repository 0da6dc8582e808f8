"""Where a design's host code launches a kernel, and with which block.

The code is read and folded, never run: a block that is known for a member whatever the
problem, is known here. Whoever makes units by the hundred keeps what was found, for members of
many families are launched alike. Called where units are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import attrs

from xpu.adaptor.likeness import likeness, likeness_of_owner
from xpu.folding import (
    UNKNOWN,
    Folder,
    LaunchValue,
    Parameters,
    alternatives,
    host_code,
    is_known,
    joined,
)
from xpu.model import LAUNCH_RECORDS, Constant
from xpu.spec import Design, KernelSource, Launch, Preparation


@attrs.frozen
class FoundSite:
    """A launch in host code: where, whether it states a block, and the threads of that.

    `threads` is None where they depend on the problem, and where there is no block.
    """

    where: str
    threads: int | None
    has_block: bool = True


FoundSites = dict[Any, tuple[FoundSite, ...]]
"""What was found, by the class and the attributes of what launches and by what it is given.

Good as long as modules of plugins, and objects in attributes, stay as they are: for a batch."""


def member_sites(
    design: Design,
    source: KernelSource,
    dialect: str,
    parameters: Mapping[str, int],
    known: FoundSites | None = None,
) -> tuple[FoundSite, ...]:
    """Return where a member's kernel is launched.

    `design` is as its family's constants make it, and the plugin's own object. `known` is what
    was found before, and is added to.
    """
    member = Parameters(parameters, frozenset(LAUNCH_RECORDS))
    if source.launch is not None:
        return _known(known, source.launch, design, member, UNKNOWN)
    return _known(known, design.launch, design, dialect, member, UNKNOWN)


def preparation_sites(
    preparation: Preparation,
    dialect: str,
    constants: Mapping[str, Constant],
    known: FoundSites | None = None,
) -> tuple[FoundSite, ...]:
    """Return where a preparing kernel is launched; `known` as `member_sites` has it."""
    return _known(known, preparation.launch, preparation, dialect, UNKNOWN, constants)


def _known(
    known: FoundSites | None, launch: Callable[..., Any], owner: object, *given: Any
) -> tuple[FoundSite, ...]:
    """Return the sites of a launch function, from what is known where they are there."""
    if known is None:
        return _sites(launch, owner, *given)
    is_own = isinstance(launch, MethodType) and launch.__self__ is owner
    function = likeness(getattr(launch, "__func__", launch) if is_own else launch)
    key = (function, is_own, likeness_of_owner(owner), likeness(given))
    if key not in known:
        known[key] = _sites(launch, owner, *given)
    return known[key]


def _sites(launch: Callable[..., Any], owner: object, *given: Any) -> tuple[FoundSite, ...]:
    function: Any = launch
    arguments: list[Any] = list(given)
    if isinstance(function, MethodType):
        function, arguments = function.__func__, [function.__self__, *arguments]
    if not isinstance(function, FunctionType):
        return (FoundSite(f"{type(owner).__module__}.{type(owner).__qualname__}", None),)
    folder = Folder(_packages(type(owner), function))
    found: list[FoundSite] = []
    for value in alternatives(folder.fold(function, arguments)):
        if isinstance(value, LaunchValue):
            found.extend(_of_blocks(value.where, value.block))
        elif isinstance(value, Launch):  # it was made elsewhere, before any call
            found.extend(_of_blocks(host_code.where(function), value.block))
        else:
            found.append(FoundSite(host_code.where(function), None))
    return tuple(dict.fromkeys(found))


def _packages(cls: type, function: FunctionType) -> frozenset[str]:
    """Name the packages of a class and of its bases: what it inherits launches for it."""
    modules = (*(base.__module__ for base in cls.__mro__), function.__module__ or "")
    return frozenset(module.partition(".")[0] for module in modules) - {"builtins", "abc"}


def _of_blocks(where: str, block: Any) -> list[FoundSite]:
    """Return a site for each block that a launch may have."""
    found = []
    for each in alternatives(_whole(block)):
        is_block = isinstance(each, tuple | list) and all(type(size) is int for size in each)
        threads = math.prod(each) if is_block else None
        found.append(FoundSite(where, threads, has_block=each is not None))
    return found


def _whole(block: Any) -> Any:
    """Return a block whose sizes may each be one of several as one of several blocks."""
    if not isinstance(block, tuple | list) or is_known(block):
        return block
    made: list[tuple[Any, ...]] = [()]
    for size in block:
        made = [(*start, each) for start in made for each in alternatives(size)]
    return joined(made)
