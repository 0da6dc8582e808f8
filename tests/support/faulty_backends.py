"""CPU backends in each of which one method is broken, as of authors who are not done yet.

They are imported by worker processes: nothing here may need a test's own modules.
"""

from __future__ import annotations

from typing import Any

import first_party

from xpu.model import DeviceFacts
from xpu.spec import Device, hookimpl

CpuBackend: Any = type(first_party.registry("cpu").backends["cpu"])


def unbound(*_given, **_named):
    raise AttributeError("no such thing")


class Broken(CpuBackend):
    """Its device has `broken` methods that raise."""

    broken: tuple[str, ...] = ()

    def open(self, index=0):
        device = super().open(index)
        for name in self.broken:
            setattr(device, name, unbound)
        return device


class Loads(Broken):
    broken = ("load",)


class Launches(CpuBackend):
    def open(self, index=0):
        device = super().open(index)
        clock = device.timer()  # it launches something itself
        device.timer = lambda: clock
        device.launcher = unbound
        return device


class Reads(Broken):
    broken = ("to_host",)


class Times(Broken):
    broken = ("timer",)


class Identifies(Broken):
    broken = ("identity",)


class Unfinished(Device):
    """It has no method at all."""


class OpensNothing(CpuBackend):
    def open(self, index=0):
        return None


class OpensUnfinished(CpuBackend):
    def open(self, index=0):
        return Unfinished()


class HasNoFacts(CpuBackend):
    def open(self, index=0):
        device = super().open(index)
        del device.facts
        return device


class HasTornFacts(CpuBackend):
    def devices(self):
        return (DeviceFacts(backend="cpu", multiprocessors="many"),)


class Compiles(CpuBackend):
    def compiler(self):
        compiler = super().compiler()
        compiler.compile = lambda units, target, *, deadline_s: None
        return compiler


class Targets(CpuBackend):
    def compiler(self):
        compiler = super().compiler()
        compiler.native_target = unbound
        return compiler


class Plugin:
    """A plugin that brings one of them."""

    def __init__(self, backend):
        self._backend = backend

    @hookimpl
    def xpu_backends(self):
        return [self._backend()]
