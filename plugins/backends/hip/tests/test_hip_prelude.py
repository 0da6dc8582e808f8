"""The prelude: the instructions that its words become, and the numbers of composed ones."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xpu_backend_hip
from xpu_backend_hip.process import run
from xpu_backend_hip.targets import generation, wave_width

RUNTIME = Path(xpu_backend_hip.__file__).parent / "runtime"
TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")
WORDS = """XPU_KERNEL(xpu::global<const uint32_t> x, xpu::global<float> y, xpu::global<int> z) {
    XPU_SHARED(float, part, XPU_THREADS);
    XPU_DYNAMIC_SHARED(float, more);
    const int t = xpu::thread();
    const xpu::half2 h = xpu::fma(xpu::half2{x[t]}, xpu::half2{x[t + 1]}, xpu::half2{x[t + 2]});
    part[t] = xpu::to_float(xpu::from_float<xpu::half>(y[t])) + xpu::grid_y();
    more[t] = part[t ^ 1];
    xpu::barrier();
    y.store<xpu::vec<float, 4>>(4 * t, y.load<xpu::vec<float, 4>>(4 * t + 4096));
    z[t] = xpu::dot4(x[t], h.bits, xpu::dot4_us(x[2 * t], x[3 * t], 1));
    z[t + 8] = xpu::shuffle_xor(z[9 * t], 1) + xpu::atomic_add(z, 0, 3);
    y[t + 99] = part.load<xpu::vec<float, 4>>(t / 4)[1] + more[2 * t];
}"""


@pytest.fixture(scope="module")
def assembly(compiler, unit, tmp_path_factory):
    """Return a kernel in assembly, as the compiler half has it compiled."""
    from xpu_backend_hip import compiler as module

    def go(text: str, target: str) -> str:
        directory = tmp_path_factory.mktemp(target)
        one = unit(text)
        for name, header in module._included(one).items():
            (directory / name).write_text(header)
        (directory / "kernel.cpp").write_text(one.text)
        own = (f"-DXPU_WAVE={wave_width(target)}", "-DXPU_ENTRY=made", "-DXPU_THREADS=64")
        flags = (*module._FLAGS, *module._of_target(target), *own)
        command = (*compiler._toolchain.command, *flags, "-S", "kernel.cpp", "-o", "kernel.s")
        done = run(command, directory, 60)
        assert done.status == 0, done.output
        return (directory / "kernel.s").read_text()

    return go


@pytest.mark.parametrize("target", TARGETS)
def test_words_become_instructions(assembly, target) -> None:
    text = assembly(WORDS, target)
    wanted = ["v_dot4", "v_pk_fma_f16", "v_cvt_f16_f32", "v_cvt_f32_f16", "ds_bpermute_b32"]
    wanted += ["global_atomic_add", r"s_barrier", r"(global_load_b128|global_load_dwordx4)"]
    missing = [name for name in wanted if not re.search(rf"\b{name}", text)]
    # A block of 64 threads is one wave here and there, and no barrier is needed then.
    assert missing in ([], ["s_barrier"] if wave_width(target) == 64 else [])
    # Memory of an unknown kind takes the slow way to shared memory and to the device's alike.
    assert not re.findall(r"\bflat_\w+", text)


@pytest.mark.parametrize("target", ["gfx900", "gfx1010"])
def test_a_part_without_dot_products_has_none(assembly, target) -> None:
    assert "v_dot" not in assembly(WORDS, target)


@pytest.mark.parametrize(
    ("target", "number", "lanes"),
    [
        ("gfx90a", 9, 64),
        ("gfx942:sramecc+:xnack-", 9, 64),
        ("gfx9-4-generic", 9, 64),
        ("gfx1030", 10, 32),
        ("gfx10-3-generic", 10, 32),
        ("gfx1151", 11, 32),
        ("gfx1201", 12, 32),
        ("gfx90", None, None),
        ("sm_90", None, None),
        ("gfx1151:", None, None),
    ],
)
def test_a_name_says_the_generation_and_the_wave(target, number, lanes) -> None:
    assert generation(target) == number
    assert lanes is None or wave_width(target) == lanes


@pytest.mark.parametrize("has", ["sdot4", "sudot4"])
def test_dot_products_are_those_of_the_dialect(tmp_path, has) -> None:
    """On the host, where plain functions do what the part's instructions are defined to do."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler for the host")
    source = f"""
#include <cstdint>
#define __has_builtin(name) HAS_##name
#define HAS___builtin_amdgcn_sdot4 {int(has == "sdot4")}
#define HAS___builtin_amdgcn_sudot4 {int(has == "sudot4")}
#define XPU_DEVICE static inline
static int take(bool is_signed, int word, int i) {{
    return is_signed ? (int8_t)(word >> 8 * i) : (uint8_t)(word >> 8 * i);
}}
static int __builtin_amdgcn_sudot4(bool sa, int a, bool sb, int b, int c, bool) {{
    unsigned sum = c;
    for (int i = 0; i < 4; ++i) sum += (unsigned)(take(sa, a, i) * take(sb, b, i));
    return (int)sum;
}}
static int __builtin_amdgcn_sdot4(int a, int b, int c, bool clamp) {{
    return __builtin_amdgcn_sudot4(true, a, true, b, c, clamp);
}}
#include "{RUNTIME}/xpu_hip_dot.h"
extern "C" void both(const uint32_t *a, const uint32_t *b, const int32_t *c, int32_t *y, int n) {{
    for (int i = 0; i < n; ++i) {{
        y[2 * i] = xpu::dot4(a[i], b[i], c[i]);
        y[2 * i + 1] = xpu::dot4_us(a[i], b[i], c[i]);
    }}
}}"""
    (tmp_path / "dot.cpp").write_text(source)
    library = tmp_path / "dot.so"
    flags = ("-w", "-O1", "-shared", "-fPIC", "-fno-builtin")
    subprocess.run([compiler, *flags, tmp_path / "dot.cpp", "-o", library], check=True)
    random = np.random.default_rng()
    a, b = random.integers(0, 2**32, (2, 999), dtype=np.uint32)
    a[:4] = b[2:6] = (0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0)
    c = random.integers(-(2**30), 2**30, 999, dtype=np.int32)
    c[:2] = 2**31 - 1 - 4 * 2**14, -(2**31) + 4 * 255 * 128
    y = np.full((999, 2), -1, np.int32)
    ctypes.CDLL(str(library)).both(
        *(ctypes.c_void_p(array.ctypes.data) for array in (a, b, c, y)), ctypes.c_int(999)
    )
    signed = b.view(np.int8).reshape(-1, 4).astype(np.float64)
    for column, left in ((0, a.view(np.int8)), (1, a.view(np.uint8))):
        exact = c + (left.reshape(-1, 4).astype(np.float64) * signed).sum(axis=1)
        fits = (exact >= -(2**31)) & (exact < 2**31)
        assert fits.sum() > 990
        np.testing.assert_array_equal(y[fits, column], exact[fits])
