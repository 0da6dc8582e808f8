"""The three rules of tiers, each on a target that is one: native, software, a straddling group.

Whatever backend has a compiler here is asked; no device is. What a rule says is held against the
generated code, the manifest and the logger.
"""

from __future__ import annotations

import gzip
import logging
import re

import pytest

from xpu.adaptor import Adaptor, BuildCache, Built
from xpu.errors import XpuBuildError
from xpu.model import Family, Member
from xpu.registry import Registry, load_plugins
from xpu.spec import Argument, Design, KernelSource

BYTES = "int8->int32:8x16x32"
HALVES, BRAINS = "float16->float32:16x16x16", "bfloat16->float32:16x16x16"
SOURCE = """#include "xpu_simt.h"
template <class T, int M, int K, class R>
static void add(xpu::accumulator<R, M, 16, K> &c, xpu::shared<uint8_t> memory)
{
    const xpu::shared<T> bytes = memory.as<T>();
    xpu::matrix_a<T, M, 16, K> a;
    xpu::matrix_b<T, M, 16, K> b;
    xpu::load(a, bytes, 0, K);
    xpu::load(b, bytes, 16 * K, K);
    xpu::multiply(c, a, b);
}
XPU_KERNEL(xpu::global<const uint8_t> x, xpu::global<float> y)
{
    XPU_SHARED(uint8_t, memory, 2048);
    for (int i = xpu::thread(); i < 2048; i += xpu::threads()) memory[i] = x[i];
    xpu::barrier();
#if XPU_BYTES
    xpu::accumulator<int32_t, 8, 16, 32> c;
    xpu::fill(c, 0);
    add<int8_t>(c, memory);
#else
    xpu::accumulator<float, 16, 16, 16> c;
    xpu::fill(c, 0.0f);
    add<xpu::half>(c, memory);
#if XPU_BRAINS
    add<xpu::bfloat16>(c, memory);
#endif
#endif
    for (int i = 0; i < c.count; ++i) y[c.row(i) * 16 + c.column(i)] = (float)c[i];
}
"""


class Products(Design):
    """One product of matrices, or two that are summed in one tile."""

    name = "products"
    parameters = ("bytes", "brains", "threads")
    problem = ("n",)
    arguments = (Argument("x", "uint8", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("simt",)

    def source(self, dialect):
        return KernelSource(dialect, SOURCE)

    def shapes(self, problem, constants):
        return {"x": (2048,), "y": (16, 16)}

    def data(self, problem, constants, rng):
        return {}

    def verify(self, problem, constants, inputs, outputs, rng):
        return ""


FAMILY = Family(
    "products",
    "products",
    ("n",),
    (
        Member("bytes", {"bytes": 1, "brains": 0, "threads": 64}),
        Member("halves", {"bytes": 0, "brains": 0, "threads": 64}),
        Member("both", {"bytes": 0, "brains": 1, "threads": 64}),
    ),
)

MATRIX = r"\b(?:mma\.sync|v_wmma_|v_mfma_)"
"""Any instruction that multiplies matrices, of any target here."""


@pytest.fixture(scope="module")
def registry():
    designs = {"products": Products()}
    return load_plugins(), Registry(designs=designs)


@pytest.fixture
def build(registry, tmp_path):
    """Build members for a target; return what their manifests say and the generated code."""
    found, own = registry

    def go(target, *names):
        for backend in found.backends.values():
            try:
                is_known = backend.dialect == "simt" and backend.compiler().knows(target)
            except XpuBuildError:
                continue
            if is_known:
                adaptor = Adaptor(backend, own, BuildCache(tmp_path / "cache"))
                members = [member for member in FAMILY.members if member.name in names]
                return adaptor.build(FAMILY, members, target)
        return pytest.skip(f"no compiler here makes code for {target}")

    return go


def tiers(built) -> dict[str, str]:
    assert isinstance(built, Built), built
    return {each.instruction: each.tier for each in built.manifest.operations if each.is_shape}


def instructions(built) -> set[str]:
    return {each.instruction for each in built.manifest.operations if not each.is_shape}


def generated(built) -> str:
    return gzip.decompress(built.code.with_name("listing.gz").read_bytes()).decode()


@pytest.mark.parametrize(
    ("target", "of_bytes", "of_halves"),
    [
        ("sm_80", r"mma\.sync\S*m16n8k32\S*s8", r"mma\.sync\S*m16n8k16\S*f16"),
        ("sm_90", r"mma\.sync\S*m16n8k32\S*s8", r"mma\.sync\S*m16n8k16\S*f16"),
        ("gfx90a", "v_mfma_i32_16x16x16", "v_mfma_f32_16x16x16"),
        ("gfx942", "v_mfma_i32_16x16x32", "v_mfma_f32_16x16x16"),
        ("gfx1100", "v_wmma_i32_16x16x16_iu8", "v_wmma_f32_16x16x16_f16"),
        ("gfx1201", "v_wmma_i32_16x16x16_iu8", "v_wmma_f32_16x16x16_f16"),
    ],
)
def test_native_where_the_target_has_the_shape(build, caplog, target, of_bytes, of_halves) -> None:
    with caplog.at_level(logging.INFO, "xpu"):
        made = build(target, "bytes", "halves")
    assert tiers(made["bytes"]) == {BYTES: "native"}
    assert tiers(made["halves"]) == {HALVES: "native"}
    for name, wanted in (("bytes", of_bytes), ("halves", of_halves)):
        assert re.search(wanted, generated(made[name])), name
        assert any(re.match(MATRIX, each) for each in instructions(made[name])), name
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{target}: matrices {BYTES} are native (products.bytes)",
        f"{target}: matrices {HALVES} are native (products.halves)",
    ]


@pytest.mark.parametrize(("target", "dot"), [("gfx1030", "v_dot4"), ("gfx900", "")])
def test_the_software_tile_where_it_has_not(build, caplog, target, dot) -> None:
    with caplog.at_level(logging.INFO, "xpu"):
        built = build(target, "bytes")["bytes"]
    assert tiers(built) == {BYTES: "software"}
    text = generated(built)
    assert not re.search(MATRIX, text)
    assert bool(re.search(r"\bv_dot4", text)) is bool(dot)
    [said] = [record.getMessage() for record in caplog.records]
    assert said == f"{target}: matrices {BYTES} are software (products.bytes)"


def test_a_straddling_group_is_demoted_whole(build, caplog) -> None:
    """gfx908 has half of 16 x 16 x 16, and bfloat16 in another shape; both are summed in one."""
    with caplog.at_level(logging.WARNING, "xpu"):
        made = build("gfx908", "halves", "both")
    assert tiers(made["halves"]) == {HALVES: "native"}
    assert re.search("v_mfma_f32_16x16x16", generated(made["halves"]))
    assert tiers(made["both"]) == {HALVES: "demoted", BRAINS: "software"}
    assert not re.search(MATRIX, generated(made["both"]))
    assert not any(re.match(MATRIX, each) for each in instructions(made["both"]))
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"gfx908: matrices {HALVES} are multiplied in software, though")
    assert "products.both" in said


def test_where_both_are_native_nothing_is_demoted(build) -> None:
    made = build("gfx90a", "both")
    assert tiers(made["both"]) == {HALVES: "native", BRAINS: "native"}
    assert re.search("v_mfma_f32_16x16x16.*bf16", generated(made["both"]))
