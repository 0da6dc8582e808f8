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
            "product in flight: .*its rows were changed while the product of kernel.cpp:21 was "
            "made; multiply_wait comes first",
        ),
        (
            {"IN_FLIGHT": "if (step == 1) a[0][0] = 5"},
            "product in flight: .*its rows were changed",
        ),
        ({"IN_FLIGHT": "c[0][0] = 0.0f"}, "product in flight: .*its sums .* multiply_end comes"),
        ({"END": "c[0][0] = 0.0f; xpu::multiply_end(c)"}, "product in flight: .*its sums"),
        (
            {"IN_FLIGHT": "xpu::barrier(); if (step == 3) fill(all, w); xpu::barrier()"},
            r"product in flight: .*all\[\d+\]: thread .* wrote it while a product still took it",
        ),
        ({"IN_FLIGHT": "xpu::barrier(); if (step == 3) fill(all, w)"}, "data race: "),
        ({"IN_FLIGHT": "xpu::multiply_wait<0>(); fill(all, w)"}, "data race: "),
        ({"END": ""}, "product left behind: .*called no multiply_end for, of kernel.cpp:21"),
        ({"OTHER": "xpu::wave() % 2"}, "divergent wave verb: .*multiply_async takes other lines"),
        ({"DEEPER": "* (xpu::wave() % 2)"}, "divergent wave verb: .* or another k"),
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


def test_sums_that_are_read_too_early_are_no_numbers(
    run: Callable[..., None], given: Given, wave: int
) -> None:
    x, w, y = given
    early = "y[xpu::thread()] = c[0][0]; xpu::multiply_end(c); return"
    run(variant(END=early), [x, w, y], wave=wave, **LINES)
    assert np.isnan(y.reshape(-1)[:128]).all()


def test_a_fault_leaves_nothing_for_the_next_launch(
    load: Callable[..., Any], given: Given, wave: int
) -> None:
    x, w, y = given
    more = {name: value for name, value in LINES.items() if name != "dynamic"}
    device, kernel = load(variant(END="if (w[0].bits) xpu::multiply_end(c)"), wave, **more)
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


def test_a_block_of_which_a_part_would_multiply_alone(
    load: Callable[..., Any], given: Given, wave: int
) -> None:
    more = {name: value for name, value in LINES.items() if name != "dynamic"}
    device, kernel = load(variant(), wave, **more)
    arrays = [device.import_array(array, writable=False) for array in given]
    launch = device.launcher(kernel, Launch((1, 1, 1), (64, 1, 1), LINES["dynamic"]), arrays, [])
    with pytest.raises(XpuLaunchException, match="by 128 threads together; the block has 64"):
        launch()
