"""What the measuring designs share: sources by name, launches in one dimension, sizes of a part."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts, Member, Problem
from xpu.spec import CalibrationDesign, KernelSource, Launch

HOST: Final = "c"
SIMT: Final = "simt"
_SUFFIXES: Final = {HOST: ".c", SIMT: ".cpp"}
_ABSENT_LANES: Final = 1024
"""Lanes of a multiprocessor where the facts do not say: what every part with blocks allows, and
more than a core of a host has in flight."""


class MeasuringDesign(CalibrationDesign):
    """A measuring kernel with a source of its name in each of its dialects."""

    kernel: str
    """Name of its source; two designs may share one."""

    spoken: tuple[str, ...] = (HOST, SIMT)

    def dialects(self) -> tuple[str, ...]:
        """Name the dialects that there is a source in."""
        return self.spoken

    def source(self, dialect: str) -> KernelSource:
        """Return the kernel."""
        if dialect not in self.spoken:
            raise XpuConfigError(
                f"design {self.name!r} has no source in dialect {dialect!r}, only in "
                f"{', '.join(self.spoken)}"
            )
        folder = resources.files("xpu_probe_calibration") / "kernels" / dialect
        text = (folder / f"{self.kernel}{_SUFFIXES[dialect]}").read_text("utf-8")
        return KernelSource(dialect, text)

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return a block for every share of the work; the host's workers take theirs."""
        if dialect == HOST:
            return Launch()
        blocks = self.threads(member, problem) // member["threads"]
        return Launch((max(blocks, 1), 1, 1), (member["threads"], 1, 1))

    def threads(self, member: Mapping[str, int], problem: Problem) -> int:
        """Return how many threads share the work of a launch."""
        return 1


def shape(name: str, dialect: str, **parameters: int) -> Member:
    """Return a member of one dialect."""
    return Member(name, parameters, (dialect,))


def lanes(facts: DeviceFacts, grain: int) -> int:
    """Return the threads that a device holds at once, rounded up to a grain."""
    held = (facts.multiprocessors or 1) * (facts.max_threads_per_multiprocessor or _ABSENT_LANES)
    return -(-held // grain) * grain
