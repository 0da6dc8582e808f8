from __future__ import annotations

import json
import math
from typing import Any

import pytest
from choice_findings import (
    TRITON,
    add_answers,
    asked,
    merged,
    merged_conditions,
    rows,
    verdicts,
)

POINT = [128, 4096, 4096]


def oracle(**excess: float) -> dict[str, Any]:
    members = {name: [math.log1p(each), 0.0, 100.0] for name, each in excess.items()}
    return {"members": members, "rounds": 50, "faults": {}}


def run(winner: str | None, seconds: float | None = 0.05, **more: Any) -> dict[str, Any]:
    return {"winner": winner, "seconds": seconds, "check_s": 0.3, "members": 8, **more}


def question(
    *winners: str, family: str = "q4k_tile", seconds: float = 0.05, point: Any = POINT
) -> Any:
    one = asked(family, point)
    add_answers([one], [oracle(a=0.0, b=0.005, c=0.02)], "oracles")
    for winner in winners:
        add_answers([one], [run(winner, seconds)], "runs")
    return one


def test_a_row_says_regret_flips_and_seconds() -> None:
    one = question("a", "b", "a", "c")
    one["runs"][3] |= {"seconds": 0.2, "load": 0.5}
    [row] = rows([one])
    assert row["problem"] == "128x4096x4096"
    assert (row["best"], row["winners"]) == ("a", "a 2, b 1, c 1")
    assert row["regrets"] == pytest.approx([0.0, 0.5, 0.0, 2.0])
    assert (row["worst"], row["median"]) == pytest.approx((2.0, 0.25))
    assert (row["flips"], row["flipped"]) == (2, [("a", "c"), ("b", "c")])
    assert (row["seconds"], row["slowest"], row["check"]) == (0.05, 0.2, 0.3)
    assert (row["members"], row["rounds"], row["load"]) == (8, 50, 0.5)


def test_a_question_that_nobody_answered_has_no_row_and_half_an_answer_has_one() -> None:
    nobody, read_only, chosen_only = (asked("q4k_tile", [m, 1, 1]) for m in (1, 2, 3))
    read_only["oracles"].append(oracle(a=0.0))
    chosen_only["runs"].append(run("a"))
    first, second = rows([nobody, read_only, chosen_only])
    assert first["best"] == "a"
    assert "worst" not in first
    assert second["winners"] == "a 1"
    assert "best" not in second


def test_what_chose_nothing_is_an_infinite_regret_and_no_seconds() -> None:
    one = question("a")
    one["runs"].append(run(None, None))
    [row] = rows([one])
    assert row["worst"] == math.inf
    assert row["seconds"] == 0.05
    assert any("1 chose nothing" in note for note in verdicts([row]))


def test_seconds_are_compared_with_tritons_at_the_same_sizes_alone() -> None:
    made = rows(
        [
            question("a", seconds=0.1),
            question("a", family=TRITON, seconds=0.8),
            question("a", seconds=0.1, point=[1, 4096, 4096]),
        ]
    )
    assert [row.get("cheaper") for row in made] == [pytest.approx(8.0), None, None]


@pytest.mark.parametrize(
    ("winners", "holds"),
    [(["a"] * 20, True), (["a"] * 12 + ["b"] * 8, True), (["a"] * 19 + ["c"], False)],
)
def test_the_limits_of_regret_are_judged(winners: list[str], holds: bool) -> None:
    [note] = [note for note in verdicts(rows([question(*winners)])) if note.startswith("XPU")]
    assert note.endswith(": met") is holds
    assert note.endswith(": NOT met") is not holds


def test_a_steady_choice_that_is_half_a_percent_behind_breaks_the_median() -> None:
    [note] = [note for note in verdicts(rows([question(*"bbbb")])) if note.startswith("XPU")]
    assert "median 0.50 %, 0 flips" in note
    assert note.endswith("NOT met")


@pytest.mark.parametrize(("seconds", "cost", "beside"), [(0.09, "met", "met"), (0.2, "NOT", "NOT")])
def test_the_limits_of_cost_are_judged(seconds: float, cost: str, beside: str) -> None:
    made = rows([question("a", seconds=seconds), question("a", family=TRITON, seconds=0.8)])
    own, against = [note for note in verdicts(made) if note.startswith("cost")]
    assert f": {cost}" in own
    assert f": {beside}" in against


def test_triton_is_described_and_not_judged() -> None:
    [note] = [n for n in verdicts(rows([question("c", family=TRITON)])) if n.startswith("Triton")]
    assert "worst regret 2.00 %" in note
    assert "met" not in note


def test_merging_puts_runs_of_one_question_together_and_pieces_in_order() -> None:
    pieces = [
        [question("a", "a", point=[512, 4096, 4096]), question("a", family=TRITON)],
        [question("b"), question("a", "c", point=[512, 4096, 4096])],
    ]
    together = merged(json.loads(json.dumps(pieces)))
    assert [(one["family"], one["point"][0], len(one["runs"])) for one in together] == [
        ("q4k_tile", 128, 1),
        ("q4k_tile", 512, 4),
        (TRITON, 128, 1),
    ]
    row = rows(together)[1]
    assert (row["flips"], row["rounds"]) == (1, 100)
    assert len(pieces[0][0]["runs"]) == 2, "what was merged is as it was"


def test_conditions_that_differ_stand_side_by_side() -> None:
    found = merged_conditions([{"part": "p", "date": "1"}, {"part": "p", "date": "2", "peer": "t"}])
    assert found == {"part": "p", "date": "1 | 2", "peer": "t"}
