"""Every planted fault is found, and named with kernel, block, thread, array and line."""

from __future__ import annotations

import numpy as np
import pytest

from xpu_backend_emulator.backend import EmulatorBackend

WHERE = "kernel 'kernel_under_test', block ({}), thread {} (wave {}, lane {}): "


def where(block: str, thread: int, wave: int) -> str:
    return WHERE.format(block, thread, *divmod(thread, wave))


def ints(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


def line_of(text: str, part: str) -> str:
    """The line of the compiled source in which `part` stands; the include is line 1."""
    number = next(n for n, line in enumerate(text.splitlines(), 2) if part in line)
    return f"kernel.cpp:{number}"


STORE = """
XPU_KERNEL(xpu::global<int> y, int64_t n) {
    const int64_t i = xpu::block_x() * XPU_THREADS + xpu::thread();
    if (i < n + XPU_OFF)
        y[i] = 1;  // the store
}
"""


@pytest.mark.parametrize("n", [1, 63, 64, 150])
def test_a_store_behind_the_end(fault, run, wave, n) -> None:
    y = ints(n)
    run(STORE, [y], [n], wave=wave, grid=(3, 1, 1), XPU_OFF=0)
    assert y.all()
    text = fault(STORE, [y], [n], wave=wave, grid=(3, 1, 1), XPU_OFF=1)
    block, thread = divmod(n, 64)
    assert text.startswith("out-of-bounds store: " + where(f"{block}, 0, 0", thread, wave))
    assert f"y[{n}], which has {n} elements of 4 bytes" in text
    assert text.endswith(line_of(STORE, "the store"))


def test_a_load_before_the_beginning(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<const int> first, xpu::global<const int> second,
                      xpu::global<int> y) {
            if (xpu::thread() == 40) y[0] = second[xpu::thread() - 47];
        }""",
        [ints(8), ints(8), ints(1)],
        wave=wave,
    )
    assert text.startswith("out-of-bounds load: " + where("0, 0, 0", 40, wave) + "second[-7], ")


def test_a_vector_that_only_begins_inside(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y) {
            y[0] = x.load<xpu::vec<int, 4>>(8)[0];
        }""",
        [ints(10), ints(1)],
        wave=wave,
    )
    assert "out-of-bounds load" in text
    assert "x[8], which has 10 elements of 4 bytes; it takes 16 bytes there" in text


@pytest.mark.parametrize(
    "declaration", ["XPU_SHARED(float, part, 8)", "XPU_DYNAMIC_SHARED(float, part)"]
)
def test_shared_memory_has_an_end(fault, wave, declaration) -> None:
    text = fault(
        f"""XPU_KERNEL(xpu::global<float> y) {{
            {declaration};
            XPU_SHARED(float, neighbour, 8);
            neighbour[xpu::thread() % 8] = 0.0f;
            if (xpu::thread() == 7) part[8] = 1.0f;
        }}""",
        [ints(1)],
        wave=wave,
        dynamic=32,
        XPU_THREADS=8,
    )
    assert text.startswith("out-of-bounds store: " + where("0, 0, 0", 7, wave))
    assert "part[8], which has 8 elements of 4 bytes" in text


def test_a_misaligned_vector(fault, run, wave) -> None:
    source = """XPU_KERNEL(xpu::global<const uint8_t> x, xpu::global<uint32_t> y) {
        XPU_SHARED(uint8_t, copy, 64);
        for (int i = 0; i < 64; ++i) if (xpu::thread() == i) copy[i] = x[i];
        xpu::barrier();
        if (xpu::thread() == 0) y[0] = XPU_FROM.load<uint32_t>(XPU_AT);
    }"""
    memory = np.arange(64, dtype=np.uint8)
    for space in ("x", "copy"):
        y = np.zeros(1, np.uint32)
        run(source, [memory, y], wave=wave, XPU_FROM=space, XPU_AT=8)
        assert y[0] == 0x0B0A0908
        text = fault(source, [memory, y], wave=wave, XPU_FROM=space, XPU_AT=6)
        assert text.startswith("misaligned access: " + where("0, 0, 0", 0, wave))
        assert f"{space}[6]: an access of 4 bytes" in text


REVERSED = """
XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y) {
    XPU_SHARED(int, turned, XPU_THREADS);
    const int i = xpu::thread();
    turned[i] = x[i];  // the write
    XPU_BETWEEN
    y[i] = turned[XPU_THREADS - 1 - i];
}
"""


def test_a_missing_barrier(fault, run, wave) -> None:
    x, y = np.arange(128, dtype=np.int32), ints(128)
    run(REVERSED, [x, y], wave=wave, XPU_THREADS=128, XPU_BETWEEN="xpu::barrier();")
    assert (y == x[::-1]).all()
    text = fault(REVERSED, [x, y], wave=wave, XPU_THREADS=128, XPU_BETWEEN="")
    assert text.startswith("data race: " + where("0, 0, 0", 127, wave))
    assert "turned[127]: it writes what thread 0 read, with no barrier between" in text
    assert text.endswith(line_of(REVERSED, "the write"))


@pytest.mark.parametrize("barrier_at", ["before", "after"])
def test_a_barrier_missing_in_a_loop(fault, run, wave, barrier_at) -> None:
    source = """XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y, int64_t n) {
        XPU_SHARED(int, stage, XPU_THREADS);
        const int t = xpu::thread();
        int sum = 0;
        for (int64_t i = 0; i < n; i += XPU_THREADS) {
            stage[t] = x[i + t];
            XPU_BEFORE
            for (int j = 0; j < XPU_THREADS; ++j) sum += stage[j];
            XPU_AFTER
        }
        y[t] = sum;
    }"""
    x, y = np.arange(256, dtype=np.int32), ints(64)
    both = {"XPU_BEFORE": "xpu::barrier();", "XPU_AFTER": "xpu::barrier();"}
    run(source, [x, y], [256], wave=wave, **both)
    assert (y == x.sum()).all()
    missing = {**both, "XPU_BEFORE" if barrier_at == "before" else "XPU_AFTER": ""}
    text = fault(source, [x, y], [256], wave=wave, **missing)
    assert text.startswith("data race: " + where("0, 0, 0", 1, wave))
    if barrier_at == "before":
        assert "stage[1]: it writes what thread 0 read, with no barrier between" in text
    else:
        assert "stage[0]: it reads what thread 0 wrote, with no barrier between" in text


def test_a_read_of_shared_memory_that_nobody_writes(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<int> y) {
            XPU_SHARED(uint16_t, part, XPU_THREADS);
            if (xpu::thread() != 77) part[xpu::thread()] = 1;
            xpu::barrier();
            y[xpu::thread()] = part[xpu::thread() ^ 1];
        }""",
        [ints(128)],
        wave=wave,
        XPU_THREADS=128,
    )
    assert text.startswith("read of memory that nothing wrote: " + where("0, 0, 0", 76, wave))
    assert "part[77]: no thread of the block wrote it" in text


def test_two_threads_write_one_element(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<int> y) {
            XPU_SHARED(uint8_t, mark, 4);
            if (xpu::thread() == 5 || xpu::thread() == 41) mark[3] = 1;
            if (xpu::thread() == 6) mark[2] = 1;
        }""",
        [ints(1)],
        wave=wave,
    )
    assert text.startswith("data race: " + where("0, 0, 0", 41, wave))
    assert "mark[3]: it writes what thread 5 wrote, with no barrier between" in text


def test_a_wave_barrier_orders_the_wave_and_no_other(fault, run, wave) -> None:
    source = """XPU_KERNEL(xpu::global<int> y) {
        XPU_SHARED(int, cell, XPU_THREADS);
        const int t = xpu::thread();
        cell[t] = t;
        xpu::wave_barrier();
        const int a = cell[t ^ 1];
        xpu::wave_barrier();
        cell[t ^ 1] = a + 1;
        XPU_BETWEEN;
        y[t] = cell[(t + XPU_SHIFT) % XPU_THREADS];
    }"""
    for between, shift in (("xpu::wave_barrier()", 0), ("xpu::barrier()", wave)):
        y = ints(2 * wave)
        defines = {"XPU_THREADS": 2 * wave, "XPU_BETWEEN": between, "XPU_SHIFT": shift}
        run(source, [y], wave=wave, **defines)
        assert (y == np.roll(np.arange(2 * wave), -shift) + 1).all()
    text = fault(
        source,
        [ints(2 * wave)],
        wave=wave,
        XPU_THREADS=2 * wave,
        XPU_BETWEEN="xpu::wave_barrier()",
        XPU_SHIFT=wave,
    )
    assert text.startswith("data race: " + where("0, 0, 0", wave, wave))
    assert f"cell[{wave}]: it writes what thread 0 read" in text


def test_many_readers_and_then_a_writer_of_another_wave(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<int> y) {
            XPU_SHARED(int, flag, 1);
            if (xpu::thread() == 0) flag[0] = 7;
            xpu::barrier();
            if (xpu::wave() == 0) y[xpu::thread()] = flag[0];
            xpu::wave_barrier();
            if (xpu::thread() == XPU_WAVE + 3) flag[0] = 8;
        }""",
        [ints(128)],
        wave=wave,
        XPU_THREADS=128,
    )
    assert text.startswith("data race: " + where("0, 0, 0", wave + 3, wave))
    assert "flag[0]: it writes what thread 0 read, with no barrier between" in text


@pytest.mark.parametrize(
    "verb", ["xpu::shuffle_xor(v, 1)", "xpu::wave_sum(v)", "xpu::shuffle(v, 0)"]
)
def test_a_verb_in_a_divergent_branch(fault, wave, verb) -> None:
    source = f"""XPU_KERNEL(xpu::global<int> y) {{
        int v = xpu::thread();
        if (xpu::lane() < 5)
            v = {verb};
        XPU_THEN
        y[xpu::thread()] = v;
    }}"""
    name = verb[5 : verb.index("(")]
    text = fault(source, [ints(64)], wave=wave, XPU_THEN="")
    assert text.startswith("divergent wave verb: " + where("0, 0, 0", 0, wave))
    assert text.endswith(f"it waits at {name} (kernel.cpp:5), thread 5 has ended")
    text = fault(source, [ints(64)], wave=wave, XPU_THEN="xpu::barrier();")
    first = f"it waits at {name} (kernel.cpp:5), "
    assert text.endswith(first + "thread 5 waits at barrier (kernel.cpp:6)")
    text = fault(source, [ints(64)], wave=wave, XPU_THEN="v = xpu::shuffle(v, 1);")
    assert text.endswith("thread 5 waits at shuffle (kernel.cpp:6)")


def test_two_places_are_not_one(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<int> y) {
            int v = 0;
            if (xpu::lane() < 7) v = xpu::wave_sum(1);
            else v = xpu::wave_sum(1);
            y[xpu::thread()] = v;
        }""",
        [ints(64)],
        wave=wave,
    )
    assert "divergent wave verb" in text
    first, second = (f"waits at wave_sum (kernel.cpp:{line})" for line in (4, 5))
    assert f"it {first}, thread 7 {second}" in text


def test_a_barrier_in_a_divergent_branch(fault, wave) -> None:
    source = """XPU_KERNEL(xpu::global<int> y) {
        if (xpu::thread() < XPU_SOME) xpu::barrier();
        else if (XPU_ELSE) xpu::barrier();
        y[xpu::thread()] = 1;
    }"""
    for some in (3, wave):
        text = fault(source, [ints(64 * 2)], wave=wave, XPU_THREADS=128, XPU_SOME=some, XPU_ELSE=0)
        assert text.startswith("divergent barrier: " + where("0, 0, 0", 0, wave))
        assert text.endswith(f"it waits at barrier (kernel.cpp:3), thread {some} has ended")
        text = fault(source, [ints(64 * 2)], wave=wave, XPU_THREADS=128, XPU_SOME=some, XPU_ELSE=1)
        assert text.endswith(f"thread {some} waits at barrier (kernel.cpp:4)")


def test_a_barrier_after_an_early_end(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<int> y, int64_t n) {
            if (xpu::thread() >= n) return;
            xpu::barrier();
        }""",
        [ints(1)],
        [50],
        wave=wave,
    )
    assert text.startswith("divergent barrier: ")
    assert "thread 50 has ended" in text


def test_poison_is_found_byte_by_byte_and_not_by_value(load, wave) -> None:
    source = """XPU_KERNEL(xpu::global<uint8_t> a, xpu::global<uint32_t> y) {
        if (xpu::thread() < 4 && xpu::thread() != XPU_SKIPPED) a[xpu::thread()] = 0xff;
        xpu::barrier();
        if (xpu::thread() == 0) y[0] = a.load<uint32_t>(0);
    }"""
    from xpu.errors import XpuLaunchException
    from xpu.spec import Launch

    for skipped in (9, 2):
        device, kernel = load(source, wave, XPU_THREADS=64, XPU_SKIPPED=skipped)
        arrays = [device.allocate(8, poisoned=True), device.allocate(4)]
        launch = device.launcher(kernel, Launch(), arrays, ())
        if skipped == 9:
            launch()
            assert device.to_host(arrays[1]).view(np.uint32)[0] == 0xFFFFFFFF
            device.poison(arrays[0])
            device.launcher(kernel, Launch(), arrays, ())()
        else:
            with pytest.raises(XpuLaunchException) as error:
                launch()
            text = str(error.value)
            assert text.startswith("read of memory that nothing wrote: ")
            assert where("0, 0, 0", 0, wave) + "a[2]: nothing wrote it" in text


def test_what_is_known_of_memory_goes_with_copies() -> None:
    from xpu_backend_emulator import memory

    device = EmulatorBackend().open()
    whole, empty = device.from_host(np.arange(4, dtype=np.uint8)), device.allocate(4)
    known = device.allocate(4)
    device.copy(whole, known)
    assert memory.written(known).all()
    device.copy(empty, known)
    assert not memory.written(known).any()
    device.copy(device.import_array(np.ones(4, np.uint8), writable=False), known)
    assert memory.written(known).all()


def test_a_lane_that_there_is_not(fault, wave) -> None:
    text = fault(
        """XPU_KERNEL(xpu::global<int> y) {
            y[xpu::thread()] = xpu::shuffle(xpu::thread(), xpu::lane() + 1);
        }""",
        [ints(64)],
        wave=wave,
    )
    assert text.startswith("no such lane: " + where("0, 0, 0", wave - 1, wave))
    assert text.endswith(
        f"shuffle takes lane {wave}, the lanes are 0 to {wave - 1}, at kernel.cpp:3"
    )


def test_a_verb_in_part_of_a_wave(fault, wave) -> None:
    text = fault(
        "XPU_KERNEL(xpu::global<int> y) { y[0] = xpu::wave_sum(1); }",
        [ints(1)],
        wave=wave,
        XPU_THREADS=wave + 16,
    )
    assert text.startswith("partial wave: ")
    assert f"wave_sum in a wave of 16 lanes, the width is {wave}" in text
    assert text.endswith(", at kernel.cpp:2")


COPY = """
XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y) {
    XPU_SHARED(int, stage, XPU_THREADS);
    const int t = xpu::thread();
    XPU_START
    xpu::copy_async(stage, t, x, t, 4);
    xpu::copy_commit();
    XPU_WAIT
    y[t] = stage[XPU_THREADS - 1 - t];
}
"""


@pytest.mark.parametrize(
    ("start", "wait", "words"),
    [
        ("", "xpu::copy_wait<0>(); xpu::barrier();", None),
        ("", "xpu::barrier();", "copy in flight: "),
        ("", "xpu::copy_wait<1>(); xpu::barrier();", "copy in flight: "),
        ("", "xpu::copy_wait<0>();", "data race: "),
        ("stage[t ^ 1] = 0;", "xpu::copy_wait<0>(); xpu::barrier();", "data race: "),
        ("", "return;", "copy left behind: "),
    ],
)
def test_an_asynchronous_copy_arrives_when_it_is_waited_for(
    run, fault, wave, start, wait, words
) -> None:
    x, y = np.arange(64, dtype=np.int32), ints(64)
    given = (COPY, [x, y])
    defines = {"wave": wave, "XPU_START": start, "XPU_WAIT": wait}
    if words is None:
        run(*given, **defines)
        assert (y == x[::-1]).all()
    else:
        assert fault(*given, **defines).startswith(words)


def test_a_fault_leaves_the_device_fit_for_use(run, fault, wave) -> None:
    y = ints(64)
    for _ in range(50):
        assert "out-of-bounds" in fault(STORE, [y], [64], wave=wave, grid=(2, 1, 1), XPU_OFF=1)
        y[:] = 0
        run(STORE, [y], [64], wave=wave, XPU_OFF=0)
        assert y.all()


def test_without_checks_of_memory_threads_still_must_meet(run, fault, wave) -> None:
    x, y = np.arange(128, dtype=np.int32), ints(128)
    given = {"wave": wave, "suffix": "-fast", "XPU_THREADS": 128}
    run(REVERSED, [x, y], XPU_BETWEEN="xpu::barrier();", **given)
    assert (y == x[::-1]).all()
    run(REVERSED, [x, y], XPU_BETWEEN="", **given)  # wrong, and not looked at
    text = fault("XPU_KERNEL() { if (xpu::thread() < 3) xpu::barrier(); }", [], **given)
    assert text.startswith("divergent barrier: ")
