"""The event clock: what a bracket reads, whatever the host does meanwhile."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Launch
from xpu_backend_cuda import clocks, ways
from xpu_backend_cuda.nvml import Clock
from xpu_backend_cuda.timer import EventTimer

ONE = Launch((1, 1, 1), (64, 1, 1))


class Nvml:
    """Says what it is told to, and counts the looks."""

    def __init__(self, answer=None) -> None:
        self.answer, self.looks = answer, 0

    def clock(self):
        self.looks += 1
        return self.answer


@pytest.fixture
def make(fake, opened, code):
    """Make a clock, and launches of 3,000 ns packed for its stream or another one."""

    def go(way="replay", nvml=None):
        timer = EventTimer(opened.context, nvml or Nvml(), way)
        kernel = opened.load(code, "copy")
        fake.kernels["copy"].run = lambda *_: None
        memory = opened.allocate(8)

        def launches(count, stream=timer.stream, size=8):
            given = (kernel, ONE, [memory] * 2, (size,), stream)
            return [opened.launcher(*given) for _ in range(count)]

        timer.pack = launches
        return timer

    return go


@pytest.mark.parametrize("way", ["replay", "queue"])
@pytest.mark.parametrize("call_us", [0.1, 5, 40])
def test_a_bracket_reads_the_device_and_never_the_host(fake, make, way, call_us) -> None:
    timer = make(way)
    fake.call_ns = call_us * 1000
    for count in (1, 3, 20):
        for _ in range(2):
            assert timer.bracket_ns(timer.pack(count)) == pytest.approx(3000 * count)
    told = timer.describe()
    assert (told["way"], told["brackets"], told["host_bound"]) == (way, 6, 0)
    assert told["host_per_event"] == 1.0
    timer.close()


def test_nothing_is_made_or_run_before_the_first_bracket(fake, make) -> None:
    fake.calls.clear()
    timer = make()
    assert fake.calls.count("cuStreamCreate") == 1
    assert not {"cuEventCreate", "cuLaunchKernel", "cuMemHostAlloc"} & set(fake.calls)
    assert timer.stream > 2
    timer.close()
    timer.close()
    with pytest.raises(XpuLaunchException, match="closed"):
        timer.bracket_ns(timer.pack(1))


def test_a_clock_that_is_closed_in_a_bracket_ends_with_it(fake, make) -> None:
    timer = make()
    good = timer.pack(1)

    def closing() -> None:
        timer.close()
        good[0]()

    closing.stream = timer.stream
    timer.bracket_ns(good)
    assert timer.bracket_ns([closing]) == pytest.approx(3000)
    assert fake.executables == {}
    with pytest.raises(XpuLaunchException, match="closed"):
        timer.bracket_ns(good)


def test_the_same_launches_are_captured_once(fake, make) -> None:
    timer = make()
    first, second = timer.pack(2), timer.pack(2)
    for _ in range(3):
        for launches in ([first[0]] * 20, [first[0], second[0]] * 10, [second[0]] * 20):
            timer.bracket_ns(launches)
    assert len(fake.executables) == 3
    fake.calls.clear()
    timer.bracket_ns([first[0]] * 20)
    assert "cuStreamBeginCapture" not in fake.calls
    assert fake.calls.count("cuLaunchKernel") == 1, "what does nothing runs before the replay"
    assert fake.calls.count("cuGraphLaunch") == 1
    timer.close()
    assert (fake.graphs, fake.executables) == ({}, {})


@pytest.mark.parametrize("way", ["replay", "queue"])
def test_blocks_are_handed_out_anew_before_each_bracket(fake, make, monkeypatch, way) -> None:
    timer = make(way)
    launches = timer.pack(3)
    timer.bracket_ns(launches)
    queued, queue = [], fake._queue

    def seen(stream, item):
        queued.append(item)
        return queue(stream, item)

    monkeypatch.setattr(fake, "_queue", seen)
    readings = [timer.bracket_ns(launches) for _ in range(50)]
    assert readings == pytest.approx([9000] * 50), "none of it is in what is read"
    grids = [rest[0] for what, *item in queued if what == "kernel" for _, rest, _ in [item]]
    stirring = [grid for grid in grids if grid > 1]
    assert len(set(stirring)) == 50
    assert max(stirring) > 900
    assert min(stirring) < 100


def test_a_graph_is_on_the_device_before_its_first_replay(fake, make) -> None:
    timer = make()
    launches = timer.pack(2)
    timer.bracket_ns(launches)
    fake.calls.clear()
    timer.bracket_ns(launches[:1] * 20)
    made, brought, replayed = (
        fake.calls.index(f"cuGraph{what}") for what in ("Instantiate", "Upload", "Launch")
    )
    assert made < brought < replayed
    fake.calls.clear()
    timer.bracket_ns(launches[:1] * 20)
    assert "cuGraphUpload" not in fake.calls
    kept = len(fake.executables)
    fake.fails["cuGraphUpload"] = 2
    with pytest.raises(XpuLaunchException, match="cannot be brought to the device"):
        timer.bracket_ns(launches[1:] * 20)
    assert len(fake.executables) == kept
    timer.close()


def test_graphs_of_launches_that_are_gone_are_given_back(fake, make) -> None:
    timer = make()
    for _ in range(3 * ways._MOST_GRAPHS):
        timer.bracket_ns(timer.pack(1))
        assert len(fake.executables) <= 2
    held = timer.pack(2 * ways._MOST_GRAPHS)
    for launch in held:
        timer.bracket_ns([launch])
    assert len(fake.executables) == ways._MOST_GRAPHS
    timer.close()


def test_a_number_that_another_launch_had_is_not_mistaken_for_it(fake, make, monkeypatch) -> None:
    # Numbers of dead objects are given to new ones.
    monkeypatch.setattr(ways, "id", lambda _one: 7, raising=False)
    timer = make()
    seen = []
    fake.kernels["copy"].run = lambda *values: seen.append(values[2])
    for size in range(5):
        timer.bracket_ns(timer.pack(1, size=size))
    assert seen == list(range(5))
    assert len(fake.executables) == 1


def test_launches_of_the_default_stream_are_queued_behind_a_hold(fake, make) -> None:
    timer = make()
    for stream in (None, 1, 2):
        assert timer.bracket_ns(timer.pack(20, stream)) == pytest.approx(60_000)
    assert timer.describe()["not_captured"] == 0
    assert not fake.executables

    def plain() -> None:
        timer.pack(1, None)[0]()

    assert timer.bracket_ns([plain] * 4) == pytest.approx(12_000)


def test_a_stream_that_cannot_be_captured_is_held_instead(fake, make) -> None:
    timer = make()
    launches = timer.pack(5)
    fake.fails["cuStreamBeginCapture"] = 900
    assert timer.bracket_ns(launches) == pytest.approx(15_000)
    told = timer.describe()
    assert told["not_captured"] == 1
    assert "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in told["last_cause"]
    fake.fails.clear()
    assert timer.bracket_ns(launches) == pytest.approx(15_000)
    assert timer.describe()["not_captured"] == 1


def test_launches_that_go_elsewhere_are_not_timed_as_nothing(fake, make) -> None:
    timer = make()
    (elsewhere,) = timer.pack(1, None)

    def liar() -> None:
        elsewhere()

    liar.stream = timer.stream
    timer.bracket_ns([liar])
    told = timer.describe()
    assert (told["not_captured"], told["last_cause"]) == (1, "the launches go to another stream")
    assert not fake.graphs


def test_launches_of_several_streams_are_refused(make) -> None:
    timer = make()
    with pytest.raises(XpuLaunchException, match=r"2 streams.*timer\.stream"):
        timer.bracket_ns([*timer.pack(1), *timer.pack(1, None)])


def test_a_host_that_is_too_slow_is_said_and_not_read(fake, make) -> None:
    timer = make("queue")
    launches = timer.pack(20)
    assert timer.bracket_ns(launches) == pytest.approx(60_000)
    fake.call_ns = 2_000_000.0
    assert math.isnan(timer.bracket_ns(launches))
    assert timer.describe()["host_bound"] == 1
    assert "20 ms" in timer.describe()["last_cause"]
    fake.call_ns = 5000.0
    assert math.isnan(timer.bracket_ns(launches * 100))
    assert "2000 launches" in timer.describe()["last_cause"]
    assert timer.bracket_ns(launches) == pytest.approx(60_000)


@pytest.mark.parametrize("way", ["replay", "queue"])
def test_a_launch_that_fails_leaves_the_clock_fit_for_use(fake, make, way) -> None:
    timer = make(way)
    good = timer.pack(2)

    def bad() -> None:
        raise XpuLaunchException("no such launch")

    bad.stream = timer.stream
    timer.bracket_ns(good)
    for _ in range(3):
        with pytest.raises(XpuLaunchException, match="no such launch"):
            timer.bracket_ns([good[0], bad])
        assert timer.bracket_ns(good) == pytest.approx(6000)
    assert (fake.capturing, fake.graphs) == ({}, {})


@pytest.mark.parametrize(
    ("rate", "scale"), [(1.0, 1.0), (1.005, 1.0), (1 / 1.046, 1.046), (0.6, 1 / 0.6)]
)
def test_a_clock_that_is_off_is_set_right(fake, make, rate, scale) -> None:
    fake.event_rate = rate
    timer = make()
    assert timer.bracket_ns(timer.pack(20)) == pytest.approx(60_000 * rate * scale, rel=1e-3)
    assert timer.describe()["host_per_event"] == pytest.approx(scale, rel=1e-3)


@pytest.mark.parametrize("rate", [0.4, 3.0])
def test_a_clock_that_keeps_no_time_is_refused(fake, make, rate) -> None:
    fake.event_rate = rate
    timer = make()
    for _ in range(2):
        with pytest.raises(XpuLaunchException, match=r"event clock of device 0.*0\.5 to 2"):
            timer.bracket_ns(timer.pack(1))


def test_what_a_bracket_costs_by_itself_is_taken_off(fake, make, monkeypatch) -> None:
    elapsed = ways.Events.elapsed_ns
    monkeypatch.setattr(ways.Events, "elapsed_ns", lambda self: elapsed(self) + 1700)
    timer = make()
    assert timer.bracket_ns(timer.pack(1)) == pytest.approx(3000)
    assert timer.describe()["replay_own_ns"] == pytest.approx(1700)


def test_copies_that_a_launch_reads_are_done_before_it_is_timed(fake, make, opened) -> None:
    timer = make()
    launches = timer.pack(1)
    opened.poison(opened.allocate(100))
    assert fake.queues[0]
    seen = []
    fake.kernels["copy"].run = lambda *_: seen.append(len(fake.queues[0]))
    timer.bracket_ns(launches)
    assert seen == [0]


def test_brackets_under_a_slowdown_are_not_believed(make) -> None:
    nvml = Nvml(Clock(1980, is_slowed=False, is_power_capped=True))
    timer = make(nvml=nvml)
    timer._watch._not_before_s = -math.inf
    launches = timer.pack(3)
    assert timer.bracket_ns(launches) == pytest.approx(9000)
    nvml.answer = Clock(1200, is_slowed=True, is_power_capped=False)
    timer._watch._not_before_s = -math.inf
    assert math.isnan(timer.bracket_ns(launches))
    told = timer.describe()
    assert (told["slowed_brackets"], told["power_capped_brackets"]) == (1, 1)
    assert (told["sm_clock_mhz"], told["least_sm_clock_mhz"]) == (1200, 1200)
    assert told["most_sm_clock_mhz"] == 1980


def test_the_clock_is_looked_at_for_a_tenth_of_the_time_at_most(monkeypatch) -> None:
    now = [0.0]

    class Slow(Nvml):
        def clock(self):
            now[0] += 0.001
            return super().clock()

    nvml = Slow(Clock(1980, False, False))
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    watch = clocks.ClockWatch(nvml)
    for _ in range(1000):
        watch.is_slowed()
        now[0] += 0.0005
    assert 40 <= nvml.looks <= 60
    assert watch.slowed == 0


def test_a_library_that_knows_no_clock_hides_no_reading(make) -> None:
    timer = make()
    assert timer.bracket_ns(timer.pack(1)) == pytest.approx(3000)
    assert "sm_clock_mhz" not in timer.describe()


def test_an_empty_bracket_says_nothing(make) -> None:
    assert math.isnan(make().bracket_ns([]))


def test_the_way_to_another_stream_is_measured(fake, opened) -> None:
    assert opened.queue_ns() >= 0
    assert opened.timer() is opened.timer()
