"""What is read of the compiler's texts: operations by name, and modes of real kernels' buffers."""

from __future__ import annotations

import attrs
import pytest

from xpu.errors import XpuBuildError
from xpu.spec import UNUSED, Argument, CompiledCode, KernelUnit
from xpu_backend_hip.generated import buffer_modes, native_operations

ASSEMBLY = """
	v_dot4_i32_iu8 v1, v2, v3, v1 neg_lo:[1,1,0]
	v_dot4c_i32_i8_e32 v16, v3, v4
	v_dot4c_i32_i8_dpp v16, v3, v4 quad_perm:[0,1,2,3]
	v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]
	v_mfma_i32_16x16x16i8 a[0:3], v0, v1, a[0:3]
	v_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6
	; v_dot2_f32_f16 in a comment
v_dot2_f32_f16:
"""


def test_operations_are_named_once_whatever_their_encoding() -> None:
    found = [(each.instruction, each.places) for each in native_operations(ASSEMBLY)]
    assert found == [
        ("v_dot4_i32_iu8", 1),
        ("v_dot4c_i32_i8", 2),
        ("v_mfma_i32_16x16x16i8", 1),
        ("v_wmma_f32_16x16x16_f16", 1),
    ]


def test_a_compiler_that_keeps_nothing_leaves_modes_unknown(tmp_path) -> None:
    assert buffer_modes(tmp_path, "kernel", 2) == (None, None)


ARGUMENTS = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))
KERNEL = "XPU_KERNEL(xpu::global<float> x, xpu::global<float> y, int64_t n) {{ {} }}"


def compiled(compiler, unit, body: str, target: str):
    made = unit(KERNEL.format(body), XPU_THREADS=64)
    given = KernelUnit(made.kernel, made.entry, made.text, {}, made.defines, ARGUMENTS)
    (result,) = compiler.compile([given], target, deadline_s=60)
    return result


@pytest.mark.parametrize("target", ["gfx90a", "gfx1201"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[xpu::thread()] = x[n];", ("read", "write")),
        ("for (int64_t i = 0; i < n; ++i) xpu::atomic_add(y, i, x[i]);", ("read", "update")),
        ("y[n] = 1;", (UNUSED, "write")),
    ],
)
def test_modes_are_those_of_the_kernel(compiler, unit, target, body, expected) -> None:
    code = compiled(compiler, unit, body, target)
    assert isinstance(code, CompiledCode), code
    assert [(each.mode, each.is_derived) for each in code.buffers] == [
        (mode, True) for mode in expected
    ]


def test_a_kernel_that_writes_what_the_design_reads_fails_by_name(compiler, unit) -> None:
    error = compiled(compiler, unit, "y[0] = 1; x[n] = y[1] + x[1];", "gfx1151")
    assert isinstance(error, XpuBuildError)
    assert str(error).startswith("family.member, target gfx1151: the design only reads 'x', and")


def test_the_dot_product_of_a_part_is_named(compiler, unit) -> None:
    body = "y[0] = (float)xpu::dot4((uint32_t)n, (uint32_t)(n >> 32), 0);"
    names = {
        target: [each.instruction for each in compiled(compiler, unit, body, target).operations]
        for target in ("gfx90a", "gfx942", "gfx1151")
    }
    assert names["gfx1151"] == ["v_dot4_i32_iu8"]
    for target in ("gfx90a", "gfx942"):
        assert len(names[target]) == 1
        assert names[target][0].startswith("v_dot4")


@pytest.fixture
def disassembled(compiler, tmp_path):
    """Disassemble with a script in the place of the tool beside clang."""

    def go(script: str) -> str:
        tool = tmp_path / "llvm-objdump"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o700)
        toolchain = attrs.evolve(compiler._toolchain, command=(str(tmp_path / "clang"),))
        text: str = type(compiler)(toolchain).disassembly(tmp_path / "code", "kernel_under_test")
        return text

    return go


def test_code_is_disassembled_without_places(disassembled) -> None:
    # Source: what llvm-objdump 22 writes of code for gfx1151.
    text = disassembled(
        "printf '%s\\n' 'code: file format elf64-amdgpu' 'Disassembly of section .text:' "
        "'<kernel_under_test>:' '\ts_endpgm    // 000000001700: BFB00000'"
    )
    assert text.split() == ["<kernel_under_test>:", "s_endpgm"]


def test_a_disassembler_that_does_not_know_the_part_is_said(disassembled, compiler) -> None:
    release = compiler._toolchain.version.partition(".")[0]
    with pytest.raises(XpuBuildError, match=rf"unknown part; install llvm-{release}, or ROCm"):
        disassembled("echo unknown part; exit 3")


def test_the_assembly_is_kept(compiler, unit) -> None:
    listing = compiled(compiler, unit, "y[n] = x[n] + 1;", "gfx1151").listing
    assert "v_add_f32" in listing or "s_add_f32" in listing
    assert ".amdhsa_kernel kernel_under_test" in listing
