"""Tests of launches: right numbers, nothing else touched, any thread, and a clock that is right."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, Final

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.model import Problem
from xpu.spec import Device, DeviceArray
from xpu.testing.backend_fixtures import BackendFixtures
from xpu.testing.device_tests import part
from xpu.testing.workbench import Workbench

_GUARD: Final = 256
_TRIES: Final = 5
_MOST_LAUNCHES: Final = 1 << 12


class LaunchTests(BackendFixtures):
    """Kernels of the kit, launched."""

    @pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 17), (64, 64), (257, 129)])
    def test_the_numbers_are_right(
        self, bench: Workbench, device: Device, rng: np.random.Generator, m: int, n: int
    ) -> None:
        for member in bench.members("kit_table"):
            verified(bench, device, "kit_table", Problem(m=m, n=n), rng, member)

    @pytest.mark.parametrize("n", [1, 255, 4099])
    def test_memory_is_updated_in_place(
        self, bench: Workbench, device: Device, rng: np.random.Generator, n: int
    ) -> None:
        verified(bench, device, "kit_in_place", Problem(n=n), rng)

    @pytest.mark.parametrize(("name", "ks"), [("kit_matrix", (16, 80)), ("kit_lines", (64, 192))])
    def test_matrices_are_multiplied(
        self, bench: Workbench, device: Device, rng: Any, name: str, ks: Sequence[int]
    ) -> None:
        for member, k in product(bench.members(name), ks):
            verified(bench, device, name, Problem(k=k), rng, member)

    @pytest.mark.parametrize("n", [1, 4099])
    def test_phases_and_scratch_memory_are_what_the_dialect_promises(
        self, bench: Workbench, device: Device, rng: np.random.Generator, n: int
    ) -> None:
        verified(bench, device, "kit_phases", Problem(n=n), rng)

    def test_each_verb_gives_what_it_should(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        verified(bench, device, "kit_verbs", Problem(n=192), rng)

    def test_nothing_but_the_result_is_written(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        table = Loaded(bench, device, rng, m=13, n=27)
        slab = device.allocate(table.nbytes + 2 * _GUARD, poisoned=True)
        table.launcher(part(slab, _GUARD, table.nbytes))()
        device.synchronize()
        after = device.to_host(slab)
        inside = after[_GUARD:-_GUARD].view(np.float32).reshape(table.expected.shape)
        assert np.array_equal(inside, table.expected)
        assert bool((after[:_GUARD] == 0xFF).all()), "written before the result"
        assert bool((after[-_GUARD:] == 0xFF).all()), "written behind the result"
        assert table.are_inputs_whole(), "an input was written"

    @pytest.mark.parametrize("n", [1, 4099])
    def test_a_result_is_cleared_before_each_launch_that_says_so(
        self, bench: Workbench, device: Device, rng: np.random.Generator, n: int
    ) -> None:
        problem, x = Problem(n=n), rng.standard_normal(n, dtype=np.float32)
        kernel = bench.load(device, "kit_in_place", None, problem)
        launch = attrs.evolve(bench.launch("kit_in_place", problem), clears_result=True)
        slab, taken = device.allocate(x.nbytes + 2 * _GUARD, poisoned=True), device.from_host(x)
        result = part(slab, _GUARD, x.nbytes)
        run = device.launcher(kernel, launch, [taken, result], [n])
        moved: Any = device.launcher(kernel, launch, [taken, device.allocate(x.nbytes)], [n])
        runs = [run, run]
        if hasattr(moved, "addresses"):
            _move(moved, [taken.address, result.address])
            runs.append(moved)
        for again, each in enumerate(runs):
            each()
            device.synchronize()
            after = device.to_host(slab)
            # The kernel adds x to its result, and that was zeros.
            inside = after[_GUARD:-_GUARD].view(np.float32)
            assert np.array_equal(inside, x), f"launch {again} with clears_result"
        around = np.concatenate([after[:_GUARD], after[-_GUARD:]])
        assert bool((around == 0xFF).all()), "cleared beyond the result"

    def test_a_packed_launch_reads_what_its_memory_holds_each_time(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        table = Loaded(bench, device, rng, m=7, n=9)
        result = device.allocate(table.nbytes, poisoned=True)
        launch = table.launcher(result)
        for again in range(3):
            device.poison(result)
            launch()
            device.synchronize()
            assert table.is_right(result), f"launch {again} of one packed launch"
            table.renew(rng)

    def test_a_launch_that_can_be_moved_serves_other_arrays(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        tables = [Loaded(bench, device, rng, m=7, n=9) for _ in range(3)]
        results = [device.allocate(table.nbytes, poisoned=True) for table in tables]
        launch = tables[0].launcher(results[0])
        if not hasattr(launch, "addresses"):
            pytest.skip("its launches cannot be moved: others are packed for other arrays")
        for table, result in zip(tables[1:], results[1:], strict=True):
            _move(launch, table.addresses(result))
            launch()
        # Moved on before anybody has waited: what is queued keeps the addresses it was made with.
        _move(launch, tables[0].addresses(results[0]))
        device.synchronize()
        for at, (table, result) in enumerate(zip(tables[1:], results[1:], strict=True)):
            assert table.is_right(result), f"arrays {at}, which the launch was moved to"
        untouched = device.to_host(results[0])
        assert bool((untouched == 0xFF).all()), "written where the launch was packed, or moved to"

    @pytest.mark.parametrize("name", ["kit_table", "kit_phases"])
    def test_several_threads_may_launch(
        self, bench: Workbench, device: Device, rng: np.random.Generator, name: str
    ) -> None:
        names = bench.design(name).problem
        sizes = [dict(zip(names, (61 + at, 65), strict=False)) for at in range(4)]
        loaded = [Loaded(bench, device, rng, name, **each) for each in sizes]
        results = [device.allocate(one.nbytes, poisoned=True) for one in loaded]

        def work(at: int) -> bool:
            launch = loaded[at].launcher(results[at])
            for _ in range(8):
                device.poison(results[at])
                launch()
                device.synchronize()
                if not loaded[at].is_right(results[at]):
                    return False
            return True

        with ThreadPoolExecutor(len(loaded)) as threads:
            rights = list(threads.map(work, range(len(loaded))))
        assert all(rights), f"{rights}: threads that launch at once must not share anything"


class TimerTests(BackendFixtures):
    """The device's clock against the host's."""

    @pytest.fixture
    def repeated(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> Iterator[list[Callable[[], None]]]:
        """Yield a launch, as often as it takes for the host's clock to tell it from noise."""
        table = Loaded(bench, device, rng, m=64, n=64)
        result = device.allocate(table.nbytes)  # a packed launch keeps nothing alive
        timer, count = device.timer(), 1
        launch = table.launcher(result, timer.stream)
        timer.bracket_ns([launch])  # the first may be the one that calibrates the clock
        while count < _MOST_LAUNCHES:
            start = time.perf_counter_ns()
            reading = timer.bracket_ns([launch] * count)
            device.synchronize()
            assert math.isnan(reading) or reading >= 0, f"a bracket read {reading} ns"
            if time.perf_counter_ns() - start > 3_000_000:
                break
            count *= 2
        yield [launch] * count
        assert table.is_right(result)

    def test_the_clock_agrees_with_the_hosts(
        self, device: Device, repeated: list[Callable[[], None]]
    ) -> None:
        timer, shares = device.timer(), []
        for attempt in range(_TRIES):
            # A bracket costs the host something besides, the more the busier it is: beside long
            # work that is little.
            longer = max(1, min(4**attempt, _MOST_LAUNCHES // len(repeated)))
            start = time.perf_counter_ns()
            reading = timer.bracket_ns(repeated * longer)
            device.synchronize()
            shares.append(reading / (time.perf_counter_ns() - start))
            if 0.3 <= shares[-1] <= 1.05:
                return
        told = ", ".join(f"{share:.3g}" for share in shares)
        pytest.fail(f"brackets read {told} of what the host's clock saw; allowed: 0.3 to 1.05")

    def test_more_launches_take_longer(
        self, device: Device, repeated: list[Callable[[], None]]
    ) -> None:
        timer, once, thrice = device.timer(), [], []
        for _ in range(4 * _TRIES):
            once.append(timer.bracket_ns(repeated))
            thrice.append(timer.bracket_ns(repeated * 3))
            # The least of many: others' work on the machine makes a reading longer, never shorter,
            # and the longer the reading the more, so that there is no bound above.
            if len(once) >= _TRIES and 1.5 * np.fmin.reduce(once) < np.fmin.reduce(thrice):
                return
        pytest.fail(f"{len(repeated)} launches read {once} ns, three times as many {thrice} ns")

    def test_the_clock_describes_itself(self, device: Device) -> None:
        timer = device.timer()
        assert isinstance(timer.name, str)
        assert timer.name
        assert all(isinstance(name, str) for name in timer.describe())


class Loaded:
    """A design of the kit on one problem, with its inputs on the device."""

    def __init__(
        self,
        bench: Workbench,
        device: Device,
        rng: np.random.Generator,
        name: str = "kit_table",
        **sizes: int,
    ) -> None:
        self._device = device
        self._problem = Problem(**sizes)
        self._design = bench.design(name)
        self._inputs = self._made(rng)
        self._taken = {at: device.from_host(array) for at, array in self._inputs.items()}
        self._kernel = bench.load(device, name, None, self._problem)
        self._launch = bench.launch(name, self._problem)

    @property
    def expected(self) -> NDArray[Any]:
        """The right result."""
        return self._design.right(self._problem, self._inputs)

    @property
    def nbytes(self) -> int:
        """Size of the result in bytes."""
        return self.expected.nbytes

    def renew(self, rng: np.random.Generator) -> None:
        """Put other inputs where the inputs are."""
        self._inputs = self._made(rng)
        for name, array in self._inputs.items():
            self._device.copy(self._device.from_host(array), self._taken[name])
        self._device.synchronize()

    def launcher(self, result: DeviceArray, stream: Any = None) -> Callable[[], None]:
        """Pack the launch; its result goes to bytes, as in a trial."""
        buffers = [*self._taken.values(), result]
        sizes = list(self._problem.sizes.values())
        return self._device.launcher(self._kernel, self._launch, buffers, sizes, stream)

    def addresses(self, result: DeviceArray) -> list[int]:
        """Return the addresses that the launch on this result takes."""
        return [array.address for array in (*self._taken.values(), result)]

    def is_right(self, result: DeviceArray) -> bool:
        """Whether a result is exact."""
        given = self._device.to_host(result).view(np.float32).reshape(self.expected.shape)
        return bool(np.array_equal(given, self.expected))

    def are_inputs_whole(self) -> bool:
        """Whether the inputs are what they were."""
        return all(
            np.array_equal(self._device.to_host(self._taken[name]), array)
            for name, array in self._inputs.items()
        )

    def _made(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        return dict(self._design.data(self._problem, self._design.constants, rng))


def _move(launch: Any, addresses: Sequence[int]) -> None:
    assert len(launch.addresses) == len(addresses), "there is one address for each buffer"
    for place, address in enumerate(addresses):
        launch.addresses[place] = address


def verified(
    bench: Workbench,
    device: Device,
    name: str,
    problem: Problem,
    rng: np.random.Generator,
    member: str | None = None,
) -> None:
    """Run a member on fresh data and assert that its result is right."""
    design = bench.design(name)
    inputs = design.data(problem, design.constants, rng)
    outputs = bench.run(device, name, problem, inputs, member)
    fault = design.verify(problem, design.constants, inputs, outputs, rng)
    assert not fault, f"{name}.{member or 'first'} on {problem.key}: {fault}"
