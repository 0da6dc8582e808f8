"""The kit's designs for what the dialect `simt` has beyond plain code: matrices and wave verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from xpu.model import Constant, Problem
from xpu.spec import Argument, Launch
from xpu.testing.designs import THREADS, KitDesign, wrong_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from xpu.spec.design import Arrays


class KitMatrix(KitDesign):
    """y (16, 16) = a (16, K) times the transpose of b (16, K), in whole numbers."""

    name = "kit_matrix"
    what = "matrix verbs"
    rows, columns, depth = 16, 16, 16  # of y, and what k is a multiple of
    small: Mapping[str, int] = {"k": 16}
    parameters = ("kind",)
    problem = ("k",)
    arguments = (
        Argument("a", "int8", "read"),
        Argument("b", "int8", "read"),
        Argument("y", "int32", "write"),
    )

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return a (rows, K), b (columns, K), y (rows, columns)."""
        k, rows, columns = problem.k, self.rows, self.columns
        return {"a": (rows, k), "b": (columns, k), "y": (rows, columns)}

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept multiples of the depth."""
        return f"k = {problem.k} is no multiple of {self.depth}" if problem.k % self.depth else ""

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make numbers so small that sums of their products are exact in every element type."""
        shapes = self.shapes(problem, constants)
        return {name: rng.integers(-11, 12, shapes[name]).astype("int8") for name in ("a", "b")}

    def elements(self, problem: Problem) -> int:
        """Count the threads of the one block."""
        return THREADS

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the product."""
        product: NDArray[Any] = inputs["a"].astype("int32") @ inputs["b"].astype("int32").T
        return product


class KitLines(KitMatrix):
    """y (64, 32) = a (64, K) times the transpose of b (32, K), in whole numbers."""

    name = "kit_lines"
    what = "products with lines that a block shares"
    rows, columns, depth = 64, 32, 64
    small: Mapping[str, int] = {"k": 64}

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return a block of waves that multiply together, with lines of 16-bit numbers."""
        shared = self.columns * self.depth * 2
        return Launch((1, 1, 1), (member["threads"], 1, 1), dynamic_shared_bytes=shared)


class KitVerbs(KitDesign):
    """What each wave and block verb gives on x (N), a column of y (N, 14) for each."""

    name = "kit_verbs"
    what = "wave and block verbs"
    small: Mapping[str, int] = {"n": THREADS}
    parameters = ()
    problem = ("n",)
    columns: Final = (
        *("wave_width", "shuffle", "shuffle_xor", "shuffle_down", "wave_sum", "wave_max"),
        *("group_sum", "wave_any", "dot4", "dot4_us", "half", "bfloat16", "barrier", "copy_async"),
    )
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), y (N, 14)."""
        return {"x": (problem.n,), "y": (problem.n, len(self.columns))}

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept whole blocks."""
        return f"n = {problem.n} is no multiple of {THREADS}" if problem.n % THREADS else ""

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make whole numbers, whose sums are exact in any order."""
        return {"x": rng.integers(-100, 101, problem.n).astype("float32")}

    def elements(self, problem: Problem) -> int:
        """Count the elements of x."""
        return problem.n

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return what is right on waves of 32 lanes; see `right_at`."""
        return self.right_at(32, inputs["x"])

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Arrays,
        outputs: Arrays,
        rng: np.random.Generator,
    ) -> str:
        """Compare every column, at the wave width that the kernel says it has."""
        import numpy as np

        given = np.asarray(outputs["y"])
        width = float(given[0, 0])
        if width not in (8, 16, 32, 64):
            return f"the wave is said to have {width:g} lanes"
        expected = self.right_at(int(width), np.asarray(inputs["x"]))
        return wrong_columns(given, expected, self.columns)

    def right_at(self, width: int, x: NDArray[Any]) -> NDArray[Any]:
        """Return y, (N, 14), on waves of `width` lanes."""
        import numpy as np

        waves, blocks = x.reshape(-1, width), x.reshape(-1, THREADS)
        lane = np.arange(width)
        down = np.where(lane + 2 < width, lane + 2, lane)
        byte = x.astype(np.int32) & 0xFF
        scaled = x * np.float32(0.34567)
        rounded = scaled.view(np.uint32)
        rounded = (rounded + 0x7FFF + (rounded >> 16 & 1)) & np.uint32(0xFFFF0000)
        parts: list[Any] = [
            np.full(x.shape, width),
            np.broadcast_to(waves[:, 3:4], waves.shape),
            waves[:, lane ^ 5],
            waves[:, down],
            np.broadcast_to(waves.sum(axis=1, keepdims=True), waves.shape),
            np.broadcast_to(waves.max(axis=1, keepdims=True), waves.shape),
            np.repeat(x.reshape(-1, 8).sum(axis=1), 8),
            np.broadcast_to((waves > 90).any(axis=1, keepdims=True), waves.shape),
            # The second operand's bytes are 1, 3, -1 and 2; the sum begins at 7.
            7 + 5 * byte.astype(np.int8).astype(np.int32),
            7 + 5 * byte,
            scaled.astype(np.float16),
            rounded.view(np.float32),
            np.repeat(blocks.sum(axis=1), THREADS),
            blocks[:, ::-1],
        ]
        return np.stack([part.reshape(-1).astype(np.float32) for part in parts], axis=1)
