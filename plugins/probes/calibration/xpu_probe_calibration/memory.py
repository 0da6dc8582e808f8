"""Designs that measure memory: reading, copying, and waiting for an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from xpu.model import Constant, DeviceFacts, Problem
from xpu.spec import Argument
from xpu_probe_calibration.kernel import HOST, SIMT, MeasuringDesign, lanes, shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


_GRAIN: Final = 1024
"""Readers come in multiples of this: whole blocks of every member."""

_WORDS: Final = 4
"""Words of 32 bits that a reader takes at once."""

_MOST_BYTES: Final = 1 << 32
"""Longest array: a host makes it in seconds, and no known part reads it in under 0.5 ms."""

_SHARE: Final = 32
"""And no more than one part in so many of the device's memory: a trial holds it several times."""

_NODE_WORDS: Final = 64
"""Distance between two nodes of a chain, in words: 256 bytes, past any line and its neighbour
that hardware fetches with it."""

_LEAST_STEPS: Final = 256
_MOST_STEPS: Final = 1 << 14
_CACHES: Final = 4
"""How many last-level caches a chain of reads fills."""

_ABSENT_CACHE_BYTES: Final = 256 << 20


def _most_bytes(facts: DeviceFacts) -> int:
    return min(_MOST_BYTES, (facts.memory_bytes or _MOST_BYTES * _SHARE) // _SHARE)


class Streaming(MeasuringDesign):
    """n words that t readers share, four at a time; `depth` reads are on their way in each."""

    problem = ("n", "t")
    parameters = ("depth", "threads")
    memory = "cold"

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept whole blocks, all of which read alike."""
        t = problem.t
        if t == 0 or t % _GRAIN or problem.n % (_WORDS * t):
            return f"t is a multiple of {_GRAIN}, n of {_WORDS} t"
        return ""

    def sized(self, facts: DeviceFacts, step: int) -> Problem | None:
        """Return a block's work first, then reads of the whole device, ever longer."""
        if step == 0:
            return Problem(n=_WORDS * _GRAIN, t=_GRAIN)
        t = lanes(facts, _GRAIN)
        n = (8 << 2 * (step - 1)) * _WORDS * t
        return Problem(n=n, t=t) if 4 * n <= _most_bytes(facts) else None

    def threads(self, member: Mapping[str, int], problem: Problem) -> int:
        """Return a thread for every reader."""
        return problem.t

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Make any words."""
        import numpy as np

        return {"x": rng.integers(0, 1 << 32, problem.n, np.uint32)}

    def value(self, problem: Problem, launch_ns: float) -> float:
        """Return bytes a second."""
        return self.bytes_touched(problem, {}) / launch_ns * 1e9


class Read(Streaming):
    """y (T): sums of x (N), modulo 2^32; which reader sums what is the kernel's own business."""

    name = "calibrate_read"
    kernel = "read"
    figure = "read_bytes_per_s"
    loaded_figure = "read_loaded_bytes_per_s"
    arguments = (Argument("x", "uint32", "read"), Argument("y", "uint32", "write"))
    members = (
        shape("plain", HOST, depth=1),
        shape("t256d4", SIMT, threads=256, depth=4),
        shape("t256d8", SIMT, threads=256, depth=8),
        shape("t1024d4", SIMT, threads=1024, depth=4),
    )

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), y (T)."""
        return {"x": (problem.n,), "y": (problem.t,)}

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        rng: np.random.Generator,
    ) -> str:
        """Compare the sum of all sums."""
        import numpy as np

        right, given = (int(each.sum(dtype=np.uint32)) for each in (inputs["x"], outputs["y"]))
        return "" if right == given else f"the sums add up to {given}, right is {right}"


class Copy(Streaming):
    """y (N) = x (N)."""

    name = "calibrate_copy"
    kernel = "copy"
    figure = "copy_bytes_per_s"
    loaded_figure = "copy_loaded_bytes_per_s"
    arguments = (Argument("x", "uint32", "read"), Argument("y", "uint32", "write"))
    members = (
        shape("plain", HOST, depth=1),
        shape("t256d1", SIMT, threads=256, depth=1),
        shape("t256d4", SIMT, threads=256, depth=4),
    )

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), y (N)."""
        return {"x": (problem.n,), "y": (problem.n,)}

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        rng: np.random.Generator,
    ) -> str:
        """Compare every word."""
        import numpy as np

        wrong = int(np.count_nonzero(outputs["y"] != inputs["x"]))
        return f"{wrong} of {problem.n} words are wrong" if wrong else ""


class Latency(MeasuringDesign):
    """k reads along a chain that visits every node of n words; `at` goes on where it stood.

    So every launch reads nodes that have not been read for as long as the whole chain takes.
    """

    name = "calibrate_latency"
    kernel = "latency"
    figure = "latency_ns"
    problem = ("n", "k")
    parameters = ("threads",)
    arguments = (Argument("next", "uint32", "read"), Argument("at", "uint32", "update"))
    members = (shape("plain", HOST), shape("t64", SIMT, threads=64))

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the nodes (N), and where the chain stands."""
        return {"next": (problem.n,), "at": (1,)}

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept whole nodes, at least one."""
        if problem.n == 0 or problem.n % _NODE_WORDS:
            return f"n is a multiple of {_NODE_WORDS}"
        return ""

    def sized(self, facts: DeviceFacts, step: int) -> Problem | None:
        """Return a short chain first, then one that no cache holds, with ever more reads."""
        if step == 0:
            return Problem(n=64 * _NODE_WORDS, k=_LEAST_STEPS)
        cache = facts.last_level_cache_bytes or _ABSENT_CACHE_BYTES
        n = min(_CACHES * cache, _most_bytes(facts)) // 4 // _NODE_WORDS * _NODE_WORDS
        k = _LEAST_STEPS << 2 * (step - 1)
        return Problem(n=n, k=k) if k <= _MOST_STEPS and n else None

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Make one chain through all nodes, in random order."""
        import numpy as np

        order = (rng.permutation(problem.n // _NODE_WORDS) * _NODE_WORDS).astype(np.uint32)
        nodes = np.zeros(problem.n, np.uint32)
        nodes[order] = np.roll(order, -1)
        return {"next": nodes, "at": order[:1].copy()}

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        rng: np.random.Generator,
    ) -> str:
        """Follow the chain."""
        nodes, right = inputs["next"], int(inputs["at"][0])
        for _ in range(problem.k):
            right = int(nodes[right])
        given = int(outputs["at"][0])
        return "" if given == right else f"the chain ends at {given}, right is {right}"

    def operations(self, problem: Problem) -> int:
        """Count the reads."""
        return problem.k

    def value(self, problem: Problem, launch_ns: float) -> float:
        """Return nanoseconds a read."""
        return launch_ns / problem.k
