"""Products with lines: what a part that makes them later would get wrong is found and named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Launch

# y (16 rows a wave, 16) = x (as many, 64) w (16, 64)^T + 1; w is there twice, one behind the other.
TEXT = """
static void fill(xpu::shared<xpu::half> all, xpu::global<const xpu::half> w) {
    for (int i = xpu::thread(); i < 2 * 16 * 64; i += xpu::threads())
        all[xpu::line_place(i / 64, i % 64)] = w[i % (16 * 64)];
}
XPU_KERNEL(xpu::global<const xpu::half> x, xpu::global<const xpu::half> w, xpu::global<float> y) {
    XPU_DYNAMIC_SHARED(xpu::half, all);
    FILL;
    xpu::barrier();
    BEHIND_THE_BARRIER;
    xpu::accumulator<float, 16, 16, 16> c[1];
    xpu::fill(c[0], 1.0f);
    xpu::matrix_a<xpu::half, 16, 16, 16> a[4];
    for (int step = 0; step < 4; ++step)
        for (int i = 0; i < a[step].count; ++i) {
            const int row = xpu::wave() * 16 + a[step].row(i);
            a[step][i] = x.load<uint32_t>(row * 64 + step * 16 + a[step].k(i));
        }
    for (int step = 0; step < 4; ++step) {
        xpu::multiply_async(c, a[step], all + (OTHER) * 16 * 64, step * 16 DEEPER);
        xpu::multiply_wait<2>();
        IN_FLIGHT;
    }
    END;
    for (int i = 0; i < c[0].count; ++i)
        y[(xpu::wave() * 16 + c[0].row(i)) * 16 + c[0].column(i)] = c[0][i];
}"""
RIGHT = {
    "FILL": "fill(all, w); xpu::publish_lines()",
    "BEHIND_THE_BARRIER": "",
    "OTHER": "0",
    "DEEPER": "",
    "IN_FLIGHT": "",
    "END": "xpu::multiply_end(c)",
}
Given = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture
def given(wave: int) -> Given:
    rng, rows = np.random.default_rng(wave), 128 // wave * 16
    x, w = (rng.integers(-9, 10, (lines, 64)).astype(np.float16) for lines in (rows, 16))
    return x, w, np.zeros((rows, 16), np.float32)


def variant(**changed: str) -> str:
    assert changed.keys() <= RIGHT.keys()
    text = TEXT
    for name, statement in {**RIGHT, **changed}.items():
        text = text.replace(name, statement)
    return text


USED = (
    "product in flight: .*it uses sums that the product of kernel.cpp:21 may still add to; "
    "multiply_end comes first, at kernel.cpp:2"
)
APART = (
    r"divergent wave verb: .*, thread \d+ .*: its wave has called verbs of lines otherwise than "
    r"that of thread 0: .* the last before they meet is multiply_end, at kernel.cpp:25"
)
EARLY = [
    {"IN_FLIGHT": "c[0][0] = 0.0f"},
    {"IN_FLIGHT": "if (step == 2) c[0][0] *= 2.0f"},
    {"IN_FLIGHT": "c[0][c[0].count - 1] += 1.0f"},
    {"IN_FLIGHT": "xpu::multiply_wait<0>(); c[0][0] = xpu::max(c[0][0], 0.0f)"},
    {"IN_FLIGHT": "xpu::fill(c[0], 0.0f)"},
    {"END": "y[0] = c[0][0]; xpu::multiply_end(c)"},
    {"END": ""},
]
LINES: dict[str, Any] = {"dynamic": 2 * 16 * 128, "XPU_THREADS": 128, "XPU_SHARED_ALIGNMENT": 1024}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"OTHER": "1"},
        # What is through may be used, and so may sums that ended.
        {"IN_FLIGHT": "if (step >= 2) a[step - 2][0] = 0"},
        {"IN_FLIGHT": "xpu::multiply_end(c); c[0][0] += 0.0f"},
        {"IN_FLIGHT": "xpu::publish_lines(); xpu::barrier()"},
        {"IN_FLIGHT": "xpu::multiply_wait<0>(); xpu::barrier(); FILL; xpu::barrier()"},
        {"END": "xpu::multiply_wait<0>(); xpu::multiply_end(c); xpu::multiply_end(c)"},
    ],
)
def test_what_the_contract_allows_is_right(
    run: Callable[..., None], given: Given, wave: int, changed: dict[str, str]
) -> None:
    x, w, y = given
    changed = {name: text.replace("FILL", RIGHT["FILL"]) for name, text in changed.items()}
    run(variant(**changed), [x, w, y], wave=wave, **LINES)
    assert (y == 1 + x.astype(np.float32) @ w.T.astype(np.float32)).all()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"FILL": "fill(all, w)"},
            "unpublished lines: .*: thread .* called no publish_lines after",
        ),
        ({"FILL": "xpu::publish_lines(); fill(all, w)"}, "unpublished lines: "),
        (
            {"FILL": "fill(all, w)", "BEHIND_THE_BARRIER": "xpu::publish_lines()"},
            "unpublished lines: .* before the barrier",
        ),
        (
            {"FILL": "fill(all, w); if (xpu::thread() != 77) xpu::publish_lines()"},
            "unpublished lines: .*: thread 77 wrote it",
        ),
        (
            {"IN_FLIGHT": "a[step][0] = 5"},
            "product in flight: .*the rows of the product of kernel.cpp:21 changed before it was "
            "through; multiply_wait comes first",
        ),
        (
            {"IN_FLIGHT": "if (step == 1) a[0][0] = 5"},
            "product in flight: .*the rows of the product of kernel.cpp:21 changed",
        ),
        *((changed, USED) for changed in EARLY),
        (
            {"IN_FLIGHT": "xpu::barrier(); if (step == 3) fill(all, w); xpu::barrier()"},
            r"product in flight: .*all\[\d+\]: thread .* wrote it while the product of kernel",
        ),
        # Whoever comes first: the thread that writes, or the one that waits.
        (
            {"IN_FLIGHT": "xpu::barrier(); if (step == 3) fill(all, w)"},
            "(data race|product in flight): ",
        ),
        ({"IN_FLIGHT": "xpu::multiply_wait<0>(); fill(all, w)"}, "data race: "),
        ({"END": "return"}, "product left behind: .*called no multiply_end for, of kernel.cpp:21"),
        ({"OTHER": "xpu::wave() % 2"}, APART),
        ({"DEEPER": "* (xpu::wave() % 2)"}, APART),
        ({"IN_FLIGHT": "if (xpu::wave() == 0) xpu::multiply_wait<0>()"}, APART),
        ({"OTHER": "xpu::lane() % 2"}, "divergent wave verb: .*multiply_async is given something"),
        ({"DEEPER": "* (xpu::lane() % 2)"}, "divergent wave verb: .* else than in thread 0, at k"),
        (
            {"IN_FLIGHT": "if (xpu::lane() == 0) xpu::multiply_wait<0>()"},
            "divergent wave verb: .* waits at multiply_",
        ),
        ({"DEEPER": "+ 8"}, "misaligned access: .* from 0, 16, 32 or 48 on, given 8"),
        ({"DEEPER": "+ 64"}, "misaligned access: .* from 0, 16, 32 or 48 on, given 64"),
        (
            {"OTHER": "1) * 8 + (0"},
            r"misaligned access: .*all\[8\]: lines begin at a multiple of 1024 bytes",
        ),
    ],
)
def test_what_it_does_not_allow_is_named(
    fault: Callable[..., str], given: Given, wave: int, changed: dict[str, str], said: str
) -> None:
    text = fault(variant(**changed), list(given), wave=wave, **LINES)
    assert re.match(said, text), text


def test_a_copy_of_sums_that_is_made_too_early_is_no_number(
    run: Callable[..., None], given: Given, wave: int
) -> None:
    x, w, y = given
    early = "const auto copy = c[0]; y[xpu::thread()] = copy[0]; xpu::multiply_end(c); return"
    run(variant(END=early), [x, w, y], wave=wave, **LINES)
    assert np.isnan(y.reshape(-1)[:128]).all()


def test_a_fault_leaves_nothing_for_the_next_launch(
    load: Callable[..., Any], given: Given, wave: int
) -> None:
    x, w, y = given
    more = {name: value for name, value in LINES.items() if name != "dynamic"}
    device, kernel = load(variant(END="if (!w[0].bits) return; xpu::multiply_end(c)"), wave, **more)
    launch = Launch((1, 1, 1), None, LINES["dynamic"])
    for bits in (0, 1, 0, 1):
        w[0, 0] = bits
        arrays = [device.import_array(array, writable=False) for array in (x, w, y)]
        call = device.launcher(kernel, launch, arrays, [])
        if bits:
            call()
            assert (y == 1 + x.astype(np.float32) @ w.T.astype(np.float32)).all()
        else:
            with pytest.raises(XpuLaunchException, match="product left behind"):
                call()


# Two arrays of sums of two tiles, of panels that take turns: y (16 rows a wave of each block, 64)
# is three times x (as many, 32 of 64) with each line of w (64, 32 of 64).
MANY = """
XPU_KERNEL(xpu::global<const xpu::half> x, xpu::global<const xpu::half> w, xpu::global<float> y) {
    XPU_DYNAMIC_SHARED(xpu::half, all);
    xpu::accumulator<float, 16, 16, 16> left[2], right[2];
    for (int j = 0; j < 2; ++j) xpu::fill(left[j], 0.0f), xpu::fill(right[j], 0.0f);
    const int first = (xpu::block_x() * (xpu::threads() / xpu::wave_width) + xpu::wave()) * 16;
    xpu::matrix_a<xpu::half, 16, 16, 16> a[6];
    for (int panel = 0; panel < 3; ++panel) {
        const int at = panel % 2 * 64 * 64;
        for (int i = xpu::thread(); i < 64 * 64; i += xpu::threads())
            all[at + xpu::line_place(i / 64, i % 64)] = w[i];
        xpu::publish_lines();
        xpu::publish_lines();
        xpu::barrier();
        for (int step = 0; step < 2; ++step) {
            auto &now = a[panel * 2 + step];
            for (int i = 0; i < now.count; ++i)
                now[i] = x.load<uint32_t>((first + now.row(i)) * 64 + step * 16 + now.k(i));
            xpu::multiply_async(left, now, all + at, step * 16);
            xpu::multiply_async(right, now, all + (at + 32 * 64), step * 16);
        }
        xpu::multiply_wait<LEFT>();
        xpu::barrier(); // the panel before this one is free
    }
    FIRST;
    xpu::multiply_end(left);
    SECOND;
    xpu::multiply_end(right);
    for (int j = 0; j < 2; ++j)
        for (int i = 0; i < left[j].count; ++i) {
            const int row = (first + left[j].row(i)) * 64, column = j * 16 + left[j].column(i);
            y[row + column] = left[j][i];
            y[row + 32 + column] = right[j][i];
        }
}"""
TO_LEFT, TO_RIGHT = (
    f"kernel.cpp:{2 + MANY.splitlines().index(line)}"
    for line in MANY.splitlines()
    if "multiply_async" in line
)
MUCH = {**LINES, "dynamic": 2 * 64 * 128, "grid": (2, 1, 1)}
TURNED = ("xpu::multiply_end(right)", "xpu::multiply_end(left)")


def many(first: str = "", second: str = "", left: int = 4) -> str:
    text = MANY.replace("LEFT", str(left))
    return text.replace("FIRST", first).replace("SECOND", second)


@pytest.fixture
def much(wave: int) -> Given:
    rng, rows = np.random.default_rng(wave), 2 * 128 // wave * 16
    x, w = (rng.integers(-9, 10, (lines, 64)).astype(np.float16) for lines in (rows, 64))
    return x, w, np.zeros((rows, 64), np.float32)


@pytest.mark.parametrize("statements", [(), TURNED])
def test_many_products_of_several_sums_are_right(
    run: Callable[..., None], much: Given, wave: int, statements: tuple[str, ...]
) -> None:
    x, w, y = much
    for _ in range(2):
        y[:] = 0
        run(many(*statements), [x, w, y], wave=wave, **MUCH)
        assert (y == 3 * (x[:, :32].astype(np.float32) @ w[:, :32].T.astype(np.float32))).all()


@pytest.mark.parametrize(
    ("statements", "left", "said"),
    [
        (("a[4][0] = 9",), 4, f"the rows of the product of {TO_LEFT} changed"),
        (("a[5][0] = 9", *TURNED[1:]), 1, f"the rows of the product of {TO_RIGHT} changed"),
        (("left[1][0] = 9.0f",), 4, f"the product of {TO_LEFT} may still add to"),
        (("", "right[1][0] = 9.0f"), 0, f"the product of {TO_RIGHT} may still add to"),
        (("xpu::multiply_end(left); right[0][0] = 9.0f",), 4, f"the product of {TO_RIGHT} may"),
        (("", "return"), 4, f"called no multiply_end for, of {TO_RIGHT}"),
        # A panel is written again while it may still be multiplied.
        ((), 5, f"wrote it while the product of {TO_RIGHT} still took it"),
        ((), 12, f"wrote it while the product of {TO_LEFT} still took it"),
    ],
)
def test_each_of_many_products_is_watched(
    fault: Callable[..., str],
    much: Given,
    wave: int,
    statements: tuple[str, ...],
    left: int,
    said: str,
) -> None:
    text = fault(many(*statements, left=left), list(much), wave=wave, **MUCH)
    assert text.startswith("product ")
    assert said in text


def test_a_block_of_which_a_part_would_multiply_alone(
    load: Callable[..., Any], given: Given, wave: int
) -> None:
    more = {name: value for name, value in LINES.items() if name != "dynamic"}
    device, kernel = load(variant(), wave, **more)
    arrays = [device.import_array(array, writable=False) for array in given]
    launch = device.launcher(kernel, Launch((1, 1, 1), (64, 1, 1), LINES["dynamic"]), arrays, [])
    with pytest.raises(XpuLaunchException, match="by 128 threads together; the block has 64"):
        launch()
