"""What a plugin supplies to measure a device as a whole: a design whose pace is a figure."""

from __future__ import annotations

from abc import abstractmethod

from xpu.model import DeviceFacts, Member, Problem
from xpu.spec.design import Design


class CalibrationDesign(Design):
    """A design that is timed for what its pace says of the device.

    It brings its own members; no configuration names it, and nothing is ever bound to it. A
    calibration checks every member against `verify`, times them on problems that grow, and
    takes the fastest.

    Attributes
    ----------
    figure
        What it measures, one of `xpu.model.FIGURES`.
    loaded_figure
        What the same is while the host's cores stream through memory; None: that is not asked.
    members
        Its shapes.
    memory
        ``warm`` or ``cold``, as for a trial.
    """

    figure: str
    loaded_figure: str | None = None
    members: tuple[Member, ...]
    memory: str = "warm"

    @abstractmethod
    def sized(self, facts: DeviceFacts, step: int) -> Problem | None:
        """Return a problem to time on a device with these facts.

        Step 0 is as small as can be: code that has never run is tried on it first, and a
        launch of it stands for one of nothing. Each further one fills the device and makes a
        launch about four times as long; a calibration goes on until a launch is long beside
        what launching costs. None: there is no longer one whose arrays take an eighth of the
        device's memory or less, which is what a trial takes.
        """

    def value(self, problem: Problem, launch_ns: float) -> float:
        """Return the figure that a launch of so many nanoseconds shows.

        As inherited, operations a second.
        """
        return self.operations(problem) / launch_ns * 1e9
