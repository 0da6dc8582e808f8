"""The kit's own designs: small kernels whose results every backend can be held to, bit by bit.

A suite builds them on the backend under test. The kit has their kernels in the dialects `c`
and `simt`, where these have what a design is about; a backend with a dialect of its own hands its
kernels in, as a plugin does that adds a dialect to another one's design.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from xpu.errors import XpuConfigError
from xpu.model import Constant, Problem
from xpu.spec import Argument, Design, KernelSource, Launch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from xpu.spec.design import Array, Arrays

THREADS: Final = 64
"""Threads of a block: whole waves on every part known."""

SUFFIXES: Final = {"c": ".c", "simt": ".cpp"}
"""The dialects of the kit, and what their files end with."""
_HEADERS: Final = ("kit_table.h", "kit_deep.h")


class KitDesign(Design):
    """A design of the kit.

    Attributes
    ----------
    what
        What a backend needs for it, in the words of a skipped test.
    small
        A problem to see whether a kernel ends at all.
    """

    what: str
    small: Mapping[str, int]
    constants: Mapping[str, Constant] = {}

    def dialects(self) -> tuple[str, ...]:
        """Name the dialects that the kit itself has a kernel in."""
        folder = resources.files("xpu.testing") / "kernels"
        return tuple(
            dialect
            for dialect, suffix in SUFFIXES.items()
            if (folder / dialect / f"{self.name}{suffix}").is_file()
        )

    def source(self, dialect: str) -> KernelSource:
        """Return the kit's kernel in a dialect."""
        if dialect not in self.dialects():
            raise XpuConfigError(f"the kit has no kernel for {self.name!r} in dialect {dialect!r}")
        folder = resources.files("xpu.testing") / "kernels"
        text = (folder / dialect / f"{self.name}{SUFFIXES[dialect]}").read_text("utf-8")
        return KernelSource(
            dialect, text, {name: (folder / name).read_text("utf-8") for name in _HEADERS}
        )

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return one thread for each `step` elements; the host's dialect needs none of it."""
        if dialect == "c":
            return Launch()
        blocks = -(-self.elements(problem) // (THREADS * member.get("step", 1)))
        return Launch((max(blocks, 1), 1, 1), (THREADS, 1, 1))

    @abstractmethod
    def elements(self, problem: Problem) -> int:
        """Return how many elements the threads of a launch share."""

    @abstractmethod
    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the right result, exact to the last bit; an update is of `inputs`."""

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Arrays,
        outputs: Arrays,
        rng: np.random.Generator,
    ) -> str:
        """Compare every element of the result."""
        given: Array = outputs[self.arguments[-1].name]
        wrong = int((given != self.right(problem, inputs)).sum())
        return f"{wrong} of {given.size} elements are wrong" if wrong else ""


def wrong_columns(given: NDArray[Any], expected: NDArray[Any], names: Sequence[str]) -> str:
    """Name the columns that hold anything wrong."""
    wrong = (given != expected).any(axis=0)
    return ", ".join(name for name, bad in zip(names, wrong, strict=True) if bad)


class KitTable(KitDesign):
    """y (M, N) = factor * (a (M) - b (N)): order of buffers and sizes, macros, odd ends."""

    name = "kit_table"
    what = "a kernel of reads and writes"
    small: Mapping[str, int] = {"m": 3, "n": 17}
    parameters = ("step",)
    problem = ("m", "n")
    constants: Mapping[str, Constant] = {"factor": 2}
    arguments = (
        Argument("a", "float32", "read"),
        Argument("b", "float32", "read"),
        Argument("y", "float32", "write"),
    )

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return a (M), b (N), y (M, N)."""
        return {"a": (problem.m,), "b": (problem.n,), "y": (problem.m, problem.n)}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make normally distributed numbers."""
        return {
            "a": rng.standard_normal(problem.m, dtype="float32"),
            "b": rng.standard_normal(problem.n, dtype="float32"),
        }

    def elements(self, problem: Problem) -> int:
        """Count the elements of y."""
        return problem.m * problem.n

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """One subtraction rounds; a factor of two does not."""
        table: NDArray[Any] = 2 * (inputs["a"][:, None] - inputs["b"][None, :])
        return table


class KitInPlace(KitDesign):
    """y (N) += x (N): memory that is read and written."""

    name = "kit_in_place"
    what = "a kernel that works in place"
    small: Mapping[str, int] = {"n": 255}
    parameters = ("step",)
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "update"))

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return x (N), y (N)."""
        return {"x": (problem.n,), "y": (problem.n,)}

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make normally distributed numbers."""
        return {name: rng.standard_normal(problem.n, dtype="float32") for name in ("x", "y")}

    def elements(self, problem: Problem) -> int:
        """Count the elements of y."""
        return problem.n

    def right(self, problem: Problem, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the sum."""
        total: NDArray[Any] = inputs["y"] + inputs["x"]
        return total
