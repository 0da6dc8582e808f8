"""Tiers on the emulated part, which has whatever shapes its facts name: their numbers are run."""

from __future__ import annotations

import numpy as np
import pytest

from xpu.errors import XpuConfigError
from xpu.spec import CompiledCode, Launch
from xpu_backend_emulator.backend import EmulatorBackend

WHOLE, HALF, OTHER = "int8->int32:{}", "float16->float32:{}", "bfloat16->float32:{}"
# y: products of x (32, K) with itself in both types, added lane by lane.
TEXT = """
template <class T, class R>
static void product(xpu::accumulator<R, XPU_M, 16, XPU_K> &c, xpu::shared<T> x) {
    xpu::matrix_a<T, XPU_M, 16, XPU_K> a;
    xpu::matrix_b<T, XPU_M, 16, XPU_K> b;
    xpu::load(a, x, 0, XPU_K);
    for (int i = 0; i < b.count; ++i)
        b[i] = x.template load<uint32_t>((16 + b.column(i)) * XPU_K + b.k(i));
    xpu::multiply(c, a, b);
}
XPU_KERNEL(xpu::global<const int8_t> x, xpu::global<float> y) {
    XPU_SHARED(int8_t, bytes, 32 * XPU_K);
    XPU_SHARED(xpu::half, halves, 32 * XPU_K);
    for (int i = xpu::thread(); i < 32 * XPU_K; i += xpu::threads()) {
        const int8_t one = x[i];
        bytes[i] = one;
        halves[i] = xpu::from_float<xpu::half>((float)one);
    }
    xpu::barrier();
    xpu::accumulator<int32_t, XPU_M, 16, XPU_K> whole;
    xpu::accumulator<float, XPU_M, 16, XPU_K> real;
    xpu::fill(whole, 1);
    xpu::fill(real, 2.0f);
    product<int8_t>(whole, bytes);
    product<xpu::half>(real, halves);
    for (int i = 0; i < whole.count; ++i)
        y[whole.row(i) * 16 + real.column(i)] = (float)whole[i] + 2 * real[i];
}
"""


@pytest.fixture
def part(monkeypatch, tmp_path, wave):
    """Emulate a part with these matrix shapes."""

    def go(*shapes: str) -> EmulatorBackend:
        facts = tmp_path / "facts.toml"
        listed = ", ".join(f'"{shape}"' for shape in shapes)
        facts.write_text(f"wave_width = {wave}\nmatrix_shapes = [{listed}]\n")
        monkeypatch.setenv("XPU_EMULATOR_FACTS", str(facts))
        return EmulatorBackend()

    return go


@pytest.mark.parametrize(
    ("has", "tiers"),
    [
        ((WHOLE, HALF), {WHOLE: "native", HALF: "native"}),
        ((OTHER,), {WHOLE: "software", HALF: "software"}),
        ((WHOLE,), {WHOLE: "demoted", HALF: "software"}),
        ((), {WHOLE: "software", HALF: "software"}),
    ],
)
def test_numbers_are_the_same_in_every_tier(part, unit, wave, tmp_path, has, tiers) -> None:
    rng = np.random.default_rng()
    m, k = (8, 32) if wave == 64 else (16, 16)
    shape = f"{m}x16x{k}"
    backend = part(*(text.format(shape) for text in has))
    compiler, target = backend.compiler(), backend.compiler().native_target()
    made = unit(TEXT, XPU_M=m, XPU_K=k, XPU_THREADS=64)
    (code,) = compiler.compile([made], target, deadline_s=60)
    assert isinstance(code, CompiledCode), code
    expected = {kind.format(shape): tier for kind, tier in tiers.items()}
    assert {each.instruction: each.tier for each in code.operations} == expected
    path = tmp_path / "kernel.so"
    path.write_bytes(code.code)
    device = backend.open()
    kernel = device.load(path, "kernel_under_test")
    x = rng.integers(-9, 10, (32, k)).astype(np.int8)
    y = np.full((m, 16), np.nan, np.float32)
    arrays = [device.import_array(each, writable=False) for each in (x, y)]
    device.launcher(kernel, Launch((1, 1, 1), None, 0), arrays, ())()
    product = x[:m].astype(np.float32) @ x[16:].astype(np.float32).T
    np.testing.assert_array_equal(y, (1 + product) + 2 * (2 + product))


def test_a_build_rests_on_the_shapes(part) -> None:
    first = part(WHOLE.format("16x16x16")).compiler().fingerprint("wave32")
    assert first != part().compiler().fingerprint("wave32")


def test_a_shape_of_another_form_is_refused_by_name(part) -> None:
    with pytest.raises(XpuConfigError, match=r"facts\.toml.*'m16n16k16' is no matrix shape"):
        part("m16n16k16").devices()
