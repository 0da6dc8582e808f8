"""Tests of a family's members on every backend at hand, and of the judgement of their results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.errors import XpuLaunchException
from xpu.model import Problem
from xpu.orchestrator import Orchestrator, availability_of
from xpu.orchestrator.arguments import result_place
from xpu.spec import Argument, host_dtype, is_float
from xpu.spec.elements import BFLOAT16
from xpu.testing.member_runner import COMPILES, MemberRunner, written
from xpu.testing.surroundings import Suite, skip_for

if TYPE_CHECKING:
    from xpu.testing.family_cases import Case, Cases

_LOOKS: Final = 16
"""How often half a wrong result has to be noticed: a look at one element passes once in 65,536."""

_PARTS: Final = 3
"""Parts of k to try: a number that seldom divides the blocks of k, so that parts differ."""


@attrs.frozen(eq=False)
class Result:
    """What one member gave on fresh data, and the one whose result is judged."""

    problem: Problem
    inputs: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]


class MemberTests(Suite):
    """Members compiled, run, and their results judged. The cases come from `FamilySuite`."""

    promises_nan: ClassVar[bool] = True

    @pytest.fixture(scope="class")
    @classmethod
    def runners(cls) -> Iterator[dict[str, MemberRunner]]:
        """Keep the backends that were opened, by name."""
        opened: dict[str, MemberRunner] = {}
        yield opened
        for one in opened.values():
            one.close()

    @pytest.fixture
    def runner(
        self, cases: Cases, runners: dict[str, MemberRunner], backend_name: str
    ) -> MemberRunner:
        """Open one backend; tests are skipped where it is not available."""
        if backend_name not in runners:
            backend = cases.registry.backend(backend_name)
            state = availability_of(backend)
            if not state.is_available:
                pytest.skip(f"backend {backend_name!r} has no device here: {state.reason}")
            runners[backend_name] = MemberRunner(backend, cases.registry, cases.settings, None)
        return runners[backend_name]

    @pytest.fixture
    def result(self, case: Case, runner: MemberRunner, rng: np.random.Generator) -> Result:
        """Run the first member that can be launched, on the second problem."""
        problem = middle(case)
        inputs = dict(case.design.data(problem, case.family.constants, rng))
        member = launchable(runner, case, problem)[0]
        try:
            outputs = runner.run(case.family, member, problem, inputs)
        except (AssertionError, pytest.fail.Exception) as fault:
            skip_for(str(fault), "a result to judge", "test_every_member_is_right")
        return Result(problem, inputs, outputs)

    def test_every_member_compiles(self, case: Case, runner: MemberRunner) -> None:
        names = {name for problem in case.problems for name in runner.members(case.family, problem)}
        faults = runner.compile_faults(case.family, sorted(names))
        assert not faults, "\n".join(faults)

    def test_every_member_is_right(
        self, case: Case, runner: MemberRunner, rng: np.random.Generator
    ) -> None:
        for problem in case.problems:
            inputs = dict(case.design.data(problem, case.family.constants, rng))
            before = {name: array.tobytes() for name, array in inputs.items()}
            for member in launchable(runner, case, problem):
                outputs = runner.run(case.family, member, problem, inputs)
                fault = judged(case, Result(problem, inputs, outputs), rng)
                assert fault == "", f"{member} on {problem.key}: {fault}"
            after = {name: array.tobytes() for name, array in inputs.items()}
            assert after == before, "verify changed its inputs"

    def test_parts_of_k_add_up_to_the_result(
        self, case: Case, runner: MemberRunner, rng: np.random.Generator
    ) -> None:
        split = {
            member: problem
            for problem in case.problems  # the last one that is split
            for member in launchable(runner, case, problem)
            if runner.is_split(case.family, member, problem, _PARTS)
        }
        if not split:
            pytest.skip(f"parts of k: no launch of {case.design.name!r} heeds 'splits'")
        for member, problem in split.items():
            inputs = dict(case.design.data(problem, case.family.constants, rng))
            outputs = runner.run(case.family, member, problem, inputs, _PARTS)
            fault = judged(case, Result(problem, inputs, outputs), rng)
            assert fault == "", f"{member} on {problem.key} in {_PARTS} parts of k: {fault}"

    @pytest.mark.parametrize("how", ["poison", "nan", "zero", "shifted", "scaled", "half"])
    def test_a_wrong_result_is_noticed(
        self, case: Case, result: Result, rng: np.random.Generator, how: str
    ) -> None:
        spoilt_names = []
        for argument in written(case.design):
            harmed = spoilt(result.outputs[argument.name], how, argument.dtype)
            # Not all kinds of harm can be done to every array: whole numbers have no NaN.
            if harmed is None or harmed.tobytes() == result.outputs[argument.name].tobytes():
                continue
            spoilt_names.append(argument.name)
            outputs = {**result.outputs, argument.name: harmed}
            # Where half of it is right, who looks at a few results must not need luck.
            for _ in range(_LOOKS if how == "half" else 1):
                fault = judged(case, attrs.evolve(result, outputs=outputs), rng)
                assert fault, f"verify accepts a result in which {argument.name!r} is {how}"
        if not spoilt_names:
            pytest.skip(f"{how}: that changes nothing in what {case.design.name!r} writes")

    def test_a_result_left_as_it_was_is_noticed(
        self, case: Case, result: Result, rng: np.random.Generator
    ) -> None:
        updated = [it.name for it in case.design.arguments if it.access == "update"]
        if not updated:
            pytest.skip("update in place: no argument is updated")
        outputs = {**result.outputs, **{name: result.inputs[name] for name in updated}}
        assert judged(case, attrs.evolve(result, outputs=outputs), rng), (
            f"verify accepts {', '.join(updated)} as it was before the launch"
        )

    def test_a_row_that_is_not_finite_harms_no_other(
        self, case: Case, runner: MemberRunner, rng: np.random.Generator
    ) -> None:
        if not self.promises_nan:
            pytest.skip("rows that are not finite: the suite sets promises_nan = False")
        problem = middle(case)
        inputs = dict(case.design.data(problem, case.family.constants, rng))
        target = case.design.arguments[-1]
        argument = rowwise(case, problem, target)
        if argument is None:
            pytest.skip(f"rows: no float argument shares its first axis with {target.name!r}")
        row = int(rng.integers(inputs[argument.name].shape[0]))
        harmed = inputs[argument.name].copy()
        harmed.reshape(len(harmed), -1)[row, -1] = _nan(argument.dtype)
        for member in launchable(runner, case, problem):
            clean = runner.run(case.family, member, problem, inputs)[target.name]
            given = {**inputs, argument.name: harmed}
            outputs = runner.run(case.family, member, problem, given)
            others = np.arange(len(clean)) != row
            assert outputs[target.name][others].tobytes() == clean[others].tobytes(), (
                f"{member}: a NaN in row {row} of {argument.name!r} changed other rows"
            )
            fault = judged(case, Result(problem, given, outputs), rng)
            assert fault == "", f"{member}, a NaN in row {row} of {argument.name!r}: {fault}"

    def test_a_size_of_zero_is_served(self, case: Case, cases: Cases, runner: MemberRunner) -> None:
        design, least = case.design, case.problems[0].sizes
        problems = [Problem(**{**least, name: 0}) for name in least]
        taken = [it for it in problems if not design.check_problem(it, case.family.constants)]
        if not taken:
            pytest.skip("a size of 0: the design accepts none")
        if runner.compile_faults(case.family, launchable(runner, case, case.problems[0])):
            skip_for("does not compile", case.family.name, COMPILES)
        with Orchestrator(
            backend=runner.backend.name, registry=cases.registry, tuning="off"
        ) as orchestrator:
            for problem in taken:
                shapes = design.shapes(problem, case.family.constants)
                arrays = [
                    np.zeros(shapes[it.name], host_dtype(it.dtype)) for it in design.arguments
                ]
                out = arrays.pop(result_place(design.arguments))
                kernel = orchestrator.bind(case.family.name, memory=None, **problem.sizes)
                try:
                    assert kernel(*arrays, out=out) is out
                except XpuLaunchException as error:
                    pytest.skip(f"arrays of the host: {error}")
                assert not out.any(), f"{problem.key}: something was launched"


def middle(case: Case) -> Problem:
    """Return a problem that is neither the least nor the largest, where there is one."""
    return case.problems[min(1, len(case.problems) - 1)]


def launchable(runner: MemberRunner, case: Case, problem: Problem) -> tuple[str, ...]:
    """Name the members that the backend's device can launch; skip the test where none is."""
    names = runner.members(case.family, problem)
    if not names:
        pytest.skip(f"backend {runner.backend.name!r}: no member fits it on {problem.key}")
    missing = runner.missing(case.family, names)
    found = tuple(name for name in names if name not in missing)
    if not found:
        pytest.skip(f"libraries: {'; '.join(dict.fromkeys(missing.values()))}")
    return found


def judged(case: Case, result: Result, rng: np.random.Generator) -> str:
    """Return what the design says of a result."""
    fault = case.design.verify(
        result.problem, case.family.constants, result.inputs, result.outputs, rng
    )
    assert isinstance(fault, str), f"verify returned {fault!r}, not a text"
    return fault


def spoilt(array: NDArray[Any], how: str, dtype: str) -> NDArray[Any] | None:
    """Return an array as a kernel that is wrong may leave it; None when it cannot be so."""
    harmed = array.copy()
    match how:
        case "poison":
            return np.full(array.nbytes, 0xFF, np.uint8).view(array.dtype).reshape(array.shape)
        case "nan":
            return np.full_like(array, _nan(dtype)) if is_float(dtype) else None
        case "zero":
            return np.zeros_like(array)
        case "shifted":
            return np.roll(array, 1)
        case "scaled":
            return _changed(harmed, dtype)
        case _:
            flat = harmed.reshape(-1)
            flat[array.size // 2 :] = _changed(flat[array.size // 2 :], dtype)
            return harmed


def _changed(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype == BFLOAT16:
        flipped: NDArray[Any] = np.bitwise_xor(array, 0x0080)  # the lowest bit of the exponent
        return flipped
    changed = array * 1.5 if array.dtype.kind == "f" else array + 1
    return changed.astype(array.dtype)


def _nan(dtype: str) -> Any:
    return 0x7FC0 if dtype == BFLOAT16 else np.nan


def rowwise(case: Case, problem: Problem, target: Argument) -> Argument | None:
    """Return a float argument whose rows are the result's rows; None when there is none.

    They are when the same size of the problem sets the length of both.
    """
    constants = case.family.constants
    shapes = case.design.shapes(problem, constants)
    for name, size in problem.sizes.items():
        longer = (Problem(**{**problem.sizes, name: size * step}) for step in (2, 3, 4))
        other = next((it for it in longer if not case.design.check_problem(it, constants)), None)
        if other is None:
            continue
        grown = case.design.shapes(other, constants)
        for argument in case.design.arguments:
            if argument.access == "write" or not is_float(argument.dtype):
                continue
            pairs = [(shapes[it.name], grown[it.name]) for it in (argument, target)]
            both_grow = all(now and then and now[0] != then[0] for now, then in pairs)
            if both_grow and shapes[argument.name][0] == shapes[target.name][0] > 1:
                return argument
    return None
