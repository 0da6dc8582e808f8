"""What is read of a kernel's code, against an independent reader: NVIDIA's cuobjdump."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import attrs
import pytest

from xpu.spec import CompiledCode
from xpu_backend_cuda.cubin import kernel_facts, parameter_bytes

pytest.importorskip("cuda.pathfinder", reason="the extra 'cuda' is not installed")

TARGETS = ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
KERNELS = {
    "plain": "XPU_KERNEL(xpu::global<int> y) { y[xpu::thread()] = 1; }",
    "shared": """XPU_KERNEL(xpu::global<float> y, int64_t n) {
        XPU_SHARED(float, part, 100);
        XPU_DYNAMIC_SHARED(float, more);
        part[xpu::thread()] = y[n];
        xpu::barrier();
        y[xpu::thread()] = part[n] + more[n];
    }""",
    "calls": """__noinline__ float called(xpu::global<float> y, int n) {
        volatile float own[50];
        for (int i = 0; i < n; ++i) own[i] = y[i];
        return own[n / 2];
    }
    XPU_KERNEL(xpu::global<float> y, int64_t n) {
        volatile float own[10];
        own[n] = 1;
        y[n] = called(y, (int)n) + own[n + 1];
    }""",
    # More sums than a thread of so large a block has registers, all of them needed in each round.
    "spills": """XPU_KERNEL(xpu::global<float> y, int64_t n) {
        float sum[192];
        for (int i = 0; i < 192; ++i) sum[i] = y[i * n];
        for (int64_t k = 0; k < n; ++k)
            for (int i = 0; i < 192; ++i) sum[i] = sum[i] * sum[(i + 1) % 192] + y[k];
        for (int i = 0; i < 192; ++i) y[i * n] = sum[i];
    }""",
}
THREADS = {"plain": 96, "shared": 96, "calls": 256, "spills": 1024}


@pytest.fixture(scope="module")
def built(compiler, unit) -> Callable[[str, str], CompiledCode]:
    """Return a kernel of the table above for a target."""
    made: dict[tuple[str, str], CompiledCode] = {}

    def get(name: str, target: str) -> CompiledCode:
        if not made:
            units = [unit(text, XPU_THREADS=THREADS[key]) for key, text in KERNELS.items()]
            for each in TARGETS:
                codes = compiler.compile(units, each, deadline_s=60)
                made.update({(key, each): code for key, code in zip(KERNELS, codes, strict=True)})
        assert isinstance(made[name, target], CompiledCode), made[name, target]
        return made[name, target]

    return get


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_figures_are_those_of_an_independent_reader(
    built, figures, vendor, tmp_path, name, target
) -> None:
    path = tmp_path / "kernel.cubin"
    facts = built(name, target).facts
    path.write_bytes(built(name, target).code)
    assert attrs.astuple(figures(path, target)) == (
        facts.registers,
        facts.stack_bytes,
        facts.static_shared_bytes,
    )
    bounds = re.findall(
        r"EIATTR_MAX_THREADS\s+Format:.*\s+Value:\s+0x(\w+) 0x1 0x1",
        vendor("cuobjdump", "-elf", path),
    )
    assert {int(bound, 16) for bound in bounds} == {facts.pinned_block} == {THREADS[name]}


@pytest.mark.parametrize("target", TARGETS)
def test_parameters_are_those_of_an_independent_reader(
    built, compiler, unit, vendor, tmp_path, target
) -> None:
    text = "XPU_KERNEL(xpu::global<float> y, int32_t a, uint8_t b, int64_t n) { y[n] = a + b; }"
    (mixed,) = compiler.compile([unit(text, XPU_THREADS=32)], target, deadline_s=60)
    path = tmp_path / "kernel.cubin"
    for code, sizes in ((built("shared", target), (8, 8)), (mixed, (8, 4, 1, 8))):
        assert parameter_bytes(code.code, "kernel_under_test") == sizes
        path.write_bytes(code.code)
        listed = vendor("cuobjdump", "-elf", path)
        told = re.findall(r"Ordinal : 0x(\w+)\s+Offset\s*: 0x\w+\s+Size\s*: 0x(\w+)", listed)
        assert sorted((int(at, 16), int(size, 16)) for at, size in told) == [*enumerate(sizes)]
    assert parameter_bytes(b"\n.version 6.3", "kernel_under_test") is None


@pytest.mark.parametrize("target", TARGETS)
def test_shared_bytes_are_those_that_the_source_declares(built, target) -> None:
    assert built("shared", target).facts.static_shared_bytes == 400
    assert built("plain", target).facts.static_shared_bytes == 0


@pytest.mark.parametrize("target", TARGETS)
def test_spills_are_found_and_the_stack_holds_them(built, target) -> None:
    facts = built("spills", target).facts
    assert facts.spill_bytes > 0
    assert facts.stack_bytes > 0
    for name in ("plain", "shared", "calls"):
        assert built(name, target).facts.spill_bytes == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_stack_without_spills_is_told_apart(built, target) -> None:
    assert built("calls", target).facts.stack_bytes >= 40  # ten numbers, and those of a call


def test_what_a_report_does_not_say_is_absent(built) -> None:
    code = built("plain", "sm_90").code
    facts = kernel_facts(code, "ptxas info    : 0 bytes gmem", "kernel_under_test")
    assert (facts.registers, facts.spill_bytes, facts.static_shared_bytes, facts.stack_bytes) == (
        (None,) * 4
    )
    assert facts.pinned_block == 96


def test_a_report_of_several_kernels_is_read_for_the_one(built) -> None:
    log = """ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
ptxas         .     8 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 99 registers, used 1 barriers, 8 bytes cumulative stack size, 12 bytes smem
ptxas info    : Compiling entry function 'kernel_under_test' for 'sm_90'
ptxas info    : Function properties for kernel_under_test
ptxas         .     40 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 240 bytes cumulative stack size, 256 bytes smem
ptxas info    : Function properties for called
ptxas         .     200 bytes stack frame, 20 bytes spill stores, 12 bytes spill loads
"""
    facts = kernel_facts(built("plain", "sm_90").code, log, "kernel_under_test")
    assert facts.registers == 32
    assert facts.spill_bytes == 8 + 20
    assert facts.static_shared_bytes == 256
    assert facts.stack_bytes == 240


def product(kind: str, sums: str, start: int) -> str:
    """A product of tiles, of what lies from `start` bytes on in shared memory."""
    size = 1 if kind == "int8_t" else 2
    at = start // size
    return f"""{{
        auto tile = bytes.as<{kind}>();
        xpu::accumulator<{sums}, 16, 16, 16> c;
        xpu::matrix_a<{kind}, 16, 16, 16> a;
        xpu::matrix_b<{kind}, 16, 16, 16> b;
        xpu::fill(c, ({sums})0);
        xpu::load(a, tile, {at}, 16);
        xpu::load(b, tile, {at + 256}, 16);
        xpu::multiply(c, a, b);
        for (int i = 0; i < c.count; ++i) y[{start} + c.row(i) * 16 + c.column(i)] = (float)c[i];
    }}"""


VERBS = f"""XPU_KERNEL(xpu::global<const uint32_t> x, xpu::global<float> y) {{
    XPU_SHARED(uint8_t, bytes, 3072);
    for (int i = xpu::thread(); i < 192; i += 32) xpu::copy_async(bytes, i * 16, x, i * 4, 16);
    xpu::copy_commit();
    xpu::copy_wait<0>();
    xpu::barrier();
    y[9999] = (float)xpu::dot4(x[0], x[1], 0);
    {product("xpu::half", "float", 0)}
    {product("xpu::bfloat16", "float", 1024)}
    {product("int8_t", "int32_t", 2048)}
}}"""
NATIVE = (
    *("LDGSTS", "IDP.4A.S8.S8"),
    *("HMMA.16816.F32 ", "HMMA.16816.F32.BF16", "IMMA.16816.S8.S8"),
)


_SASS = {("mma", False): "HMMA", ("mma", True): "IMMA", ("dp4a", False): "IDP"}


@pytest.mark.parametrize("target", TARGETS)
def test_verbs_become_the_parts_own_instructions(compiler, unit, vendor, tmp_path, target) -> None:
    (code,) = compiler.compile([unit(VERBS, XPU_THREADS=32)], target, deadline_s=60)
    assert isinstance(code, CompiledCode), code
    (tmp_path / "kernel.cubin").write_bytes(code.code)
    text = vendor("nvdisasm", "-c", tmp_path / "kernel.cubin")
    assert [name for name in NATIVE if name not in text] == []
    # What PTX is said to hold is what the part executes, one for one.
    found = Counter(re.findall(r"\b([HI]MMA|IDP)\.", text))
    listed: Counter[str] = Counter()
    for each in code.operations:
        if each.places is None:  # a shape of matrices, which these make up
            continue
        listed[_SASS[each.instruction.partition(".")[0], ".s8." in each.instruction]] += each.places
    assert found == listed
    assert [(each.instruction, each.tier) for each in code.operations if each.places is None] == [
        (f"{kind}:16x16x16", "native")
        for kind in ("bfloat16->float32", "float16->float32", "int8->int32")
    ]


PRODUCT_KEPT = """
    auto tile = bytes.as<xpu::half>();
    xpu::accumulator<float, 16, 16, 16> c;
    xpu::matrix_a<xpu::half, 16, 16, 16> a;
    xpu::matrix_b<xpu::half, 16, 16, 16> b;
    xpu::fill(c, 0.0f);
    xpu::load(a, tile, 0, 16);
    xpu::load(b, tile, 256, 16);
    xpu::multiply(c, a, b);
    for (int i = 0; i < c.count; ++i) kept[i] = c[i];
"""
SOME_LANES = f"""XPU_KERNEL(xpu::global<const uint8_t> x, xpu::global<float> y, int64_t n) {{
    XPU_SHARED(uint8_t, bytes, 1024);
    for (int i = xpu::thread(); i < 1024; i += 32) bytes[i] = x[i];
    xpu::barrier();
    float kept[8];
    {PRODUCT_KEPT}
    if (y[n + xpu::thread()] > 3) for (int i = 0; i < 8; ++i) y[i * 32 + xpu::thread()] = kept[i];
}}"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_that_some_lanes_use_is_made_by_all(
    compiler, unit, vendor, tmp_path, target
) -> None:
    (code,) = compiler.compile([unit(SOME_LANES, XPU_THREADS=32)], target, deadline_s=60)
    assert isinstance(code, CompiledCode), code
    (tmp_path / "kernel.cubin").write_bytes(code.code)
    text = vendor("nvdisasm", "-c", tmp_path / "kernel.cubin")
    compared = text.rindex("FSETP.")
    left = re.compile(r"@!?U?P\d\s+(EXIT|BRA)").search(text, compared)
    assert left, "the lanes part nowhere"
    assert 0 < text.rindex("HMMA.") < left.start()
    assert not re.search(r"@!?P\d\s+HMMA", text)
