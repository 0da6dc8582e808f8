"""Whether a main loop is vectorised: on recorded assembly, and on what the compiler makes here."""

from __future__ import annotations

import attrs
import pytest

from xpu_backend_cpu.vectors import vector_instructions

SUM = """
kernel:
	xorl %eax, %eax
.L3:
	vmovups	(%rdi,%rax), %ymm1
	vfmadd231ps	(%rsi,%rax), %ymm1, %ymm0
	addq	$32, %rax
	cmpq	%rax, %rdx
	jne	.L3
	jmp .L7
.L5: {scalar}
	incq	%rax
	cmpq	%rax, %rdx
	jne	.L5
.L7:
	vaddps %xmm1, %xmm0, %xmm0
	ret
"""

NESTED = """
kernel:
.L2:
	imulq	%rax, %rdx
	vmulss	%xmm1, %xmm2, %xmm3
	vmulss	%xmm1, %xmm2, %xmm3
	vmulss	%xmm1, %xmm2, %xmm3
.L3:
	{inner}
	cmpq	%rcx, %rdx
	jne	.L3
	cmpq	%rsi, %rdi
	jl	.L2
	ret
"""

ARM = """
kernel:
.L3:
	ldr	q1, [x0], 16
	{inner}
	subs	x2, x2, #1
	b.ne	.L3
	ret
"""


def scalars(count: int) -> str:
    return "".join("\n\tvfmadd231ss (%rsi,%rax), %xmm1, %xmm0" for _ in range(count))


def test_what_is_left_over_beside_a_vector_loop_is_not_the_main_loop():
    assert vector_instructions(SUM.format(scalar=scalars(1)), "x86_64") == 1
    assert vector_instructions(SUM.format(scalar=scalars(2)), "x86_64") == 0


@pytest.mark.parametrize(
    ("inner", "count"),
    [
        ("vpdpbusd %zmm1, %zmm2, %zmm3", 1),
        ("tdpbssd %tmm1, %tmm2, %tmm0", 1),
        ("pmaddubsw %xmm1, %xmm2", 1),
        ("vaddss %xmm1, %xmm2, %xmm2", 0),
        ("imull (%rsi), %eax", 0),
        ("addl (%rsi), %eax", 0),
    ],
)
def test_the_loop_within_counts_before_the_one_around_it(inner, count):
    assert vector_instructions(NESTED.format(inner=inner), "AMD64") == count


def test_products_of_whole_numbers_are_addresses_but_in_an_innermost_loop():
    copies = NESTED.replace("\tvmulss	%xmm1, %xmm2, %xmm3\n", "")
    assert vector_instructions(copies.format(inner="vmovups (%rsi), %ymm0"), "x86_64") is None
    assert vector_instructions(copies.format(inner="imull (%rsi), %eax"), "x86_64") == 0


def test_a_loop_that_is_cut_in_two_by_another_is_whole():
    inner = "prefetcht0 (%rcx)\n\tinc %rcx"
    text = NESTED.replace("vmulss", "vpmaddwd").format(inner=inner)
    assert vector_instructions(text, "x86_64") == 3


@pytest.mark.parametrize(
    ("inner", "count"),
    [
        ("fmla v0.4s, v1.4s, v2.4s", 1),
        ("sdot z0.s, z1.b, z2.b", 1),
        ("smmla v0.4s, v1.16b, v2.16b", 1),
        ("fmadd s0, s1, s2, s0", 0),
        ("madd w0, w1, w2, w0", 0),
        ("mov v0.16b, v1.16b", None),
    ],
)
def test_on_arm_the_operands_tell(inner, count):
    assert vector_instructions(ARM.format(inner=inner), "aarch64") == count


def test_what_has_no_loop_or_is_of_another_machine_is_absent():
    assert vector_instructions("f:\n\tvmulss %xmm0, %xmm0, %xmm0\n\tret\n", "x86_64") is None
    assert vector_instructions(SUM.format(scalar=""), "riscv64") is None
    assert vector_instructions("", "x86_64") is None


LOOP = """XPU_KERNEL {
    const float *x = buffers[0];
    float *y = buffers[1];
    float carried = 0.0f;
    for (int64_t i = 0; i < sizes[0]; i++) BODY;
    y[0] += carried;
}"""


@pytest.mark.parametrize(
    ("body", "is_vector"),
    [("y[i] = 3.0f * x[i] + 1.0f", True), ("carried = carried * x[i] + 1.0f", False)],
)
def test_the_fact_of_a_kernel_that_is_compiled_here(compiler, unit, body, is_vector):
    [code] = compiler.compile([unit(LOOP.replace("BODY", body))], "native", deadline_s=60)
    assert bool(code.facts.vector_instructions) is is_vector
    assert code.facts.vector_instructions is not None


def test_fast_math_lets_a_sum_be_vectorised(compiler, unit):
    plain = unit(LOOP.replace("BODY", "carried += x[i]"))
    codes = compiler.compile([plain, attrs.evolve(plain, fast_math=True)], "native", deadline_s=60)
    assert codes[0].facts.vector_instructions == 0
    assert codes[1].facts.vector_instructions > 0
