"""What is read of PTX: in the language's own forms, and of what the compiler makes of kernels."""

from __future__ import annotations

import pytest

from xpu.errors import XpuBuildError
from xpu.spec import UNUSED, Argument, CompiledCode, KernelUnit
from xpu_backend_cuda.ptx import buffer_modes, native_operations

PROGRAM = """.version 9.5
.target sm_90
// mma.sync in a comment
.visible .entry kernel(
	.param .align 8 .b8 kernel_param_0[8],
	.param .u64 .ptr .align 1 kernel_param_1,
	.param .u64 kernel_param_2
)
.maxntid 32, 1, 1
{{
	.reg .b64 	%rd<9>;
	ld.param.u64 	%rd1, [kernel_param_0];
	ld.param.u64 	%rd2, [kernel_param_1];
	ld.param.u64 	%rd3, [kernel_param_2];
	cvta.to.global.u64 	%rd4, %rd2;
	add.s64 	%rd5, %rd1, %rd3;
{}
	ret;
}}
"""


def modes(*lines: str):
    return buffer_modes(PROGRAM.format("\n".join(lines)), "kernel", 2)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ld.global.nc.v4.u32 	{%r1, %r2, %r3, %r4}, [%rd5+16];", ("read", UNUSED)),
        ("$L__BB0_2: @!%p1 st.global.f32 [%rd4], %f1;", (UNUSED, "write")),
        ("atom.global.add.f32 %f2, [%rd4+4], %f1;", (UNUSED, "update")),
        ("red.global.add.u32 [%rd4], %r1;", (UNUSED, "update")),
        ("// begin inline asm\n{ cp.async.cg.shared.global [%r9], [%rd5], 16; }", ("read", UNUSED)),
        ("cp.reduce.async.bulk.global.shared::cta.add.s32 [%rd5], [%r1], 16;", ("update", UNUSED)),
        ("setp.eq.s64 %p1, %rd5, %rd4; selp.b64 %rd6, 1, 2, %p1;", (UNUSED, UNUSED)),
        ("prefetch.global.L2 [%rd5];", (UNUSED, UNUSED)),
        ("st.param.b64 [param0+0], %rd5; call.uni called, (param0);", (None, UNUSED)),
        ("st.shared.u64 [%r1], %rd5; ld.global.u32 %r2, [%rd5];", (None, UNUSED)),
        ("discard.global.L2 [%rd5], 128;", (None, UNUSED)),
        (
            "st.local.u64 [%rd7], %rd5; ld.local.u64 %rd8, [%rd7]; st.global.u32 [%rd8], %r1;",
            ("write", UNUSED),
        ),
        (
            "mov.b64 %rd6, kernel_param_0; ld.param.u64 %rd7, [%rd6]; st.u32 [%rd7], 1;",
            ("write", UNUSED),
        ),
        ("selp.b64 %rd6, %rd5, %rd4, %p1; st.global.u32 [%rd6], 1;", (None, None)),
        (
            "{ .reg .pred p; setp.ne.u32 p, %r1, 0; @p st.global.u32 [%rd5], %r2; }",
            ("write", UNUSED),
        ),
        ("{.reg .pred p;@!p st.global.u32[%rd5],%r2;}", ("write", UNUSED)),
        (".loc 1 5 3\n\tst.global.u32 [%rd4], 5;", (UNUSED, "write")),
        (
            ".loc	2 5 3, function_name $L__s0, inlined_at 1 6 4\n$L1: ld.u32 %r1, [%rd4];",
            (UNUSED, "read"),
        ),
        ("{ .reg .b64 t; mov.b64 t, %rd5; st.global.u32 [t], 5; }", ("write", UNUSED)),
        ("{ .reg .b64 t; ld.param.u64 t, [kernel_param_1]; st.u32 [t], 5; }", (UNUSED, "write")),
        (".unheard 7 st.global.u32 [%rd5], 5;", (None, UNUSED)),
        ("@%p1[0] st.global.u32 [%rd4], %r2;", (UNUSED, None)),
        (
            "cvta.param.u64 %rd6, kernel_param_0; ld.u64 %rd7, [%rd6]; st.u32 [%rd7], 1;",
            (None, UNUSED),
        ),
    ],
)
def test_statements_are_read_as_the_language_has_them(line, expected) -> None:
    assert modes(line) == expected


def test_a_kernel_that_is_not_there_has_no_modes() -> None:
    assert buffer_modes(PROGRAM.format(""), "kern", 2) == ()


def test_operations_are_counted_and_comments_are_none() -> None:
    text = PROGRAM.format(
        "{ mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1,%fd2}, {%fd3}, {%fd4}, {%fd5}; }\n"
        "dp4a.s32.s32 %r1, %r2, %r3, %r4;\n@%p1 dp4a.s32.s32 %r1, %r2, %r3, %r4;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];"
    )
    found = [(each.instruction, each.tier, each.places) for each in native_operations(text)]
    assert found == [
        ("dp4a.s32.s32", "native", 2),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "native", 1),
    ]


PARAMETERS = "xpu::global<{}float> x, xpu::global<float> y, int64_t n"
ARGUMENTS = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))


def compiled(compiler, unit, body: str, target: str, first: str = ""):
    made = unit(f"XPU_KERNEL({PARAMETERS.format(first)}) {{ {body} }}", XPU_THREADS=64)
    given = KernelUnit(made.kernel, made.entry, made.text, {}, made.defines, ARGUMENTS)
    (result,) = compiler.compile([given], target, deadline_s=60)
    return result


@pytest.mark.parametrize("target", ["sm_80", "sm_120"])
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
    error = compiled(compiler, unit, "y[0] = 1; x[n] = y[1] + x[1];", "sm_90")
    assert isinstance(error, XpuBuildError)
    assert str(error).startswith("family.member, target sm_90: the design only reads 'x', and")


def test_code_is_disassembled_without_places(compiler, unit, vendor, tmp_path) -> None:
    vendor("nvdisasm", "--version")
    code = compiled(compiler, unit, "y[n] = x[n] + 1;", "sm_90")
    (tmp_path / "code").write_bytes(code.code)
    text = compiler.disassembly(tmp_path / "code", "kernel_under_test")
    assert "FADD" in text
    assert "/*0000*/" not in text
    assert "FADD" not in code.listing
    assert ".visible .entry kernel_under_test" in code.listing


def test_what_is_no_code_is_refused_by_the_disassembler(compiler, vendor, tmp_path) -> None:
    vendor("nvdisasm", "--version")
    (tmp_path / "code").write_bytes(b"nothing")
    with pytest.raises(XpuBuildError, match="nvdisasm gave exit status"):
        compiler.disassembly(tmp_path / "code", "kernel_under_test")


def test_without_a_disassembler_what_installs_it_is_said(compiler, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("xpu_backend_cuda.disassembly._found", lambda: None)
    with pytest.raises(XpuBuildError, match="pip install nvidia-cuda-nvdisasm"):
        compiler.disassembly(tmp_path / "code", "kernel_under_test")
