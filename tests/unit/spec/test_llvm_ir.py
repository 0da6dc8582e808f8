"""Functions in the text of LLVM 22, as its optimiser leaves them."""

from __future__ import annotations

import pytest

from xpu.spec import UNUSED, llvm_ir

HEAD = (
    "define protected amdgpu_kernel void @k(ptr addrspace(1) nofree noundef readonly align 16 "
    "captures(none) %0, ptr addrspace(1) %out.coerce, i64 noundef %n) local_unnamed_addr #0 {\n"
)


def modes(*lines: str, head: str = HEAD, count: int = 2):
    body = "\n".join(f"  {line}" for line in lines)
    return llvm_ir.buffer_modes(f"; a comment\n{head}{body}\n}}\n", "k", count)


def test_loads_and_stores_through_offsets_and_loops() -> None:
    assert modes(
        "br label %3",
        "%4 = phi ptr addrspace(1) [ %0, %2 ], [ %5, %3 ]",
        "%5 = getelementptr inbounds nuw i8, ptr addrspace(1) %4, i64 %n",
        "%6 = load <4 x i32>, ptr addrspace(1) %5, align 16, !tbaa !8",
        '%"7" = getelementptr float, ptr addrspace(1) %out.coerce, i64 %n',
        'store <4 x i32> %6, ptr addrspace(1) %"7", align 4, !tbaa !10',
    ) == ("read", "write")


@pytest.mark.parametrize(
    "line",
    [
        '%9 = atomicrmw fadd ptr addrspace(1) %0, float %f syncscope("agent") monotonic, align 4',
        "%9 = cmpxchg ptr addrspace(1) %0, i32 %a, i32 %b monotonic monotonic, align 4",
    ],
)
def test_what_reads_and_writes_at_once(line) -> None:
    assert modes(line) == ("update", UNUSED)


def test_transfers_name_both_their_ends() -> None:
    copy = (
        "call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) align 4 %out.coerce, "
        "ptr addrspace(1) align 4 dereferenceable(8) %0, i64 %n, i1 false), !tbaa.struct !3"
    )
    assert modes(copy) == ("read", "write")
    cleared = "tail call void @llvm.memset.p1.i64(ptr addrspace(1) %0, i8 0, i64 %n, i1 false)"
    assert modes(cleared) == ("write", UNUSED)


@pytest.mark.parametrize(
    "line",
    [
        "call void @helper(ptr addrspace(1) %0)",
        "store ptr addrspace(1) %0, ptr addrspace(3) @kept, align 8",
        "store ptr addrspace(1) %0, ptr addrspace(1) %0, align 8",
        "%8 = tail call i32 @llvm.amdgcn.something(ptr addrspace(1) %0, i32 %n)",
        'call void asm sideeffect "; $0", "v"(ptr addrspace(1) %0)',
        "invoke void @helper(ptr addrspace(1) %0) to label %8 unwind label %9",
        "%8 = va_arg ptr addrspace(1) %0, i32",
        "%8, %9 = something ptr addrspace(1) %0",
    ],
)
def test_an_address_that_goes_elsewhere_is_not_known(line) -> None:
    assert modes(line)[0] is None


VECTOR = (
    "%v = getelementptr float, ptr addrspace(1) %0, <8 x i64> %n",
    "%w = shufflevector <8 x ptr addrspace(1)> %v, <8 x ptr addrspace(1)> poison, <8 x i32> %n",
)
WORDS = (
    "%p = ptrtoint ptr addrspace(1) %0 to i64",
    "%r = call i64 @llvm.umax.i64(i64 %p, i64 4096)",
    "%t = trunc i64 %r to i32",
    "%u = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %t)",
    "%q = insertelement <4 x i32> poison, i32 %u, i64 0",
)


@pytest.mark.parametrize(
    "lines",
    [
        (
            *VECTOR,
            "%8 = call <8 x float> @llvm.masked.gather.v8f32.v8p1(<8 x ptr addrspace(1)> %w, "
            "i32 4, <8 x i1> %m, <8 x float> poison)",
        ),
        (
            *VECTOR,
            "call void @llvm.masked.scatter.v8f32.v8p1(<8 x float> %f, "
            "<8 x ptr addrspace(1)> %w, i32 4, <8 x i1> %m)",
        ),
        (
            *WORDS,
            "call void @llvm.amdgcn.raw.buffer.store.f32(float %f, <4 x i32> %q, i32 0, i32 0, "
            "i32 0)",
        ),
        (
            *WORDS,
            "%8 = tail call float @llvm.amdgcn.raw.buffer.load.f32(<4 x i32> %q, i32 0, i32 0, "
            "i32 0)",
        ),
        (*WORDS, "call void @llvm.unheard.of(i32 %u)"),
    ],
)
def test_an_address_in_a_vector_or_in_words_that_goes_elsewhere_is_not_known(lines) -> None:
    assert modes(*lines) == (None, UNUSED)


def test_an_address_is_followed_through_arithmetic() -> None:
    back = "%z = inttoptr i64 %r to ptr addrspace(1)"
    assert modes(*WORDS, back, "store i32 1, ptr addrspace(1) %z") == ("write", UNUSED)
    assert modes(
        "%8 = call ptr addrspace(1) @llvm.ptrmask.p1.i64(ptr addrspace(1) %0, i64 -16)",
        "%9 = load i32, ptr addrspace(1) %8",
    ) == ("read", UNUSED)


def test_what_touches_no_memory_is_no_access() -> None:
    assert modes(
        'call void @llvm.assume(i1 true) [ "align"(ptr addrspace(1) %0, i64 16) ]',
        "%8 = icmp eq ptr addrspace(1) %0, %out.coerce",
        "#dbg_value(ptr addrspace(1) %0, !12, !DIExpression(), !14)",
        "; a comment of %0",
        "switch i32 %s, label %9 [",
        "  i32 0, label %0",
        "]",
        "ret void",
    ) == (UNUSED, UNUSED)


def test_private_memory_gives_back_what_is_kept_there() -> None:
    kept = "store ptr addrspace(1) %out.coerce, ptr addrspace(5) %7, align 16"
    moved = "call void @llvm.memcpy.p5.p5.i64(ptr addrspace(5) %8, ptr addrspace(5) %7, i64 8)"
    fetched = "%9 = load ptr addrspace(1), ptr addrspace(5) %8, align 16"
    assert modes(kept, moved, fetched, "store i32 1, ptr addrspace(1) %9") == (UNUSED, "write")
    lost = "call void @llvm.memcpy.p3.p5.i64(ptr addrspace(3) %8, ptr addrspace(5) %7, i64 8)"
    assert modes(kept, lost) == (UNUSED, None)


def test_a_parameter_that_is_no_pointer_or_not_there_is_not_known() -> None:
    head = "define void @k({ ptr, i64 } %0, ptr %1) {\n"
    assert modes("store i32 1, ptr %1, align 4", head=head, count=3) == (None, "write", None)
    assert llvm_ir.buffer_modes("define void @other(ptr %0) {\n}\n", "k", 1) == (None,)
