"""The kit's designs for what the dialect `c` has beyond plain code: phases, instruction sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from xpu.model import Constant, Problem
from xpu.spec import Argument
from xpu.testing.designs import KitDesign, wrong_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from xpu.spec.design import Arrays


class KitPhases(KitDesign):
    """What a launch in phases is promised, on x (N): a column of y (N, 5) for each promise."""

    name = "kit_phases"
    what = "phases and scratch memory"
    small: Mapping[str, int] = {"n": 255}
    parameters = ()
    problem = ("n",)
    columns: Final = (
        "scratch memory that is kept from phase to phase",
        "scratch memory that is 64-byte aligned",
        "every worker once in each phase, and a work counter that begins at 0",
        "team->phase",
        "results of one phase that all workers see in the next",
    )
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), y (N, 5)."""
        return {"x": (problem.n,), "y": (problem.n, len(self.columns))}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make normally distributed numbers."""
        return {"x": rng.standard_normal(problem.n, dtype="float32")}

    def elements(self, problem: Problem) -> int:
        """Count the elements of x."""
        return problem.n

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return y: x reversed, offsets past a multiple of 64, items taken, the phase, x."""
        import numpy as np

        x = inputs["x"]
        columns = (x[::-1], 0 * x, np.full_like(x, len(x)), np.ones_like(x), x)
        return np.stack(columns, axis=1)

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Arrays,
        outputs: Arrays,
        rng: np.random.Generator,
    ) -> str:
        """Compare every column."""
        wrong = wrong_columns(outputs["y"], self.right(problem, dict(inputs)), self.columns)
        return f"not kept: {wrong}" if wrong else ""


class KitIsa(KitDesign):
    """An instruction of each instruction set that the compiler's macros say may be used.

    With `set` 0 the kernel writes the macros that are defined, each ended by a space; with
    another it runs an instruction of that one, counted from 1, which gives five times x.
    """

    name = "kit_isa"
    what = "macros for instruction sets"
    small: Mapping[str, int] = {"set": 0}
    parameters = ()
    problem = ("set",)
    arguments = (Argument("x", "int32", "read"), Argument("y", "uint8", "write"))

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (1), y (2048)."""
        return {"x": (1,), "y": (2048,)}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make a number above 0 of which five times fits a byte."""
        return {"x": rng.integers(1, 50, 1).astype("int32")}

    def elements(self, problem: Problem) -> int:
        """Return 1."""
        return 1

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the product in the first byte, which is what every set but 0 gives."""
        import numpy as np

        y = np.zeros(2048, np.uint8)
        y[0] = 5 * inputs["x"][0]
        return y

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Arrays,
        outputs: Arrays,
        rng: np.random.Generator,
    ) -> str:
        """Compare the product; or the characters of a list with those of a list of macros."""
        given = outputs["y"]
        if problem.sizes["set"] == 0:
            text = given.tobytes().rstrip(b"\0")
            words = text.decode("ascii", "replace").split()
            are_names = all(word.isidentifier() for word in words)
            return "" if are_names else f"{text!r} is no list of macros"
        return super().verify(problem, constants, inputs, outputs, rng)
