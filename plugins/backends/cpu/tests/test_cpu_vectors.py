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


ROUND = """
kernel:
.L3:
{turn}
	incq	%rax
	cmpq	%rax, %rdx
	jne	.L3
	ret
helper:
	ret
"""

SCALAR = {
    "a call": "vmovss (%r12,%rax,4), %xmm0\n\tcall expf@PLT\n\tvmovss %xmm0, 0(%r13,%rax,4)",
    "logic": "movl (%rdi,%rax,4), %ecx\n\txorl (%rsi,%rax,4), %ecx\n\taddl %ecx, %r8d",
    "bits": "popcntq (%rdi), %rcx\n\taddq $8, %rdi\n\taddq %rcx, %r8",
    "in registers": (
        "movzbl (%rdi,%rax), %ecx\n\tsarl $3, %ecx\n\tmovl %ecx, %r9d\n\torl %r9d, %r8d"
    ),
    "in memory": "movslq (%rsi,%rax,4), %rcx\n\tincl (%rdi,%rcx,4)",
    "a scatter": (
        "vmovss (%rdi,%rax,4), %xmm0\n\tmovslq (%rdx,%rax,4), %r8\n\tvmovss %xmm0, (%rsi,%r8,4)"
    ),
    "a choice": "movl (%rdi,%rax,4), %ecx\n\tcmpl %ecx, %r8d\n\tcmovl %ecx, %r8d",
}
NO_WORK = {
    "a count": "addq $4, %rdi\n\tsubl $1, %ecx",
    "a count in the frame": "addq $1, -8(%rbp)\n\taddl 16(%rsp), %ecx",
    "strides": "addq 24(%rbx), %rsi\n\tprefetcht0 (%rsi)",
    "offsets": (
        "movslq (%rdi,%rax,4), %rcx\n\taddq %r9, %rcx\n\tshlq $2, %rcx\n\tprefetcht0 (%rsi,%rcx)"
    ),
    "a zero": "movl (%rdi), %ecx\n\txorl %r8d, %r8d",
    "whole memory": "leaq (%rdi,%rax), %rcx\n\tcall memcpy@PLT",
    "a function here that does nothing": "call helper",
    "vectors": (
        "vmovdqu (%rdi,%rax), %ymm0\n\t"
        "vpxor (%rsi,%rax), %ymm0, %ymm0\n\t"
        "vmovdqu %ymm0, (%rcx,%rax)"
    ),
}


@pytest.mark.parametrize("turn", SCALAR.values(), ids=SCALAR)
def test_calls_and_whole_numbers_that_are_data_are_work(turn):
    assert vector_instructions(ROUND.format(turn=f"\t{turn}"), "x86_64") == 0


@pytest.mark.parametrize("turn", NO_WORK.values(), ids=NO_WORK)
def test_counts_and_addresses_are_no_work(turn):
    assert vector_instructions(ROUND.format(turn=f"\t{turn}"), "x86_64") is None


@pytest.mark.parametrize(
    ("turn", "count"),
    [
        ("ldr s0, [x19], 4\n\tbl expf\n\tstr s0, [x20], 4", 0),
        ("ldr w3, [x0], #4\n\tldr w4, [x1], #4\n\teor w3, w3, w4\n\tadd w5, w5, w3", 0),
        ("ldrsw x8, [x1], #4\n\tldr s0, [x0], #4\n\tstr s0, [x4, x8, lsl #2]", 0),
        ("ldr x8, [x1, 8]\n\tadd x3, x3, x8\n\tprfm pldl1keep, [x3]", None),
        ("add x3, x3, 4\n\tldr w4, [sp, 16]\n\tadd w5, w4, w5", None),
        ("ldr q0, [x0], 16\n\teor v0.16b, v0.16b, v1.16b\n\tstr q0, [x4], 16", None),
    ],
)
def test_on_arm_the_result_stands_first(turn, count):
    text = ROUND.replace("incq	%rax", "add x2, x2, 1").replace("jne	", "b.ne	")
    text = text.replace("cmpq	%rax, %rdx", "cmp x2, x6")
    assert vector_instructions(text.format(turn=f"\t{turn}"), "aarch64") == count


CALLED = {
    "floats": ("call f", "f:\n\tmulss %xmm0, %xmm0\n\taddss %xmm1, %xmm0\n\tret", 0),
    "whole numbers": (
        "movl (%rsi,%rax,4), %edi\n\tcall f\n\tmovl %ecx, (%rdx,%rax,4)",
        "f:\n\tmovl %edi, %ecx\n\tsarl $3, %ecx\n\txorl %edi, %ecx\n\tret",
        0,
    ),
    "vectors": ("call f", "f:\n\tvmulps (%rsi), %ymm0, %ymm0\n\tret", 1),
    "a call in a call": ("call f", "f:\n\tcall g\n\tret\ng:\n\tmulss %xmm0, %xmm0\n\tret", 0),
    "its last call": ("call f", "f:\n\tjmp g\ng:\n\tmulss %xmm0, %xmm0\n\tret", 0),
    "a function elsewhere": ("call f", "f:\n\tcall expf@PLT\n\tret", 0),
    "itself": ("call f", "f:\n\ttestl %edi, %edi\n\tje .L8\n\tcall f\n.L8:\n\tret", 0),
    "a way out": (
        "call f",
        "f:\n\tje .L8\n\tret\n.L8:\n\tcall abort\ng:\n\tmulss %xmm0, %xmm0\n\tret",
        None,
    ),
    # As much before and behind the loop as makes the outer one no main loop if it is seen.
    "a loop of vectors": (
        "call f",
        f"f:{scalars(4)}\n.L8:\n\tvmulps (%rsi), %ymm0, %ymm0\n\taddq $32, %rsi\n"
        f"\tcmpq %rsi, %rdi\n\tjne .L8{scalars(4)}\n\tret",
        1,
    ),
}


@pytest.mark.parametrize(("turn", "functions", "count"), CALLED.values(), ids=CALLED)
def test_what_a_loop_calls_in_its_file_is_work_of_the_loop(turn, functions, count):
    loop = ROUND.format(turn="\t" + turn)
    for text in (f"{loop}{functions}\n", f"{functions}\n{loop}"):
        assert vector_instructions(text, "x86_64") == count


def test_on_arm_what_a_loop_calls_is_work_too():
    loop = ARM.replace("ldr	q1, [x0], 16\n\t", "").format(inner="bl f")
    assert vector_instructions(f"{loop}f:\n\tfmul s0, s0, s1\n\tret\n", "aarch64") == 0
    assert vector_instructions(f"{loop}f:\n\tfmul v0.4s, v0.4s, v1.4s\n\tret\n", "aarch64") == 1


def test_functions_that_call_each_other_without_end_take_no_time():
    # Each calls the next one four times: 4 ** 30 copies of the last one.
    calls = ["\n".join([f"f{at}:", *[f"\tcall f{at + 1}"] * 4, "\tret\n"]) for at in range(30)]
    last = "f30:\n\tmulss %xmm0, %xmm0\n\tret\n"
    text = ROUND.format(turn="\tcall f0") + "".join(calls) + last
    assert vector_instructions(text, "x86_64") == 0


def test_whole_numbers_left_over_beside_vectors_are_not_the_main_loop():
    vectors, rest = (
        ROUND.format(turn=f"\t{turn}").replace("L3", name).replace("helper", name)
        for turn, name in ((NO_WORK["vectors"], "L4"), (SCALAR["logic"], "L5"))
    )
    assert vector_instructions(vectors + rest, "x86_64") is None
    # A call is more than what vectors do in a few instructions.
    heavy = rest.replace("\txorl", f"\t{SCALAR['a call']}\n\txorl")
    assert vector_instructions(vectors + heavy, "x86_64") == 0


def test_what_has_no_loop_or_is_of_another_machine_is_absent():
    assert vector_instructions("f:\n\tvmulss %xmm0, %xmm0, %xmm0\n\tret\n", "x86_64") is None
    assert vector_instructions(SUM.format(scalar=""), "riscv64") is None
    assert vector_instructions("", "x86_64") is None


LOOP = """#include <math.h>
XPU_KERNEL {
    const float *x = buffers[0];
    float *y = buffers[1];
    float carried = 0.0f;
    for (int64_t i = 0; i < sizes[0]; i++) BODY;
    y[0] += carried;
}"""


@pytest.mark.parametrize(
    ("body", "is_vector"),
    [
        ("y[i] = 3.0f * x[i] + 1.0f", True),
        ("carried = carried * x[i] + 1.0f", False),
        ("y[i] = expf(x[i])", False),
    ],
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
