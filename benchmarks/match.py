"""XPU and ggml (and numpy) play one point: a weight matrix, activations, a memory mode.

Ours is the whole Python call of a bound kernel with prepared weights, theirs one graph
computation through ctypes in whichever buffer type makes ours look worst. Both results are
compared with the float64 product of the dequantised weights. `cpu_peer.py` names the points.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import attrs
import numpy as np
from ggml_peer import Floats, Ggml, Matmul
from numpy.typing import NDArray
from read_bandwidth import fastest_reader
from report import BUSY, Report
from tuned import bind_member, tune
from turns import Arm, Spread, Times, play

from xpu import Orchestrator, Problem
from xpu.measure import rotation_count

WIDE: Final = 0.2  # quartiles this far apart, over the median, say that something interfered
ATTEMPTS: Final = 3
REPEATS_END_S: Final = 240.0  # no point is repeated later than this after the start
NUMPY_SECONDS: Final = 2.0
ERROR_RMS, ERROR_MAX = 0.008, 0.04


@attrs.frozen
class Pair:
    """One of our arms against one of theirs.

    `load` is what others held meanwhile, `read_us` the time to read a slice of memory.
    """

    ours: Arm
    theirs: Arm
    ours_us: Spread
    theirs_us: Spread
    ratio: Spread
    load: float
    read_us: Spread | None

    @classmethod
    def of(
        cls, ours: tuple[Arm, Times], theirs: tuple[Arm, Times], load: float, read: Times | None
    ) -> Pair:
        """Make one of the arms and their times in the same rounds."""
        (our_arm, our_times), (their_arm, their_times) = ours, theirs
        return cls(
            our_arm,
            their_arm,
            Spread.of(our_times),
            Spread.of(their_times),
            Spread.of(their_times / our_times),
            load,
            None if read is None else Spread.of(read),
        )


@attrs.frozen
class Subject:
    """Weights of one format: raw blocks, what they are as float32 (N, K), and who serves them.

    `matvec` is tried at m = 1 only, `tile` at every m. Both take the same prepared weights.
    """

    fmt: str
    matvec: str
    tile: str
    blocks: NDArray[np.uint8]
    weights: Floats


@attrs.frozen
class Point:
    """One row of the table: activations (m, K) on a subject, and the right answer."""

    subject: Subject
    memory: str
    x: Floats
    exact: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, subject: Subject, m: int, memory: str) -> Point:
        """Draw activations, and multiply them in float64."""
        x = np.random.default_rng(m).standard_normal((m, subject.weights.shape[1]), np.float32)
        exact = x.astype(np.float64) @ subject.weights.T.astype(np.float64)
        rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1, keepdims=True))
        return cls(subject, memory, x, exact, np.linalg.norm(subject.weights, axis=1) * rms)

    def rms_error(self, who: str, y: Floats) -> float:
        """Return the root mean square error of a result.

        Raises
        ------
        AssertionError
            It is wrong: its time says nothing.
        """
        error = np.abs(y - self.exact) / self.scale
        rms, most = float(np.sqrt(np.mean(error**2))), float(error.max())
        if not (rms <= ERROR_RMS and most <= ERROR_MAX):
            raise AssertionError(f"{who}: error rms {rms:.4g}, largest {most:.4g}")
        return rms


class Match:
    """Both sides on one machine."""

    def __init__(
        self, orchestrator: Orchestrator, ggml: Ggml, report: Report, seconds: float
    ) -> None:
        self._orchestrator, self._ggml = orchestrator, ggml
        self._report, self._seconds = report, seconds
        self.reader = fastest_reader(orchestrator.backend)
        self._started = time.perf_counter()
        self.repeated = 0
        self._trial_load = 0.0

    def subject(self, fmt: str, families: tuple[str, str], n: int, k: int) -> Subject:
        """Quantise normally distributed weights for a matvec and a tile family."""
        drawn = np.random.default_rng(0).standard_normal((n, k), np.float32)
        blocks = self._ggml.quantize(fmt, drawn)
        return Subject(fmt, *families, blocks, self._ggml.dequantize(fmt, blocks))

    def copies(self, point: Point, nbytes: int) -> int:
        """Return how many copies of weights a point goes round."""
        cache = self._orchestrator.facts.last_level_cache_bytes
        return rotation_count(cache, nbytes) if point.memory == "cold" else 1

    def row(self, point: Point) -> dict[str, Any]:
        """Measure a point."""
        y = np.full(point.exact.shape, np.nan, np.float32)
        ours = self._ours(point, y)
        error = {}
        for arm in ours:
            y.fill(np.nan)
            for call in arm.calls:
                call()
            error[arm.name] = point.rms_error(arm.name, y)
        names = self._ggml.supported(point.subject.fmt, point.subject.blocks, point.x)
        # All at once would need the copies of every buffer type at the same time.
        groups = [[name] for name in names] if point.memory == "cold" else [names]
        pair, peer_error = min(
            (self._against(point, ours, group) for group in groups),
            key=lambda found: found[0].ratio.median,
        )
        row = _row(point, pair, error[pair.ours.name], peer_error)
        row.update(_read_shares(row["weight_bytes"], pair, self.reader.slice_bytes))
        row["load"] = max(row["load"], self._trial_load)
        ours.clear()
        return {**row, "numpy_us": self._numpy(point).median}

    def _ours(self, point: Point, y: Floats) -> list[Arm]:
        subject, m = point.subject, len(point.x)
        n, k = subject.weights.shape
        problem = Problem(m=m, n=n, k=k)
        families = (subject.matvec, subject.tile) if m == 1 else (subject.tile,)
        tuned = [
            tune(self._orchestrator, self._report, name, problem, point.memory) for name in families
        ]
        self._trial_load = max(result.foreign_load or 0.0 for result in tuned)
        weights = [
            self._orchestrator.prepare(subject.tile, subject.blocks)
            for _ in range(self.copies(point, subject.blocks.nbytes))
        ]
        arms = []
        for result in tuned:
            kernel = bind_member(self._orchestrator, result.family, problem, result.member)
            calls = [partial(kernel, copy, point.x, out=y) for copy in weights]
            name = f"{result.family}.{result.member}"
            arms.append(Arm(name, calls, settle=self._ggml.quiet))
        return arms

    def _against(self, point: Point, ours: list[Arm], names: list[str]) -> tuple[Pair, float]:
        """Return the pair of our fastest arm and their most dangerous one, and their error."""
        subject = point.subject
        copies = self.copies(point, subject.blocks.nbytes)
        make = partial(Matmul, self._ggml, subject.fmt, subject.blocks, point.x)
        products = {name: [make(name) for _ in range(copies)] for name in names}
        errors, theirs = {}, []
        for name, made in products.items():
            for each in made:
                each.run()
            errors[name] = point.rms_error(f"ggml {name}", made[-1].result())
            # Our idle threads spin for 0.05 ms, then sleep.
            theirs.append(Arm(name, [each.run for each in made], partial(time.sleep, 1e-3)))
        pair = self._steady(ours, theirs, is_cold=point.memory == "cold")
        for each in (each for made in products.values() for each in made):
            each.close()
        return pair, errors[pair.theirs.name]

    def _steady(self, ours: list[Arm], theirs: list[Arm], *, is_cold: bool) -> Pair:
        """Play, again where something interfered, and return the least disturbed pair."""
        played: list[Pair] = []
        while len(played) < ATTEMPTS:
            self._report.wait_quiet()
            played.append(self._play(ours, theirs, is_cold=is_cold))
            if played[-1].load < BUSY and played[-1].ratio.width <= WIDE:
                break
            if time.perf_counter() - self._started > REPEATS_END_S:
                break
        self.repeated += len(played) - 1
        return min(played, key=lambda pair: (pair.load, pair.ratio.width))

    def _play(self, ours: list[Arm], theirs: list[Arm], *, is_cold: bool) -> Pair:
        reading = [Arm("read", self.reader.calls, settle=self._ggml.quiet)] if is_cold else []
        arms = [*ours, *theirs, *reading]
        self._report.load()
        times = play(arms, self._seconds)
        load = self._report.load() or 0.0
        columns = list(zip(arms, times.T, strict=True))
        best = min(columns[: len(ours)], key=lambda column: float(np.median(column[1])))
        read = times[:, -1] if is_cold else None
        peers = columns[len(ours) : len(ours) + len(theirs)]
        pairs = [Pair.of(best, column, load, read) for column in peers]
        return min(pairs, key=lambda pair: pair.ratio.median)

    def _numpy(self, point: Point) -> Spread:
        weights, y = point.subject.weights, np.empty(point.exact.shape, np.float32)
        copies = [weights, *(weights.copy() for _ in range(self.copies(point, weights.nbytes) - 1))]
        calls = [partial(np.matmul, point.x, copy.T, out=y) for copy in copies]
        times = play([Arm("numpy", calls, settle=self._ggml.quiet)], NUMPY_SECONDS, least=3)
        return Spread.of(times[:, 0])


def _row(point: Point, pair: Pair, error: float, peer_error: float) -> dict[str, Any]:
    ratio = pair.ratio
    return {
        "format": point.subject.fmt,
        "m": len(point.x),
        "memory": point.memory,
        "member": pair.ours.name,
        "ours_us": pair.ours_us.median,
        "peer": pair.theirs.name,
        "theirs_us": pair.theirs_us.median,
        "ratio": ratio.median,
        "quartiles": f"{ratio.low:.2f}-{ratio.high:.2f}",
        "rounds": ratio.count,
        "error": error,
        "peer_error": peer_error,
        "load": pair.load,
        "weight_bytes": point.subject.blocks.nbytes,
    }


def _read_shares(weight_bytes: int, pair: Pair, slice_bytes: int) -> dict[str, float]:
    """Compare what a cold pair read with what memory gave in the same rounds, GB/s."""
    if pair.read_us is None:
        return {}
    memory, ours, theirs = (
        nbytes / spread.median / 1e3
        for nbytes, spread in (
            (slice_bytes, pair.read_us),
            (weight_bytes, pair.ours_us),
            (weight_bytes, pair.theirs_us),
        )
    )
    return {
        "memory_gb_s": memory,
        "read_gb_s": ours,
        "read_share": ours / memory,
        "peer_read_share": theirs / memory,
    }
