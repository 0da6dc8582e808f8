"""What a call costs the host: bound, with new arrays, through an op; others' launches beside it.

    python benchmarks/dispatch.py [--quick] [--markdown FILE] [--json FILE]

All in one process, in interleaved rounds. A turn is a batch of calls, timed by the host's clock,
on a device that was waited for and whose queue the batch cannot fill: the device is never what
is measured. Bare are the launches that the member makes, packed and called by hand on the same
arrays. Ratios and differences are taken within rounds.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import attrs
import numpy as np
from members import Bench
from report import Report, arguments
from subjects import families, numbers, pairs
from turns import Spread, Times, interleaved

from xpu import Orchestrator, Problem
from xpu.choice import Arm
from xpu.choice.job import loaded
from xpu.spec import Device, DeviceArray

CALLS: Final = 100
"""Of a batch: three launches each still leave two thirds of a queue of 1,024 places empty."""
RATIO: Final = 1.2
NEW_US: Final = 2.0
DECISION_US: Final = 0.3
FORMAT: Final = "q4k"
COLUMNS: Final = {
    "what": ("what", "{}"),
    "us": ("µs a call", "{:.2f}"),
    "quartiles": ("quartiles", "{}"),
    "beside": ("beside", "{}"),
    "value": ("median", "{:.2f}"),
    "value_quartiles": ("quartiles", "{}"),
    "limit": ("limit", "{}"),
    "held": ("", "{}"),
}
NOTHING: Final = r"""
extern "C" __global__ void nothing(const void *w, const void *x, void *y, int m, int n, int k) {}
"""

Run = Callable[[int], object]
"""Makes so many calls."""


@attrs.frozen
class Place:
    """Where calls go: how to wait for it, and fresh arrays of float32 there."""

    settle: Callable[[], object]
    fresh: Callable[[tuple[int, ...]], Any]

    @classmethod
    def of(cls, backend: str, device: Device) -> Place:
        """Return the place of a backend: torch's tensors on a GPU, numpy's arrays elsewhere."""
        if backend != "cuda":
            return cls(device.synchronize, partial(np.zeros, dtype=np.float32))
        torch = importlib.import_module("torch")
        fresh = partial(torch.empty, dtype=torch.float32, device="cuda")
        return cls(torch.cuda.synchronize, fresh)

    def per_call_us(self, run: Run) -> float:
        """Return the microseconds a call of a batch, with the device idle before."""
        self.settle()
        gc.disable()
        try:
            started = time.perf_counter_ns()
            run(CALLS)
            return (time.perf_counter_ns() - started) / CALLS / 1e3
        finally:
            gc.enable()


def repeated(call: Callable[..., object], *inputs: Any, out: Any) -> Run:
    """Return a loop of a call with two inputs; the loop itself takes about 0.02 µs a call.

    It is written out as a program would: arguments packed and unpacked would cost 0.2 µs.
    """
    first, second = inputs

    def run(count: int) -> None:
        for _ in range(count):
            call(first, second, out=out)

    return run


def again(call: Callable[[], object]) -> Run:
    """Return a loop of a call without arguments."""

    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def in_turn(launches: Sequence[Callable[[], None]]) -> Run:
    """Return a loop of packed launches, one or two of them a call."""
    if len(launches) == 1:
        return again(launches[0])
    first, second = launches

    def run(count: int) -> None:
        for _ in range(count):
            first()
            second()

    return run


class Subject:
    """One member, called in every way."""

    def __init__(
        self, orchestrator: Orchestrator, bench: Bench, family: str, problem: Problem
    ) -> None:
        design = orchestrator.registry.design_of(orchestrator.settings.family(family))
        constants = orchestrator.settings.family(family).constants
        raw = design.data(problem, constants, np.random.default_rng(0))["weights"]
        self.place = Place.of(orchestrator.backend.name, bench.device)
        self.kernel = orchestrator.bind(family, m=problem.m, n=problem.n, k=problem.k)
        self.title = f"{family}.{self.kernel.member} {problem.key}"
        self._weights = orchestrator.prepare(family, bench.device.from_host(raw))
        self._shapes = (problem.m, problem.k), (problem.m, problem.n)
        self._x, self._y = (self.place.fresh(shape) for shape in self._shapes)
        self._op = orchestrator.op(family, n=problem.n, k=problem.k)
        arm = bench.assembled(family, problem).arm(self.kernel.member)
        self._launches = list(self._packed(bench.device, arm))

    def _packed(self, device: Device, arm: Arm) -> Iterator[Callable[[], None]]:
        """Pack by hand what the member launches; memory between two launches stays here."""
        taken: list[DeviceArray] = [
            self._weights.array,
            device.import_array(self._x, writable=False),
            device.import_array(self._y, writable=True),
        ]
        self._staged: list[DeviceArray] = []
        for staging in arm.staging:
            self._staged.append(device.allocate(staging.nbytes))
            pair = (taken[staging.place], self._staged[-1])
            before = device.load(staging.code, staging.entry)
            yield device.launcher(before, staging.launch, pair, staging.sizes)
            taken[staging.place] = self._staged[-1]
        kernel = loaded(device, arm.code, arm.entry)
        yield device.launcher(kernel, arm.launch, taken, arm.sizes)

    def _first_calls_us(self) -> float:
        """Return the microseconds of a call with arrays that were never seen."""
        pairs = [tuple(map(self.place.fresh, self._shapes)) for _ in range(CALLS)]

        def run(_count: int) -> None:
            for x, y in pairs:
                self.kernel(self._weights, x, out=y)

        return self.place.per_call_us(run)

    def readers(self) -> Mapping[str, Callable[[], float]]:
        """Return what takes a batch of each kind and gives microseconds a call."""
        arrays = (self._weights, self._x)
        batch = self.place.per_call_us
        count = len(self._launches)
        return {
            f"{count} bare launch{'es' * (count > 1)}": partial(batch, in_turn(self._launches)),
            "bound call": partial(batch, repeated(self.kernel, *arrays, out=self._y)),
            "op's call": partial(batch, repeated(self._op, *arrays, out=self._y)),
            "first call": self._first_calls_us,
        }


def peers(point: tuple[int, int, int]) -> Iterator[tuple[str, Run]]:
    """Yield others' launches, where they are installed: half precision, nothing quantised."""
    m, n, k = point
    torch = importlib.import_module("torch")
    x, w = (torch.randn(s, dtype=torch.float16, device="cuda") for s in ((m, k), (n, k)))
    y, turned = torch.empty((m, n), dtype=torch.float16, device="cuda"), w.t()
    yield "torch.mm", repeated(torch.mm, x, turned, out=y)
    try:
        gemm = importlib.import_module("triton_gemm")
    except ImportError:
        pass
    else:
        tuned = gemm.tuned[gemm.grid_of(m, n)]
        tuned(x, w, y, m, n, k)  # tunes
        best = gemm.tuned.best_config.all_kwargs()
        grid = (*gemm.grid_of(m, n)(best), 1, 1)
        yield "Triton, autotuned", again(lambda: tuned(x, w, y, m, n, k))
        plain = gemm.plain[grid]
        yield "Triton, plain", again(lambda: plain(x, w, y, m, n, k, **best))
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return
    kernel, taken = cupy.RawKernel(NOTHING, "nothing"), [cupy.asarray(one) for one in (w, x, y)]
    sizes = tuple(map(np.int32, (m, n, k)))
    given = (*taken, *sizes)
    yield "CuPy's RawKernel", again(lambda: kernel((1,), (32,), given))


def add_subject(report: Report, subject: Subject, times: Times) -> None:
    """Add the rows of one member, its times in the order of `readers`."""
    bare, bound, op, first = times.T
    names = [f"{subject.title}: {name}" for name in subject.readers()]
    add(report, names[0], bare)
    add(report, names[1], bound, "over bare", bound / bare, RATIO)
    add(report, names[2], op, "less bound, µs", op - bound, DECISION_US)
    add(report, names[3], first, "less bound, µs", first - bound, NEW_US)


def add(
    report: Report,
    what: str,
    times: Times,
    beside: str | None = None,
    values: Times | None = None,
    limit: float | None = None,
) -> None:
    """Add a row: times, and where there is a limit what it is a limit of."""
    spread = Spread.of(times)
    row = {"what": what, "us": spread.median, "quartiles": f"{spread.low:.2f}-{spread.high:.2f}"}
    if values is not None and limit is not None:
        value = Spread.of(values)
        row |= {
            "beside": beside,
            "value": value.median,
            "value_quartiles": f"{value.low:.2f}-{value.high:.2f}",
            "limit": f"<= {limit:g}",
            "held": "holds" if value.median <= limit else "BROKEN",
        }
    report.add(**row)


def add_peers(report: Report, place: Place, point: tuple[int, int, int], seconds: float) -> None:
    """Let others' launches take turns, and add their rows."""
    runs = dict(peers(point))
    times = interleaved([partial(place.per_call_us, run) for run in runs.values()], seconds)
    for name, column in zip(runs, times.T, strict=True):
        add(report, name, column)
    versions = [
        f"{name} {importlib.import_module(name).__version__}"
        for name in ("torch", "triton", "cupy")
        if find_spec(name)
    ]
    report.conditions["peers"] = ", ".join(versions)


def measure(args: argparse.Namespace, orchestrator: Orchestrator, bench: Bench) -> None:
    """Let every member and every peer take turns, and report."""
    dialect = orchestrator.backend.dialect
    [(n, k)] = args.sizes
    subjects = [
        Subject(orchestrator, bench, family, Problem(m=m, n=n, k=k))
        for m in args.rows
        for family in families(orchestrator.settings, dialect, FORMAT, m)[:1]
    ]
    report = Report("Host time of a call", COLUMNS, orchestrator, calls=f"{CALLS} of a batch")
    for subject in subjects:
        read = list(subject.readers().values())
        add_subject(report, subject, interleaved(read, args.seconds))
    if orchestrator.backend.name == "cuda":
        add_peers(report, subjects[0].place, (args.rows[0], n, k), args.seconds)
    broken = sum(row.get("held") == "BROKEN" for row in report.rows)
    report.notes += [
        f"limits: a bound call {RATIO:g} x its bare launches; a first call with new arrays "
        f"{NEW_US:g} µs more than a bound one; an op's decision {DECISION_US:g} µs more",
        "a bare launch is what Device.launcher returns, called; of a member that converts its "
        "activations first there are two",
        f"verdict: {broken} limits broken" if broken else "verdict: all limits hold",
    ]
    report.finish(args)


def main() -> None:
    """Measure and print."""
    parser = arguments("Host time of calls.")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--sizes", type=pairs, default=((4096, 4096),), metavar="NxK")
    parser.add_argument("--rows", type=numbers, default=(1, 8, 64), metavar="M,…")
    parser.add_argument("--seconds", type=float, default=3.0, help="of turns of each member")
    parser.add_argument("--quick", action="store_true", help="half a second of turns each")
    args = parser.parse_args()
    if args.quick:
        args.seconds = 0.5
    with (
        Orchestrator(store=None, tuning="off", backend=args.backend) as orchestrator,
        closing(Bench(args.backend)) as bench,
    ):
        measure(args, orchestrator, bench)


if __name__ == "__main__":
    main()
