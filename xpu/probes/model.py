"""A model file's weight matrices as problems, with its own weights as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from xpu.errors import XpuConfigError
from xpu.model import Family, Problem
from xpu.spec import Design, ModelMatrix, OpenModel

if TYPE_CHECKING:
    from xpu.spec.design import Arrays

_SIZES: Final = frozenset({"m", "n", "k"})
_LARGEST_BATCH: Final = 1 << 20
_LONGEST_RANGE: Final = 4095  # from its first to its last


def parse_batches(text: str) -> tuple[int, ...]:
    """Read ``1,8,64`` or ``1-16,64`` as batch sizes, in order, each once.

    Raises
    ------
    XpuConfigError
        The text holds something else than whole numbers of 1 or more.
    """
    batches: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        bounds = (first, last if dash else first)
        if not all(bound.isascii() and bound.isdigit() and len(bound) < 16 for bound in bounds):
            raise XpuConfigError(
                f"batches are numbers and ranges, as in 1,8,64 or 1-16; given: {text!r}"
            )
        low, high = int(bounds[0]), int(bounds[1])
        if not 1 <= low <= high <= _LARGEST_BATCH or high - low > _LONGEST_RANGE:
            raise XpuConfigError(
                f"batches are 1 to {_LARGEST_BATCH}, a range ascending and of at most "
                f"{_LONGEST_RANGE + 1}; given: {part.strip()!r} of {text!r}"
            )
        batches.update(dict.fromkeys(range(low, high + 1)))
    return tuple(batches)


class ModelProblems:
    """The problems of an open model: each matrix shape once, at each batch size."""

    def __init__(self, model: OpenModel, batches: Sequence[int]) -> None:
        self._model = model
        self._batches = tuple(batches)
        self._matrices = tuple(model.matrices())

    def problems(self, family: Family) -> tuple[Problem, ...]:
        """Return a family's problems in the order of the file; none when it serves no matrix."""
        if set(family.problem) != _SIZES:
            return ()
        found: dict[Problem, None] = {}
        for matrix in self._of(family.constants):
            for batch in self._batches:
                sizes = {"m": batch, "n": matrix.n, "k": matrix.k}
                found[Problem(**{name: sizes[name] for name in family.problem})] = None
        return tuple(found)

    def data(self, family: Family, design: Design, problem: Problem) -> Arrays | None:
        """Return the weights of the first matrix of a problem's shape, by argument name."""
        if set(family.problem) != _SIZES:
            return None
        argument = design.preparation.argument if design.preparation else design.arguments[0].name
        for matrix in self._of(family.constants):
            if (matrix.n, matrix.k) == (problem.sizes["n"], problem.sizes["k"]):
                return {argument: self._model.rows(matrix)}
        return None

    def left_out(self, families: Sequence[Family]) -> Mapping[str, int]:
        """Count, by how they are stored, the matrices that no family serves."""
        served = [dict(family.constants) for family in families]
        counts: dict[str, int] = {}
        for matrix in self._matrices:
            if dict(matrix.constants) not in served:
                kind = ", ".join(str(value) for value in matrix.constants.values())
                counts[kind] = counts.get(kind, 0) + 1
        return counts

    def _of(self, constants: Mapping[str, object]) -> list[ModelMatrix]:
        return [matrix for matrix in self._matrices if dict(matrix.constants) == dict(constants)]
