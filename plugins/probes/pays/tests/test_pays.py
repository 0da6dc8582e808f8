"""What the probes compare, what they answer, and what they say where they cannot tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from xpu.model import MemberResult, Problem
from xpu.testing import RecordingContext
from xpu_probe_pays.cols import Cols
from xpu_probe_pays.contest import Way, contest, fastest_ns
from xpu_probe_pays.once import MatrixCoresPay, TileBeatsDequant
from xpu_probe_pays.plugin import xpu_probes

Times = Mapping[tuple[str, str], Sequence[MemberResult]]
ROWS = ({"m": 1, "n": 64, "k": 256}, {"m": 4, "n": 64, "k": 256}, {"m": 4, "n": 96, "k": 256})


def read(name: str, median_ns: float | None, status: str = "survivor") -> MemberResult:
    return MemberResult(name, status, median_ns=median_ns)  # type: ignore[arg-type]


class Part(RecordingContext):
    """A part on which members take what a test says."""

    def __init__(self, problems: Mapping[str, Sequence[Mapping[str, int]]], times: Times) -> None:
        super().__init__(problems)
        self.times = times
        self.arithmetics: dict[str, dict[str, str | None]] = {}
        self.build = "1"

    def members(self, family: str) -> Mapping[str, str | None]:
        return self.arithmetics.get(family, {"any": None})

    def code(self, family: str, problem: Problem) -> str:
        return f"{super().code(family, problem)} {self.build}"

    def measured(self, family: str, problem: Problem) -> Sequence[MemberResult]:
        super().measured(family, problem)
        return self.times.get((family, problem.key), ())


@pytest.mark.parametrize(
    ("cols_ns", "answer", "margin"),
    [(900.0, "cols", 775), (3870.0, "cols", 32), (3890.0, "single", 28), (8000.0, "single", 500)],
)
def test_a_launch_for_rows_pays_when_it_beats_as_many_for_one(
    cols_ns: float, answer: str, margin: int
) -> None:
    times = {
        ("one", "1x64x256"): [read("slow", 1500.0, "left"), read("fast", 1000.0)],
        ("few", "4x64x256"): [read("wrong", 1.0, "wrong"), read("right", cols_ns)],
    }
    part = Part({"one": ROWS[:2], "few": ROWS[:2]}, times)
    [result] = Cols().run(part)
    assert (result.family, result.problem) == ("colsPays-few-b4", "4x64x256")
    assert (result.member, result.source, result.stored) == (answer, "timed", True)
    assert (result.margin_permille, result.tie) == (margin, margin < 30)
    assert {each.name: each.median_ns for each in result.members} == {
        "single": 4000.0,
        "cols": cols_ns,
    }
    assert part.memory["colsPays-few-b4"].value == answer


def test_a_width_is_one_answer_for_all_its_matrices() -> None:
    times = {
        ("one", "1x64x256"): [read("a", 100.0)],
        ("one", "1x96x256"): [read("a", 1000.0)],
        ("few", "4x64x256"): [read("a", 500.0)],  # slower than four times 100
        ("few", "4x96x256"): [read("a", 1000.0)],
    }
    [result] = Cols().run(Part({"one": ROWS, "few": ROWS}, times))
    assert (result.member, result.problem) == ("cols", "4x64x256, 4x96x256")
    assert {each.name: each.median_ns for each in result.members} == {
        "single": 4400.0,
        "cols": 1500.0,
    }


def test_an_answer_is_asked_for_again_when_code_changes() -> None:
    times = {
        ("one", "1x64x256"): [read("a", 100.0)],
        ("few", "4x64x256"): [read("a", 200.0)],
    }
    part = Part({"one": ROWS[:2], "few": ROWS[:2]}, times)
    assert [it.source for it in Cols().run(part)] == ["timed"]
    [again] = Cols().run(part)
    assert (again.member, again.source, again.stored) == ("cols", "stored", True)
    part.build = "2"
    assert [it.source for it in Cols().run(part)] == ["timed"]


def test_pairs_without_a_source_are_passed_over_and_those_that_cannot_serve_are_said() -> None:
    families = {"one": ROWS[:2], "few": ROWS[:2], "other": ROWS[:2], "many": ROWS[:2]}
    part = Part(families, {("other", "1x64x256"): [read("a", 1.0)]})
    part.arithmetics["few"] = {}
    [result] = Cols().run(part)
    assert (result.family, result.source, result.member) == ("colsPays-many-b4", "refused", "")
    assert result.note == "no member of many can serve"
    assert part.memory == {}


@pytest.mark.parametrize(("matrix_ns", "answer"), [(40.0, "yes"), (60.0, "no")])
def test_matrix_operations_pay_or_do_not(matrix_ns: float, answer: str) -> None:
    times = {
        ("few", "4x64x256"): [read("dot", 50.0)],
        ("tile", "4x64x256"): [
            read("halves", matrix_ns),
            read("bytes", 70.0),
            read("plain", 55.0),
        ],
    }
    part = Part({"few": ROWS[1:2], "tile": ROWS[1:2]}, times)
    part.arithmetics = {
        "few": {"dot": None},
        "tile": {"halves": "half_matrix", "bytes": "int8_matrix", "plain": "float32"},
    }
    [result] = MatrixCoresPay().run(part)
    assert (result.family, result.member, result.source) == ("matrixCoresPay", answer, "timed")
    assert {each.name: each.median_ns for each in result.members} == {"no": 50.0, "yes": matrix_ns}
    assert (part.memory, part.in_memory) == ({}, {"matrixCoresPay": answer})
    [again] = MatrixCoresPay().run(part)
    assert (again.member, again.source) == (answer, "stored")
    assert len(part.timed) == 2


def test_a_problem_that_one_side_cannot_serve_counts_for_neither() -> None:
    times = {
        ("few", "1x64x256"): [read("any", 1.0)],
        ("few", "4x64x256"): [read("any", 50.0)],
        ("tile", "4x64x256"): [read("any", 40.0)],
    }
    part = Part({"few": ROWS[:2], "tile": ROWS[:2]}, times)
    part.arithmetics["tile"] = {"any": "int8_matrix"}
    [result] = MatrixCoresPay().run(part)
    assert (result.member, result.problem) == ("yes", "4x64x256")
    part = Part({"few": ROWS[:1], "tile": ROWS[:1]}, {})
    part.arithmetics["tile"] = {"any": "int8_matrix"}
    [result] = MatrixCoresPay().run(part)
    assert (result.member, result.note) == ("unknown", "no problem of the plan is served by both")
    assert part.in_memory == {}


def test_without_matrix_operations_nothing_is_measured() -> None:
    part = Part({"few": ROWS, "tile": ROWS}, {})
    [result] = MatrixCoresPay().run(part)
    assert (result.member, result.source) == ("unknown", "default")
    assert "have not both" in result.note
    assert (part.timed, part.in_memory) == ([], {})


@pytest.mark.parametrize(("tile_ns", "answer"), [(40.0, "yes"), (49.0, "no"), (90.0, "no")])
def test_tiles_beat_a_library_or_do_not(tile_ns: float, answer: str) -> None:
    times = {
        ("tile", "4x64x256"): [read("any", tile_ns)],
        ("library", "4x64x256"): [read("any", 50.0)],
    }
    part = Part({"tile": ROWS[1:2], "library": ROWS[1:2]}, times)
    [result] = TileBeatsDequant().run(part)
    assert (result.family, result.member) == ("tileBeatsDequant", answer)
    assert part.in_memory == {"tileBeatsDequant": answer}


@pytest.mark.parametrize("has_family", [True, False])
def test_without_a_library_it_cannot_tell(has_family: bool) -> None:
    part = Part({"tile": ROWS, **({"library": ROWS} if has_family else {})}, {})
    part.arithmetics["library"] = {}
    [result] = TileBeatsDequant().run(part)
    assert (result.member, result.note) == (
        "unknown",
        "there is no library family to compare tiles with",
    )
    assert part.timed == []


def test_the_fastest_is_one_that_is_right() -> None:
    results = [
        read("a", 3.0),
        read("b", 2.0, "left"),
        read("c", 1.0, "wrong"),
        read("d", None, "failed"),
    ]
    assert fastest_ns(results) == 2.0
    assert fastest_ns(results, ["a", "c"]) == 3.0
    assert fastest_ns(results, ["c"]) is None
    assert fastest_ns([]) is None


def test_a_lead_within_a_tie_does_not_pay() -> None:
    def answer(new_ns: float) -> str:
        return contest("q", "p", "warm", Way("usual", 1000.0), Way("new", new_ns)).member

    assert [answer(ns) for ns in (969.0, 971.0, 1000.0, 1500.0)] == [
        "new",
        "usual",
        "usual",
        "usual",
    ]


def test_the_plugin_brings_them_under_their_names() -> None:
    probes = {probe.name: probe for probe in xpu_probes()}
    assert set(probes) == {"cols", "matrix_cores_pay", "tile_beats_dequant"}
    assert all(probe.summary for probe in probes.values())
