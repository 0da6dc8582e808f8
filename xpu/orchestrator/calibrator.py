"""Measures a device as a whole: what it can do at most, and what using it costs.

The kernels are designs that plugins bring (`xpu.spec.CalibrationDesign`): they are built, tried
in a worker process, checked against their reference and timed as the members of any family.
Nothing is kept here; the command line does that.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import attrs

from xpu.choice import Packer
from xpu.choice.foreign_load import LoadWatch, load_percent
from xpu.errors import XpuLaunchException
from xpu.measure import host_load
from xpu.model import CalibrationKey, Family, Problem
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.trials import Trials
from xpu.probes.runner import reason_of
from xpu.spec import CalibrationDesign, Device
from xpu.store import device_key

if TYPE_CHECKING:
    import numpy as np

LONG_NS: Final = 250_000.0
"""A launch of so many nanoseconds is long enough: what begins and ends it, a few microseconds
on every known part, is then about one percent."""

LAUNCHES_LONG: Final = 50
"""And so many times what a launch costs, where that is more: two percent."""

_Task = Callable[[], "Iterator[Measurement]"]
_MOST_STEPS: Final = 16
_CALLS: Final = 20
_SAMPLES: Final = 15


_STEP_NS: Final = 1.0
"""Least that the host's clock can tell. Source: `time.perf_counter_ns`."""


@attrs.frozen
class Measurement:
    """One figure; `value` is None where it could not be measured, and `note` says why.

    Of one that was measured, `note` says how.
    """

    figure: str
    value: float | None
    note: str


class Calibrator:
    """Measures one device."""

    def __init__(self, assembly: Assembly, trials: Trials, device: Device) -> None:
        self._assembly = assembly
        self._trials = trials
        self._device = device

    @property
    def key(self) -> CalibrationKey:
        """What the figures of this device hold for."""
        identity, facts = self._device.identity(), self._device.facts
        return CalibrationKey(
            device=f"{facts.name or facts.architecture or facts.backend}, {device_key(facts)}",
            driver=identity.get("driver") or facts.driver_version or "",
            compiler=self._assembly.adaptor.identity,
            power=identity.get("power", ""),
        )

    @property
    def designs(self) -> tuple[CalibrationDesign, ...]:
        """The designs that measure something here: with a source and members in the dialect."""
        registry, dialect = self._assembly.registry, self._assembly.dialect
        return tuple(
            design
            for design in registry.designs.values()
            if isinstance(design, CalibrationDesign)
            and registry.source_for(design.name, dialect) is not None
            and any(member.speaks(dialect) for member in design.members)
        )

    def measure(self) -> Iterator[Measurement]:
        """Measure everything, and yield each figure as it comes; of one that fails, why."""
        found: dict[str, float] = {}
        for figures, measure in self._tasks(found):
            for one in self._or_why(figures, measure):
                if one.value is not None:
                    found[one.figure] = one.value
                yield one
        rate, latency = found.get("read_bytes_per_s"), found.get("latency_ns")
        if rate is not None and latency is not None:
            note = "reading rate times latency (Little's law)"
            yield Measurement("bytes_in_flight", rate * latency * 1e-9, note)

    def _tasks(self, found: Mapping[str, float]) -> Iterator[tuple[list[str], _Task]]:
        """Yield what there is to measure: figures, and what gives them."""
        for design in self.designs:
            if design.figure == "copy_bytes_per_s":
                yield ["launch_ns", "clock_ns"], partial(self._costs, design)
        for design in self.designs:
            figures = [design.figure, *filter(None, [design.loaded_figure])]
            yield figures, partial(self._pace, design, found.get("launch_ns", 0.0))
        yield ["queue_ns"], self._queues

    def _or_why(self, figures: list[str], measure: _Task) -> Iterator[Measurement]:
        missing = list(figures)
        watch = LoadWatch(self._device.foreign_load)
        try:
            watch.sample()
            for one in measure():
                watch.sample()
                if watch.is_contended:
                    percent = load_percent(watch.largest or 0.0)
                    raise XpuLaunchException(
                        f"{percent} % of the device was held by others; run again when it is quiet"
                    )
                missing.remove(one.figure)
                yield one
        except Exception as error:
            # One kernel that fails, whoever wrote it, must not cost the other figures.
            for figure in missing:
                yield Measurement(figure, None, " ".join(reason_of(error).split()))

    def _queues(self) -> Iterator[Measurement]:
        queue_ns = self._device.queue_ns()
        if queue_ns is not None:
            yield Measurement("queue_ns", queue_ns, "as the backend measures it")

    def _pace(self, design: CalibrationDesign, launch_ns: float) -> Iterator[Measurement]:
        enough = max(LONG_NS, LAUNCHES_LONG * launch_ns)
        problem: Problem | None = None
        for step in range(_MOST_STEPS):
            larger = design.sized(self._device.facts, step)
            if larger is None:
                break
            best_ns, member = self._best(design, larger)
            problem = larger if step else None
            if step and best_ns >= enough:
                break
        if problem is None:
            raise XpuLaunchException("the device has too little memory to measure it")
        yield Measurement(design.figure, design.value(problem, best_ns), f"{member}, {problem.key}")
        if design.loaded_figure is not None:
            with host_load():
                best_ns, member = self._best(design, problem)
            value = design.value(problem, best_ns)
            yield Measurement(design.loaded_figure, value, f"{member}, {problem.key}")

    def _best(self, design: CalibrationDesign, problem: Problem) -> tuple[float, str]:
        """Return the least median of a launch, and whose it is.

        Raises
        ------
        XpuLaunchException
            No member ran and was right; the message says why of each.
        """
        assembled = self._assembled(design, problem)
        members = [*self._trials.timed(assembled, design.memory), *assembled.filter.aside]
        good = [
            (one.median_ns, one.name)
            for one in members
            if one.median_ns is not None and one.status in ("survivor", "left")
        ]
        if good:
            return min(good)
        whys = [f"{one.name}: {one.status} ({one.note})" for one in members]
        whys += [str(verdict) for verdict in assembled.filter.pruned]
        raise XpuLaunchException(f"no member of {design.name} can run: {'; '.join(whys)}")

    def _assembled(self, design: CalibrationDesign, problem: Problem) -> Assembled:
        members = design.members
        family = Family(design.name, design.name, design.problem, members=members, cap=len(members))
        return self._assembly.assemble(family, problem)

    def _costs(self, design: CalibrationDesign) -> Iterator[Measurement]:
        """Measure what a launch and a bracket cost, with the least that the device can do."""
        problem = design.sized(self._device.facts, 0)
        if problem is None:
            raise XpuLaunchException(f"{design.name} has no problem for this device")
        _, member = self._best(design, problem)
        launch, _kept = self._launch(self._assembled(design, problem), member)
        note = f"{member}, {problem.key}"
        yield Measurement("launch_ns", self._queued_ns(launch, _CALLS), note)
        tier = self._trials.timer.tier
        bracket_ns = _median_ns(lambda: tier.bracket_ns((launch,)))
        cost_ns = bracket_ns - self._queued_ns(launch, 1)
        # A clock that takes its own cost off may seem to cost nothing, or less.
        yield Measurement("clock_ns", max(cost_ns, _STEP_NS), f"{tier.name}, {note}")

    def _queued_ns(self, launch: Callable[[], None], count: int) -> float:
        """Return host nanoseconds of one launch, of so many one after another."""

        def run() -> None:
            for _ in range(count):
                launch()
            self._device.synchronize()

        return _median_ns(run) / count

    def _launch(self, assembled: Assembled, member: str) -> tuple[Callable[[], None], object]:
        """Return a packed launch, and the arrays that it runs on, which whoever calls it keeps."""
        import numpy as np

        device, design, problem = self._device, assembled.design, assembled.problem
        inputs = design.data(problem, {}, np.random.default_rng())
        shapes = design.shapes(problem, {})
        buffers = [
            device.from_host(_given(inputs.get(each.name), shapes[each.name], each.dtype))
            for each in design.arguments
        ]
        pack, stream = Packer(device, assembled.arm(member)), self._trials.timer.tier.stream
        return pack(buffers, stream), buffers


def _given(value: object, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    import numpy as np

    return np.zeros(shape, dtype) if value is None else np.asarray(value)


def _median_ns(work: Callable[[], object]) -> float:
    def elapsed_ns() -> int:
        start = perf_counter_ns()
        work()
        return perf_counter_ns() - start

    return float(statistics.median(elapsed_ns() for _ in range(_SAMPLES)))
