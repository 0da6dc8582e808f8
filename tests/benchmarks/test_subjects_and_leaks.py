from __future__ import annotations

import argparse
from typing import Any

import first_party
import numpy as np
import pytest
from choice_quality import TRITON_POINTS, chosen
from leaks import DEVICE_BYTES, growth, verdicts
from subjects import ROWS, SIZES, families, numbers, pairs, piece, points

from xpu.orchestrator import settings_for
from xpu.registry import default_registry


def of_piece(part: int, of: int) -> list[tuple[int, int, int]]:
    return chosen(argparse.Namespace(sizes=SIZES, rows=ROWS, piece=(part, of)))


def test_pieces_together_are_everything_once() -> None:
    everything = of_piece(1, 1)
    assert set(points(SIZES, ROWS)) | {(128, 4096, 4096)} == set(everything)
    assert set(TRITON_POINTS) <= set(everything)
    assert sorted(point for part in (1, 2, 3) for point in of_piece(part, 3)) == sorted(everything)


def test_every_piece_has_its_share_of_many_rows() -> None:
    for part in (1, 2, 3):
        assert {512, 2048} <= {m for m, *_ in of_piece(part, 3)}


def test_options_are_read_and_nonsense_is_refused() -> None:
    assert numbers("1,8") == (1, 8)
    assert pairs("4096x14336,64x256") == ((4096, 14336), (64, 256))
    assert piece("2/3") == (2, 3)
    for kind, text in ((piece, "4/3"), (piece, "0/3"), (piece, "2"), (pairs, "1x2x3")):
        with pytest.raises(argparse.ArgumentTypeError):
            kind(text)


def test_families_serve_the_rows_that_they_are_asked_for() -> None:
    first_party.plugin("kquant")
    settings = settings_for(default_registry())
    assert families(settings, "simt", "q4k", 1) == ["q4k_matvec", "q4k_cols"]
    assert families(settings, "simt", "q6k", 8) == ["q6k_cols"]
    assert families(settings, "simt", "q6k", 16) == ["q6k_cols", "q6k_tile"]
    assert families(settings, "simt", "q6k", 9, tiles_from=9) == ["q6k_cols", "q6k_tile"]
    assert families(settings, "c", "q4k", 1) == ["q4k_matvec"]
    library = {m: families(settings, "simt", "q4k", m, library_from=64) for m in (63, 64)}
    assert library == {63: ["q4k_tile"], 64: ["q4k_tile", "q4k_library"]}


def looks(per_shape: float, *, spike: float = 0.0) -> list[dict[str, Any]]:
    values = 2**30 + per_shape * np.arange(0, 1001, 50)
    values[:5] -= 200 * 2**20  # allocators fill up
    values[12] += spike
    return [
        {"shapes": 50 * place, "host": value / 2**20, "device": value / 2**20}
        for place, value in enumerate(values)
    ]


def test_growth_is_a_slope_that_one_look_does_not_move() -> None:
    counts = list(range(0, 500, 50))
    values = [3.0 * count for count in counts]
    values[4] += 1e9
    assert growth(counts, values) == pytest.approx(3.0)


@pytest.mark.parametrize(("per_shape", "is_met"), [(0, True), (DEVICE_BYTES * 2, False)])
def test_a_leak_is_told_from_allocators_that_fill_up(per_shape: float, is_met: bool) -> None:
    host, device = verdicts(looks(per_shape, spike=500 * 2**20))
    for note in (host, device):
        assert note.endswith("met") is is_met
        assert note.endswith("LEAKS") is not is_met


def test_memory_that_nobody_can_tell_is_not_said_to_be_met() -> None:
    rows = [{**row, "device": None} for row in looks(0)]
    assert verdicts(rows)[1] == "device: not known"
