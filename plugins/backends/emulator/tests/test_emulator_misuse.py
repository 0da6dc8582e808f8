"""Misuse of the dialect's words that gives a right-looking kernel is found and named."""

from __future__ import annotations

import re

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Launch
from xpu_backend_emulator.arena import ARENA


def ints(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


@pytest.mark.parametrize(
    "store",
    ["y[at] = 1", "(y + at)[0] = 1", "y.store<xpu::vec<int, 2>>(at, {})", "part[at] = 1"],
)
@pytest.mark.parametrize("at", [2**62, 2**63 - 1, -(2**63), 2**61, -(2**62)])
def test_an_index_that_wraps_around_is_outside(fault, store, at) -> None:
    text = fault(
        f"""XPU_KERNEL(xpu::global<int> y, int64_t at) {{
            XPU_SHARED(int, part, 16);
            if (xpu::thread() == 3) {store};
        }}""",
        [ints(16)],
        [at],
    )
    name = store[: store.index("[")] if "part" in store else "y"
    assert text.startswith("out-of-bounds store: ")
    assert f"thread 3 (wave 0, lane 3): {name}, which has 16 elements of 4 bytes" in text


@pytest.mark.parametrize("verb", ["xpu::barrier()", "xpu::wave_sum(1)"])
def test_places_in_two_files_are_not_one(compiler, unit, tmp_path, wave, verb) -> None:
    from xpu.spec import CompiledCode
    from xpu_backend_emulator.backend import EmulatorBackend

    text = """#include "one.h"
        #include "sub/two.h"
        XPU_KERNEL() { if (xpu::lane() < 9) one(); else two(); }"""
    includes = {
        f"{place}{name}.h": f"static void {name}() {{ {verb}; }}"
        for place, name in (("", "one"), ("sub/", "two"))
    }
    (code,) = compiler.compile([unit(text, includes)], f"wave{wave}", deadline_s=60)
    assert isinstance(code, CompiledCode), code
    (tmp_path / "k.so").write_bytes(code.code)
    device = EmulatorBackend(wave).open()
    kernel = device.load(tmp_path / "k.so", "kernel_under_test")
    with pytest.raises(XpuLaunchException, match="divergent") as error:
        device.launcher(kernel, Launch(), [], [])()
    name = verb[5 : verb.index("(")]
    assert f"it waits at {name} (one.h:1), thread 9 waits at {name} (two.h:1)" in str(error.value)


@pytest.mark.parametrize(
    "lanes_differ", ["xpu::lane() / 20 * 16, 16", "0, 16 + xpu::lane() / 20 * 16"]
)
def test_a_wave_loads_one_tile(run, fault, wave, lanes_differ) -> None:
    source = """XPU_KERNEL(xpu::global<int> y) {
        XPU_SHARED(int8_t, part, 1024);
        for (int i = xpu::thread(); i < 1024; i += xpu::threads()) part[i] = 1;
        xpu::barrier();
        xpu::matrix_b<int8_t, 16, 16, 16> b;
        xpu::load(b, part, XPU_PLACE);  // here
        y[xpu::thread()] = 1;
    }"""
    run(source, [ints(64)], wave=wave, XPU_PLACE="xpu::wave() * 16, 16")
    text = fault(source, [ints(64)], wave=wave, XPU_PLACE=lanes_differ)
    assert text.startswith("divergent wave verb: ")
    assert text.endswith(
        "thread 20 (wave 0, lane 20): load is given something else than in thread 0, "
        "at kernel.cpp:7"
    )


COPIES = """
XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y) {
    XPU_SHARED(int, stage, XPU_THREADS * XPU_EACH);
    const int t = xpu::thread();
    for (int i = t; i < XPU_THREADS * XPU_EACH; i += XPU_THREADS) {
        xpu::copy_async(stage, i, x, i, XPU_BYTES);
        if (i / XPU_THREADS % 3 == 0) xpu::copy_commit();
    }
    xpu::copy_commit();
    xpu::copy_wait<XPU_LEFT>();
    xpu::barrier();
    int sum = 0;
    for (int i = 0; i < XPU_READ; ++i) sum += stage[i * XPU_THREADS + (t ^ 1)];
    xpu::copy_wait<0>();
    y[t] = sum;
}
"""


@pytest.mark.parametrize("bytes_", [0, 2, 12, 32])
def test_a_copy_has_four_eight_or_sixteen_bytes(fault, wave, bytes_) -> None:
    given = {"XPU_EACH": 1, "XPU_LEFT": 0, "XPU_READ": 1}
    text = fault(COPIES, [ints(64), ints(64)], wave=wave, XPU_BYTES=bytes_, **given)
    assert text.startswith("no such copy: ")
    assert text.endswith(f"copy_async takes 4, 8 or 16 bytes, given {bytes_}, at kernel.cpp:7")


def test_a_thread_may_have_any_number_of_copies_on_their_way(run, fault) -> None:
    """Of 300 copies, groups close behind the first, the fourth, and so on; the last at the end."""
    x, y = np.arange(32 * 300, dtype=np.int32), ints(32)
    given = {"XPU_THREADS": 32, "XPU_EACH": 300, "XPU_BYTES": 4}
    run(COPIES, [x, y], XPU_LEFT=0, XPU_READ=300, **given)
    assert (y == x.reshape(300, 32)[:, np.arange(32) ^ 1].sum(axis=0)).all()
    run(COPIES, [x, y], XPU_LEFT=2, XPU_READ=295, **given)
    text = fault(COPIES, [x, y], XPU_LEFT=2, XPU_READ=296, **given)
    assert text.startswith("copy in flight: ")
    assert f"stage[{295 * 32 + 1}]" in text


OWN = """
constexpr int table[3] = {1, 2, 3};
XPU_KERNEL(xpu::global<int> y, int64_t at) {
    int own[4] = {};
    xpu::vec<int, 4> four = {};
    xpu::accumulator<int, 16, 16, 16> sums;
    xpu::fill(sums, 0);
    if (xpu::thread() == 7)
        XPU_DO;  // here
    y[1] = own[0] + four[0] + sums[0];
}
"""


@pytest.mark.parametrize(
    ("statement", "count", "words"),
    [
        ("y[0] = own[at]", 4, r"'int ?\[4\]'"),
        ("own[at] = 1", 4, r"'int ?\[4\]'"),
        ("y[0] = table[at]", 3, r"'(const )?int ?\[3\]'"),
        ("y[0] = four[at]", 4, "4 elements"),
        ("four[at] = 1", 4, "4 elements"),
        ("sums[at] = 1", 8, "8 elements"),
    ],
)
def test_an_index_outside_what_a_thread_holds(run, fault, statement, count, words) -> None:
    for at in (0, count - 1):
        run(OWN, [ints(2)], [at], XPU_DO=statement)
    for at in (-1, count, count + 1):
        text = fault(OWN, [ints(2)], [at], XPU_DO=statement)
        assert text.startswith("index outside an array of the thread: ")
        assert re.search(rf"thread 7 .*: index {at} of {words}, at kernel.cpp:10$", text), text


NUMBERS = """
XPU_KERNEL(xpu::global<const float> x, xpu::global<int> y, int64_t n) {
    const float f = x[0];
    const int i = (int)n;
    if (xpu::thread() == 7)
        y[0] = (int)(XPU_VALUE) + (f > 0);  // here
}
"""


@pytest.mark.parametrize(
    ("value", "f", "n", "words"),
    [
        ("xpu::round_to_int(f)", 2.0**31, 0, "2.14748e.09 does not fit 'int'"),
        ("xpu::round_to_int(f)", np.nan, 0, "nan does not fit 'int'"),
        ("(int64_t)f", np.inf, 0, "inf does not fit 'long( int)?'"),
        ("(uint8_t)f", 256, 0, "256 does not fit 'unsigned char'"),
        ("1u << i", 0, 32, "'unsigned int' is shifted by 32 bits"),
        ("1 << n", 0, -1, "'int' is shifted by -1 bits"),
        ("7 / i", 0, 0, "'int' is divided by 0"),
        ("7u % (uint32_t)n", 0, 0, "'unsigned int' is divided by 0"),
        ("i / (i < 0 ? -1 : 1)", 0, -(2**31), "'int' is divided by"),
        ("i + 1", 0, 2**31 - 1, "a sum does not fit 'int'"),
        ("i * 65536", 0, 65536, "a product does not fit 'int'"),
        ("-2 - i", 0, 2**31 - 1, "a difference does not fit 'int'"),
        ("xpu::abs(i)", 0, -(2**31), "a negated number does not fit 'int'"),
        ("xpu::dot4(0x80808080u, 0x80808080u, i)", 0, 2**31 - 1, "a sum does not fit"),
    ],
)
def test_arithmetic_without_a_meaning(run, fault, value, f, n, words) -> None:
    y = ints(1)
    run(NUMBERS, [np.ones(1, np.float32), y], [1], XPU_VALUE=value)
    text = fault(NUMBERS, [np.array([f], np.float32), y], [n], XPU_VALUE=value)
    assert text.startswith("undefined arithmetic: ")
    assert re.search(rf"thread 7 .*: {words}.*, at kernel.cpp:7$", text), text


def test_whole_numbers_without_a_sign_wrap_around(run) -> None:
    y = ints(1)
    run(NUMBERS, [np.zeros(1, np.float32), y], [2**31 - 1], XPU_VALUE="(int)((uint32_t)i * 4u)")
    assert y[0] == -4


def test_parameters_may_be_called_by_other_names(run, fault) -> None:
    source = """using input = xpu::global<const int>;
    #define XPU_ALL input x, xpu::global<int> y, int64_t n
    XPU_KERNEL(XPU_ALL) { if (xpu::thread() < n) y[xpu::thread()] = x[xpu::thread()]; }"""
    x, y = np.arange(10, dtype=np.int32), ints(10)
    run(source, [x, y], [10])
    assert (y == x).all()
    assert "x[10], which has 10 elements" in fault(source, [x, y], [11])


def test_what_a_thread_does_not_set_is_no_zero(run, compiler) -> None:
    if "auto-var-init" not in compiler.fingerprint("wave32"):
        pytest.skip("this compiler cannot fill variables")
    assert "auto-var-init" not in compiler.fingerprint("wave32-fast")
    y, z = ints(256), ints(64)
    run(
        """XPU_KERNEL(xpu::global<int> y, xpu::global<int> z) {
            XPU_SHARED(int8_t, zeros, 256);
            for (int i = xpu::thread(); i < 256; i += xpu::threads()) zeros[i] = 0;
            xpu::barrier();
            xpu::matrix_a<int8_t, 16, 16, 16> a;
            xpu::matrix_b<int8_t, 16, 16, 16> b;
            xpu::accumulator<int, 16, 16, 16> c;
            xpu::load(a, zeros, 0, 16);
            xpu::load(b, zeros, 0, 16);
            xpu::multiply(c, a, b);
            for (int i = 0; i < c.count; ++i) y[c.row(i) * 16 + c.column(i)] = c[i];
            int sums[4];
            for (int i = 0; i < 4; ++i) sums[i] += i;
            z[xpu::thread()] = sums[xpu::thread() % 4] - xpu::thread() % 4;
        }""",
        [y, z],
        XPU_THREADS=32,
    )
    assert y.all()
    assert z[:32].all()


def test_all_threads_of_a_wave_read_what_nothing_wrote(run, fault) -> None:
    """Half of their places in the runtime's memory were used before, the other half never."""
    ARENA._areas.clear()
    outside = "XPU_KERNEL(xpu::global<int> y) { y[-1] = 1; }"
    assert "out-of-bounds" in fault(outside, [ints(1)], XPU_THREADS=1024)
    run("XPU_KERNEL(xpu::global<int> y) { y[0] = 1; }", [ints(1)], XPU_THREADS=32)
    text = fault(
        """XPU_KERNEL(xpu::global<int> y) {
            XPU_SHARED(int, part, 2);
            y[0] = part[1];
        }""",
        [ints(1)],
        wave=64,
    )
    assert text.startswith("read of memory that nothing wrote: ")
