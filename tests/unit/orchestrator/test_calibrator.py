"""What a calibrator makes of times that are known: designs of the test on a device of none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xpu import Orchestrator
from xpu.model import DeviceFacts, Member, Problem
from xpu.spec import Argument, CalibrationDesign, KernelSource
from xpu.testing import NullBackend, NullLaunch, registry_of

FACTS = DeviceFacts(
    backend="null",
    name="a part",
    uuid="null",
    driver_version="7",
    multiprocessors=4,
    memory_bytes=1 << 28,
)
FLOOR_NS = 100.0


class Pace(CalibrationDesign):
    """y = x + 1 over n floats; `value` is n for each nanosecond."""

    parameters = ("pace",)
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))
    members = (Member("slow", {"pace": 1}), Member("fast", {"pace": 4}))
    most_steps = 10

    def __init__(self, figure, loaded=None, **more):
        self.name = f"pace_{figure}"
        self.figure = figure
        self.loaded_figure = loaded
        for name, value in more.items():
            setattr(self, name, value)

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "see kernels()")

    def shapes(self, problem, constants):
        return {"x": (problem.n,), "y": (problem.n,)}

    def data(self, problem, constants, rng):
        return {"x": rng.standard_normal(problem.n).astype(np.float32)}

    def verify(self, problem, constants, inputs, outputs, rng):
        return "" if np.array_equal(outputs["y"], inputs["x"] + np.float32(1)) else "y is not x + 1"

    def sized(self, facts, step):
        if step >= self.most_steps:
            return None
        return Problem(n=facts.multiprocessors * 4**step)

    def operations(self, problem):
        return problem.n


def kernels(launch: NullLaunch) -> float:
    """Stand for the kernels: a launch takes a floor and, for each element, 8 ns over its pace."""
    x, y = launch.buffers
    y[...] = x + 1
    pace = int(launch.defines["XPU_PACE"])
    if pace == 3:
        y[-1] += 1
    return FLOOR_NS + 8.0 / pace * x.size


class Queues(NullBackend):
    """A device with two queues that others may hold."""

    load = 0.0
    queue: float | Exception = 42.0

    def open(self, index=0):
        device = super().open(index)
        device.foreign_load = lambda: self.load
        device.queue_ns = self._queue_ns
        return device

    def _queue_ns(self):
        if isinstance(self.queue, Exception):
            raise self.queue
        return self.queue


@pytest.fixture
def calibrator(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("xpu.orchestrator.calibrator.host_load", loads.append_one)
    loads.clear()
    opened = []

    def make(*designs, backend=None):
        backend = backend or NullBackend("c", kernels, facts=FACTS)
        orchestrator = Orchestrator(
            backend="null",
            registry=registry_of(backend, *designs),
            build_cache=tmp_path / "build",
            tuning="off",
        )
        opened.append(orchestrator)
        return orchestrator.calibrator

    yield make
    for orchestrator in opened:
        orchestrator.close()


class _Loads(list):
    """How often the host was kept busy."""

    def append_one(self):
        self.append(1)
        return self

    def __enter__(self):
        return None

    def __exit__(self, *_error):
        return None


loads = _Loads()


def measured(calibrator) -> dict[str, object]:
    return {one.figure: one for one in calibrator.measure()}


def test_a_figure_is_the_fastest_members_on_a_long_launch(calibrator) -> None:
    found = measured(calibrator(Pace("float32_per_s")))["float32_per_s"]
    # The first problem with 2 ns an element that takes 250 µs: 4 * 4^8.
    n = 4 * 4**8
    assert found.value == pytest.approx(n / (FLOOR_NS + 2 * n) * 1e9)
    assert found.note == f"fast, {n}"


def test_where_no_longer_one_can_be_had_the_longest_counts(calibrator) -> None:
    found = measured(calibrator(Pace("float32_per_s", most_steps=3)))["float32_per_s"]
    assert found.value == pytest.approx(64 / (FLOOR_NS + 2 * 64) * 1e9)


def test_the_problem_that_proves_code_is_no_measurement(calibrator) -> None:
    found = measured(calibrator(Pace("float32_per_s", most_steps=1)))["float32_per_s"]
    assert found.value is None
    assert "too little memory" in found.note


def test_a_member_that_is_wrong_does_not_count(calibrator) -> None:
    members = (Member("slow", {"pace": 1}), Member("wrong", {"pace": 3}))
    found = measured(calibrator(Pace("float32_per_s", members=members)))["float32_per_s"]
    assert found.note.startswith("slow, ")
    found = measured(calibrator(Pace("float32_per_s", members=members[1:])))["float32_per_s"]
    assert found.value is None
    assert "wrong: wrong (y is not x + 1" in found.note


def test_a_design_that_fails_costs_no_other_figure(calibrator) -> None:
    class Fails(Pace):
        def data(self, problem, constants, rng):
            raise ZeroDivisionError("in a plugin")

        def sized(self, facts, step):
            if step:
                raise KeyError("in a plugin")
            return super().sized(facts, step)

    found = measured(calibrator(Fails("latency_ns"), Pace("float32_per_s")))
    assert found["latency_ns"].value is None
    assert "in a plugin" in found["latency_ns"].note
    assert found["float32_per_s"].value is not None


def test_a_loaded_figure_is_taken_while_the_host_is_busy(calibrator) -> None:
    found = measured(calibrator(Pace("read_bytes_per_s", "read_loaded_bytes_per_s")))
    assert found["read_loaded_bytes_per_s"].value == found["read_bytes_per_s"].value
    assert len(loads) == 1
    assert measured(calibrator(Pace("float32_per_s")))
    assert len(loads) == 1


def test_bytes_in_flight_follow_from_rate_and_latency(calibrator) -> None:
    class Wait(Pace):
        def value(self, problem, launch_ns):
            return launch_ns / problem.n

    found = measured(calibrator(Wait("latency_ns"), Pace("read_bytes_per_s")))
    rate, latency = found["read_bytes_per_s"].value, found["latency_ns"].value
    assert latency == pytest.approx(2, rel=1e-3)
    assert found["bytes_in_flight"].value == pytest.approx(rate * latency / 1e9)
    assert "bytes_in_flight" not in measured(calibrator(Pace("read_bytes_per_s")))


def test_costs_are_the_host_clocks(calibrator) -> None:
    found = measured(calibrator(Pace("copy_bytes_per_s")))
    # The device says 100 ns and more; what a call of a Python function costs is another matter.
    for figure in ("launch_ns", "clock_ns"):
        assert 1 <= found[figure].value < 1e8
        assert found[figure].note
    assert found["launch_ns"].value > 100
    assert list(found)[:2] == ["launch_ns", "clock_ns"]
    assert "launch_ns" not in measured(calibrator(Pace("float32_per_s")))


def test_a_launch_that_costs_much_asks_for_a_longer_problem(calibrator, monkeypatch) -> None:
    monkeypatch.setattr("xpu.orchestrator.calibrator._median_ns", lambda _: 2e6)
    found = measured(calibrator(Pace("copy_bytes_per_s")))
    # 2 ms for twenty launches, so 0.1 ms each: 5 ms is long enough, and 4 * 4^9 no more there.
    assert found["launch_ns"].value == 1e5
    assert found["copy_bytes_per_s"].note == f"fast, {4 * 4**9}"


def test_queues_are_the_backends_to_measure(calibrator) -> None:
    backend = Queues("c", kernels, facts=FACTS)
    assert measured(calibrator(backend=backend))["queue_ns"].value == 42.0
    backend = Queues("c", kernels, facts=FACTS)
    backend.queue = OSError("driver gone")
    found = measured(calibrator(backend=backend))["queue_ns"]
    assert found.value is None
    assert "queue_ns() raised OSError: driver gone" in found.note
    assert measured(calibrator()) == {}


def test_a_device_that_others_hold_is_not_measured(calibrator) -> None:
    backend = Queues("c", kernels, facts=FACTS)
    backend.load = 0.83
    found = measured(
        calibrator(Pace("read_bytes_per_s", "read_loaded_bytes_per_s"), backend=backend)
    )
    for figure in ("read_bytes_per_s", "read_loaded_bytes_per_s"):
        assert found[figure].value is None
        assert "83 % of the device was held by others" in found[figure].note


def test_a_dialect_without_a_source_has_no_figure(calibrator) -> None:
    class Elsewhere(Pace):
        def dialects(self):
            return ("simt",)

    other = Member("other", {"pace": 1}, ("simt",))
    none = Pace("latency_ns", members=(other,))
    one = calibrator(Elsewhere("float32_per_s"), Pace("int8_dot_per_s"), none)
    assert [design.figure for design in one.designs] == ["int8_dot_per_s"]


def test_the_key_names_part_driver_compiler_and_power_mode(calibrator, monkeypatch) -> None:
    key = calibrator().key
    assert (key.device, key.driver, key.compiler) == ("a part, null-mp4", "7", "null 1")
    assert key.power == ""
    monkeypatch.setattr(
        "xpu.testing.null_device.NullDevice.identity",
        lambda _: {"device": "u", "driver": "8", "power": "low"},
    )
    changed = calibrator().key
    assert (changed.device, changed.driver, changed.power) == (key.device, "8", "low")
