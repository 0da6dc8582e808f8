from __future__ import annotations

from typing import Any

import pytest
from kernel_limits import COLD_US, PEER_US, ROWS, best, inversions, limit_us, verdicts


def row(m: int, us: float | None, family: str = "q4k_cols", memory: str = "cold") -> dict[str, Any]:
    return {"format": family[:3], "m": m, "memory": memory, "family": family, "us": us}


def test_the_best_of_several_families_counts_and_one_that_was_not_read_does_not() -> None:
    found = best([row(16, 30.0), row(16, 20.0, "q4k_tile"), row(16, None, "q4k_route")])
    assert found["q4k", 16, "cold"]["family"] == "q4k_tile"
    assert best([row(16, None)]) == {}


def test_cold_has_limits_and_warm_has_the_peer() -> None:
    assert limit_us("q6k", 8, "cold") == COLD_US["q6k", 8]
    assert limit_us("q5k", 8, "warm") == PEER_US["q5k", 8]
    assert limit_us("q5k", 8, "cold") is None


@pytest.mark.parametrize(("us", "said"), [(24.0, "1 of 1 limits hold: met"), (24.1, "0 of 1")])
def test_a_limit_holds_up_to_itself(us: float, said: str) -> None:
    [note] = verdicts([row(8, us)])
    assert said in note
    assert ("q4k m=8 24.1 > 24 µs" in note) is (us > 24)


def test_tiles_are_judged_alone_beside_the_best_route() -> None:
    route, alone = verdicts([row(512, 170.0, "q4k_route"), row(512, 400.0, "q4k_tile")])
    assert route.endswith(": met")
    assert "qgemm_tile alone" in alone
    assert "NOT met: q4k m=512 400.0 > 362 µs" in alone


def test_rows_may_be_as_slow_as_the_next_but_not_slower() -> None:
    assert inversions({1: 10.0, 2: 10.0, 3: 20.0, 8: 1.0}) == []
    assert inversions({1: 10.2, 2: 10.0, 3: 9.0}) == [(2, pytest.approx(10 / 9))]


def test_rows_are_judged_where_all_of_them_were_read() -> None:
    rows = [row(m, 1.0) for m in ROWS]
    [note] = [note for note in verdicts(rows) if note.startswith("rows")]
    assert note.endswith("met")
    rows[4]["us"] = 1.1
    [note] = [note for note in verdicts(rows) if note.startswith("rows")]
    assert "NOT met: m=5 is 10.0% slower than m=6" in note
    assert not [note for note in verdicts(rows[:-1]) if note.startswith("rows")]
