"""Designs that measure arithmetic: n sums, to each of which k products are added.

Every sum begins with a number of its own, so that no compiler may take two for one, and no
factor is known before the launch. All numbers are small and whole: results are exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from xpu.model import Constant, DeviceFacts, Problem
from xpu.spec import Argument
from xpu_probe_calibration.kernel import HOST, SIMT, MeasuringDesign, lanes, shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


_GRAIN: Final = 4096
"""Sums come in multiples of this: whole blocks of every member."""

_LEAST_K: Final = 256
_MOST_K: Final = 1 << 20
"""Products that leave every sum exact: at most 21 each, in a float32 9 each."""

_TILE: Final = 16


class Arithmetic(MeasuringDesign):
    """What the four have in common."""

    problem = ("n", "k")
    parameters = ("chains", "threads", "wide")
    sums_per_lane: int

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept whole blocks, and sums that stay exact."""
        if problem.n % _GRAIN or problem.k % 32 or not 0 < problem.k <= _MOST_K:
            return f"n is a multiple of {_GRAIN}, k one of 32 up to {_MOST_K}"
        return ""

    def sized(self, facts: DeviceFacts, step: int) -> Problem | None:
        """Return a block's work first, then a whole device's, with ever more products."""
        if step == 0:
            return Problem(n=_GRAIN, k=_LEAST_K)
        k = _LEAST_K << 2 * (step - 1)
        n = -(-lanes(facts, 1) * self.sums_per_lane // _GRAIN) * _GRAIN
        return Problem(n=n, k=k) if k <= _MOST_K else None

    def threads(self, member: Mapping[str, int], problem: Problem) -> int:
        """Return a thread for every chain of sums."""
        return problem.n // member["chains"]

    def operations(self, problem: Problem) -> int:
        """Count a multiplication and an addition for each product."""
        return 2 * problem.n * problem.k

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        rng: np.random.Generator,
    ) -> str:
        """Compare every sum."""
        import numpy as np

        right = self.right(problem, {name: each.astype(np.int64) for name, each in inputs.items()})
        wrong = int(np.count_nonzero(np.asarray(outputs["y"], np.float64) != right))
        return f"{wrong} of {problem.n} sums are wrong" if wrong else ""

    @abstractmethod
    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the sums that inputs, as whole numbers, come to."""


class Float32(Arithmetic):
    """y = x and k times factors[0] * y + factors[1], where factors[0] is 1."""

    name = "calibrate_float32"
    kernel = "float32"
    figure = "float32_per_s"
    sums_per_lane = 4
    arguments = (
        Argument("x", "float32", "read"),
        Argument("factors", "float32", "read"),
        Argument("y", "float32", "write"),
    )
    members = (
        shape("c8", HOST, chains=8),
        shape("c16", HOST, chains=16),
        shape("t256c4", SIMT, threads=256, chains=4),
        shape("t256c8", SIMT, threads=256, chains=8),
        shape("t128c16", SIMT, threads=128, chains=16),
    )

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), two factors, y (N)."""
        return {"x": (problem.n,), "factors": (2,), "y": (problem.n,)}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Make beginnings, and 1 and a small number."""
        import numpy as np

        x = rng.integers(-99, 100, problem.n).astype(np.float32)
        return {"x": x, "factors": np.array([1, rng.integers(1, 8)], np.float32)}

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the beginning and k times the second factor."""
        right: NDArray[Any] = inputs["x"] + problem.k * inputs["factors"][1]
        return right


class Int8Dot(Arithmetic):
    """y = x and k / 32 times eight dot products of four, of the words a and b.

    The bytes of a are not negative: it is all one whether an instruction takes them as signed.
    """

    name = "calibrate_int8_dot"
    kernel = "int8_dot"
    figure = "int8_dot_per_s"
    sums_per_lane = 4
    arguments = (
        Argument("x", "int32", "read"),
        Argument("a", "int8", "read"),
        Argument("b", "int8", "read"),
        Argument("y", "int32", "write"),
    )
    members = (
        shape("c4", HOST, chains=4),
        shape("c8", HOST, chains=8),
        shape("t256c4", SIMT, threads=256, chains=4),
        shape("t256c8", SIMT, threads=256, chains=8),
    )

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), a and b of 32 bytes, y (N)."""
        return {"x": (problem.n,), "a": (32,), "b": (32,), "y": (problem.n,)}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Make beginnings, and bytes whose products stay small."""
        import numpy as np

        return {
            "x": rng.integers(-99, 100, problem.n).astype(np.int32),
            "a": rng.integers(0, 8, 32).astype(np.int8),
            "b": rng.integers(-3, 4, 32).astype(np.int8),
        }

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the beginning and k / 32 times the product of a and b."""
        right: NDArray[Any] = inputs["x"] + problem.k // 32 * (inputs["a"] @ inputs["b"])
        return right


class Matrix(Arithmetic):
    """Tiles y (16, 16) = start[tile % 16] and k / K times a (16, K) by the transpose of b (16, K).

    The member's `wide` says which element type; K is 32 for 8-bit numbers, else 16.
    """

    kernel = "matrix"
    spoken = (SIMT,)
    sums_per_lane = 8
    depth: int

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return a and b (16, K), 16 beginnings, y (N)."""
        operand = (_TILE, self.depth)
        return {"a": operand, "b": operand, "start": (_TILE,), "y": (problem.n,)}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Make operands so small that every element type holds them."""
        import numpy as np

        return {
            "a": rng.integers(-3, 4, (_TILE, self.depth)).astype(np.int8),
            "b": rng.integers(-3, 4, (_TILE, self.depth)).astype(np.int8),
            "start": rng.integers(-99, 100, _TILE).astype(np.int8),
        }

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return every tile, one after the other."""
        import numpy as np

        added = problem.k // self.depth * (inputs["a"] @ inputs["b"].T).reshape(-1)
        tiles = np.arange(problem.n // added.size) % _TILE
        right: NDArray[Any] = (inputs["start"][tiles][:, None] + added).reshape(-1)
        return right


def _matrix_arguments(sums: str) -> tuple[Argument, ...]:
    operands = (Argument(name, "int8", "read") for name in ("a", "b", "start"))
    return (*operands, Argument("y", sums, "write"))


class HalfMatrix(Matrix):
    """Half-precision operands, sums in float32."""

    name = "calibrate_half_matrix"
    figure = "half_matrix_per_s"
    depth = 16
    arguments = _matrix_arguments("float32")
    members = (
        shape("t128c4", SIMT, threads=128, chains=4, wide=1),
        shape("t256c8", SIMT, threads=256, chains=8, wide=1),
    )


class Int8Matrix(Matrix):
    """8-bit operands, sums in int32."""

    name = "calibrate_int8_matrix"
    figure = "int8_matrix_per_s"
    depth = 32
    arguments = _matrix_arguments("int32")
    members = (
        shape("t128c4", SIMT, threads=128, chains=4, wide=0),
        shape("t256c8", SIMT, threads=256, chains=8, wide=0),
    )
