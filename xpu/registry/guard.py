"""What plugins bring, at arm's length: a fault in it is one error that names the plugin.

`Registry` hands out stand-ins, and what those give (a device, a compiler, a preparation) is a
stand-in too. What a plugin raises on purpose passes as it is. Whatever else it raises, and a
result that is not what the base class promises, becomes an `XpuPluginError`. A packed launch
and a clock are handed on bare: nothing may stand between a caller and its kernel, and a clock
runs whatever it is given, which may be another plugin's.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

import attrs

from xpu.errors import XpuConfigError, XpuError, XpuPluginError
from xpu.registry.contribution import cause_of
from xpu.registry.promises import broken_promise
from xpu.spec.backend import Backend
from xpu.spec.compiler import Compiler
from xpu.spec.design import Design, Preparation
from xpu.spec.device import Device
from xpu.spec.source import OpenModel, ProblemSource

T = TypeVar("T")
_READERS: Final = (ProblemSource, OpenModel)
_KINDS: Final = (Backend, Compiler, Device, Design, Preparation, *_READERS)
_CONTRACTS: Final = "xpu.spec."
_log = logging.getLogger("xpu")


@attrs.frozen
class Owner:
    """Whose an object is: the plugin, its distribution, and what it brings, for messages."""

    plugin: str
    distribution: str
    brings: str

    def fault(self, what: str) -> XpuPluginError:
        """Return the error that says what is wrong, and what to do about it."""
        return XpuPluginError(
            f"plugin {self.plugin!r} of {self.distribution}: {self.brings}: {what}; mend it there "
            f"(XPU_TRACEBACK=1 shows where), or set XPU_PLUGINS=-{self.plugin} to do without it"
        )


class _StandIn:
    """Passes everything on to a plugin's object, and looks at what comes back."""

    def __init__(self, item: object, owner: Owner) -> None:
        self._xpu_item = item
        self._xpu_owner = owner

    @property  # type: ignore[misc]  # so that it is an instance of what it stands for
    def __class__(self) -> type:
        return type(self._xpu_item)

    def __getattr__(self, name: str) -> Any:
        item = self._xpu_item
        if name.startswith("_"):
            return getattr(item, name)
        try:
            value = getattr(item, name)
            if not callable(value):
                return self._xpu_taken(name, name, (), value)
            method = getattr(value, "__func__", None)
            if method is not None and method.__module__.startswith(_CONTRACTS):
                # Inherited: what it calls in turn is the plugin's, and that is to be named.
                value = functools.partial(method, self)
            return functools.partial(self._xpu_call, name, value)
        except (Exception, SystemExit) as error:
            _blame(self, name, error)
            raise

    def _xpu_call(self, name: str, method: Any, /, *given: Any, **named: Any) -> Any:
        called = f"{name}()"
        try:
            return self._xpu_taken(name, called, given, method(*given, **named))
        except (Exception, SystemExit) as error:
            _blame(self, called, error)
            raise

    def _xpu_taken(self, name: str, shown: str, given: tuple[Any, ...], value: Any) -> Any:
        why = broken_promise(self._xpu_item, name, given, value)
        if why:
            raise fault_of(self, shown, why)
        if isinstance(value, tuple | list) and any(_is_kind(each.__class__) for each in value):
            return tuple(guarded(each, self._xpu_owner) for each in value)
        return guarded(value, self._xpu_owner) if _is_kind(value.__class__) else value


@functools.lru_cache(maxsize=256)
def _is_kind(cls: type) -> bool:
    """Whether what is of a class gets a stand-in; asked of each thing that a plugin gives."""
    return issubclass(cls, _KINDS)


def guarded(item: T, owner: Owner | None) -> T:
    """Return a stand-in for a plugin's object; the object itself where nobody owns it."""
    if owner is None or type(item) is _StandIn:  # a design that gives itself
        return item
    return cast("T", _StandIn(item, owner))


def bare(item: T) -> T:
    """Return what a plugin brought itself, whatever stands in for it."""
    inside: Any = item
    while type(inside) is _StandIn:
        inside = inside._xpu_item
    return cast("T", inside)


def owner_of(item: object) -> Owner | None:
    """Return whose an object is; None where that is not known."""
    return item._xpu_owner if type(item) is _StandIn else None


def fault_of(item: object, name: str, why: str) -> XpuPluginError:
    """Return the error that something of a plugin's object is not as it must be."""
    owner = owner_of(item)
    what = f"{type(bare(item)).__name__}.{name} {why}"
    return XpuPluginError(what) if owner is None else owner.fault(what)


@contextmanager
def blaming(item: object, name: str) -> Iterator[None]:
    """Blame the plugin of an object for what is raised here, as a call of the object does."""
    try:
        yield
    except (Exception, SystemExit) as error:
        _blame(item, name, error)
        raise


def _blame(item: object, name: str, error: BaseException) -> None:
    """Raise the error that names the plugin, but for what is no fault of it."""
    if owner_of(item) is None or _is_nobodys(item, error):
        return
    fault = fault_of(item, name, f"raised {cause_of(error)}")
    if os.environ.get("XPU_TRACEBACK") == "1":
        # Told here: where it costs one member or one problem, it ends as a note.
        _log.warning("%s", fault, exc_info=error)
    raise fault from error


def _is_nobodys(item: object, error: BaseException) -> bool:
    """Whether a plugin raised on purpose, or what was asked of it does not fit in memory."""
    # A fact that is none is an XpuConfigError too; only a reader has a user's file to refuse.
    if isinstance(error, XpuConfigError):
        return isinstance(item, _READERS)
    return isinstance(error, XpuError | MemoryError)
