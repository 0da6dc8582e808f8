"""Matrices of a model become problems of the families that store weights alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xpu.model import Family, Problem
from xpu.probes import ModelProblems
from xpu.spec import Argument, ModelMatrix, OpenModel


class Model(OpenModel):
    path = Path("model")

    def matrices(self):
        four, six = {"format": "four"}, {"format": "six"}
        return (
            ModelMatrix("first", four, n=64, k=256),
            ModelMatrix("second", four, n=32, k=512),
            ModelMatrix("twin of the first", four, n=64, k=256),
            ModelMatrix("other", six, n=64, k=256),
            ModelMatrix("another", six, n=64, k=512),
            ModelMatrix("last", {"format": "half", "order": "rows"}, n=8, k=8),
        )

    def rows(self, matrix):
        return np.frombuffer(matrix.name.encode(), np.uint8)

    def close(self):
        return


class Takes:
    """As much of a design as is looked at."""

    preparation = None
    arguments = (Argument("weights", "uint8", "read"), Argument("y", "float32", "write"))


def family(format_: str, problem=("m", "n", "k")) -> Family:
    return Family("any", "any", problem, (), constants={"format": format_})


@pytest.fixture
def problems() -> ModelProblems:
    return ModelProblems(Model(), (1, 8))


def test_each_shape_once_at_each_batch_in_the_order_of_the_file(problems) -> None:
    keys = [problem.key for problem in problems.problems(family("four"))]
    assert keys == ["1x64x256", "8x64x256", "1x32x512", "8x32x512"]


def test_sizes_are_in_the_familys_order(problems) -> None:
    keys = [problem.key for problem in problems.problems(family("six", ("k", "m", "n")))]
    assert keys == ["256x1x64", "256x8x64", "512x1x64", "512x8x64"]


def test_a_family_of_other_sizes_or_constants_has_no_problem(problems) -> None:
    assert problems.problems(family("four", ("n",))) == ()
    assert problems.problems(family("five")) == ()


@pytest.mark.parametrize(("n", "k", "name"), [(64, 256, "first"), (32, 512, "second")])
def test_the_data_are_the_rows_of_the_first_matrix_of_that_shape(problems, n, k, name) -> None:
    data = problems.data(family("four"), Takes(), Problem(m=8, n=n, k=k))
    assert {key: bytes(rows) for key, rows in data.items()} == {"weights": name.encode()}


def test_a_problem_that_the_model_does_not_hold_has_no_data(problems) -> None:
    assert problems.data(family("four"), Takes(), Problem(m=1, n=64, k=512)) is None
    assert problems.data(family("four", ("n",)), Takes(), Problem(n=64)) is None


def test_what_no_family_serves_is_counted_by_how_it_is_stored(problems) -> None:
    assert problems.left_out([family("four")]) == {"six": 2, "half, rows": 1}
    assert problems.left_out([family("four"), family("six")]) == {"half, rows": 1}
