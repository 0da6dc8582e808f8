"""What is read from a code object, against kernels of known size and against ``llvm-readelf``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xpu.errors import XpuBuildError

code_object = pytest.importorskip("xpu_backend_hip.code_object")

TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")
NARROW = ("gfx1100", "gfx1151", "gfx1201")
# COUNT values live at once: 200 are more than the registers that a block of 1024 threads leaves.
HUNGRY = """XPU_KERNEL(xpu::global<float> y, int64_t n) {
    XPU_SHARED(float, part, 125);
    part[xpu::thread() % 125] = y[7];
    float v[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) v[i] = y[xpu::thread() + i * 1024];
    for (int j = 0; j < n; ++j) {
        xpu::barrier();
#pragma unroll
        for (int i = 0; i < COUNT; ++i) v[i] = v[i] * v[(i + 17) % COUNT] + part[j];
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) y[xpu::thread() + i * 1024] = v[i];
}"""
# A place in an array that only the running kernel knows keeps the array in memory.
ON_STACK = """XPU_KERNEL(xpu::global<int> y) {
    volatile int kept[50];
    for (int i = 0; i < 50; ++i) kept[i] = y[i];
    y[0] = kept[y[1] % 50];
}"""


@pytest.fixture(scope="module")
def made(compiler, unit):
    """Compile a kernel, once for each target."""
    known = {}

    def go(text: str, target: str, **defines: object):
        key = (text, target, *sorted(defines.items()))
        if key not in known:
            (known[key],) = compiler.compile([unit(text, **defines)], target, deadline_s=120)
            assert not isinstance(known[key], XpuBuildError), known[key]
        return known[key]

    return go


@pytest.mark.parametrize("target", TARGETS)
def test_figures_agree_with_an_independent_reader(made, notes, tmp_path, target) -> None:
    for name, code in {
        "hungry": made(HUNGRY, target, COUNT=200, XPU_THREADS=1024),
        "stack": made(ON_STACK, target, XPU_THREADS=64),
    }.items():
        path = tmp_path / name
        path.write_bytes(code.code)
        told = notes(path)
        facts = code.facts
        assert facts.registers == told["vgpr_count"]
        assert facts.static_shared_bytes == (told["group_segment_fixed_size"] or 0)
        assert facts.stack_bytes == told["private_segment_fixed_size"]
        assert facts.pinned_block == told["max_flat_workgroup_size"]
        stores = told["vgpr_spill_count"]
        assert (facts.spill_bytes == 0) == (stores == 0)
        assert facts.spill_bytes <= 4 * stores
        assert told["wavefront_size"] == (32 if target in NARROW else 64)


@pytest.mark.parametrize("target", TARGETS)
def test_a_hungry_kernel_spills_and_a_frugal_one_does_not(made, target) -> None:
    hungry = made(HUNGRY, target, COUNT=200, XPU_THREADS=1024).facts
    assert hungry.spill_bytes > 100
    assert hungry.spill_bytes <= hungry.stack_bytes
    assert hungry.static_shared_bytes == 500
    assert hungry.pinned_block == 1024
    frugal = made(HUNGRY, target, COUNT=20, XPU_THREADS=128).facts
    assert (frugal.spill_bytes, frugal.stack_bytes) == (0, 0)
    assert 20 <= frugal.registers < 128
    assert frugal.pinned_block == 128


@pytest.mark.parametrize("target", ["gfx90a", "gfx1151"])
def test_an_array_on_the_stack_is_no_spill(made, target) -> None:
    facts = made(ON_STACK, target, XPU_THREADS=64).facts
    assert facts.stack_bytes >= 200
    assert facts.spill_bytes == 0


CALLS = """__attribute__((noinline)) static float heavy(xpu::global<float> x, int64_t n) {
    float v[220];
#pragma unroll
    for (int i = 0; i < 220; ++i) v[i] = x[i * 64 + n];
    float sum = 0;
    asm volatile("" ::: "memory");
#pragma unroll
    for (int i = 0; i < 220; ++i) sum += v[i] * v[(i * 7 + 3) % 220] * x[i + n];
    return sum;
}
__attribute__((noinline)) static float light(xpu::global<float> x, int64_t n) { return x[n] + 1; }
XPU_KERNEL(xpu::global<float> y, int64_t n) { y[xpu::thread()] = CALLED(y, n); }"""


@pytest.mark.parametrize("target", ["gfx90a", "gfx1100"])
def test_what_a_called_function_spills_is_the_kernels(made, target) -> None:
    code = made(CALLS, target, XPU_THREADS=1024, CALLED="heavy")
    stored = re.findall(r"(\d+)-byte Folded Spill", code.listing)
    total = sum(int(each) for each in stored)  # the kernel itself spills nothing
    assert total > 100
    assert code.facts.spill_bytes == min(total, code.facts.stack_bytes)
    light = made(CALLS, target, XPU_THREADS=1024, CALLED="light")
    assert "light" in light.listing
    assert light.facts.spill_bytes == 0


def test_calls_are_followed_and_assembly_without_comments_says_nothing() -> None:
    called = pytest.importorskip("xpu_backend_hip.generated").called_spill_bytes
    text = "".join(
        f"; -- Begin function {name}\n{body}\n; -- End function\n"
        for name, body in {
            "leaf": "\ts_clause 0x1f   ; 128-byte Folded Spill\n\tv_nop ; 4-byte Folded Reload",
            "middle": "\tx v1 ; 8-byte Folded Spill\n\ts_add_u32 s4, s4, leaf@rel32@lo+4",
            "kernel": "\tx v1 ; 4-byte Folded Spill\n\ts_add_u32 s4, s4, middle@gotpcrel32@lo+4",
            "alone": "\tx v1 ; 4-byte Folded Spill",
        }.items()
    )
    assert called(text, "kernel") == 136
    assert called(text, "middle") == 128
    assert called(text, "alone") == 0
    assert called(text.replace("; --", "//"), "kernel") is None


def test_a_kernel_with_memory_of_threads_and_unknown_calls_has_no_figure(made) -> None:
    code = made(ON_STACK, "gfx90a", XPU_THREADS=64).code
    facts = code_object.kernel_facts(code, "kernel_under_test", 64, None)
    assert facts.stack_bytes > 0
    assert facts.spill_bytes is None


def test_accumulation_registers_are_counted(made) -> None:
    # A thread addresses 256 vector registers; what is beyond lies in accumulation registers.
    facts = made(HUNGRY, "gfx90a", COUNT=200, XPU_THREADS=256).facts
    assert facts.registers > 256


def test_a_member_may_ask_for_several_blocks(made) -> None:
    alone = made(HUNGRY, "gfx1151", COUNT=100, XPU_THREADS=256).facts
    several = made(HUNGRY, "gfx1151", COUNT=100, XPU_THREADS=256, XPU_LEAST_BLOCKS=8).facts
    # 8 blocks of 8 waves are 16 waves of each SIMD, whose file has 1536 registers for a lane.
    assert several.registers <= 1536 // 16 < alone.registers


def test_a_kernel_without_registers_holds_one(made) -> None:
    assert made("XPU_KERNEL(xpu::global<int> y) {}", "gfx1151").facts.registers == 1


def test_waves_of_another_width_are_refused(made) -> None:
    code = made(ON_STACK, "gfx90a", XPU_THREADS=64).code
    with pytest.raises(XpuBuildError, match="waves of 32 lanes, and the compiler made waves of 64"):
        code_object.kernel_facts(code, "kernel_under_test", 32, 0)
    with pytest.raises(XpuBuildError, match="defines no kernel"):
        code_object.kernel_facts(code, "another", 64, 0)


def test_what_is_no_code_object_is_said(made) -> None:
    code = made(ON_STACK, "gfx90a", XPU_THREADS=64).code
    for damaged in (
        b"",
        b"\x7fELF",
        code[: len(code) // 2],
        code.replace(b"amdhsa.k", b"\xff" * 8),
    ):
        with pytest.raises(XpuBuildError, match=r"no code object|without AMD's metadata"):
            code_object.kernel_facts(damaged, "kernel_under_test", 64, 0)
    host = Path("/proc/self/exe").read_bytes()
    with pytest.raises(XpuBuildError, match="without AMD's metadata"):
        code_object.kernel_facts(host, "kernel_under_test", 64, 0)
