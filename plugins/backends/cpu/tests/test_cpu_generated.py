from __future__ import annotations

from xpu_backend_cpu.generated import largest_frame_bytes, native_operations, spill_stores


def test_native_instructions_of_several_processors_are_found_once_each():
    assembly = """
    vpdpbusd\t%zmm1, %zmm2, %zmm3
    vpdpbusd\t%zmm4, %zmm2, %zmm3
    tdpbssd\t%tmm0, %tmm1, %tmm2
    vdpbf16ps\t(%rax), %zmm1, %zmm0
    sdot\tv0.4s, v1.16b, v2.16b
    smmla v0.4s, v1.16b, v2.16b
    vpmaddubsw\t%ymm0, %ymm1, %ymm2
sdot:
    call\tsdot@PLT
    # vpdpwssd in a comment
    """
    found = [item.instruction for item in native_operations(assembly)]
    assert found == ["sdot", "smmla", "tdpbssd", "vdpbf16ps", "vpdpbusd"]


def test_the_largest_frame_is_taken():
    report = "kernel.c:3:6:small\t48\tstatic\nkernel.c:9:6:large\t4096\tdynamic,bounded\n"
    assert largest_frame_bytes(report) == 4096


def test_a_frame_without_bound_or_no_report_is_absent():
    assert largest_frame_bytes("kernel.c:3:6:grows\t48\tdynamic\n") is None
    assert largest_frame_bytes("") is None
    assert largest_frame_bytes("nonsense\n") is None


def test_spills_are_counted_and_reloads_are_not():
    assembly = """
    movq\t%rsi, -48(%rbp)                 # 8-byte Spill
    vmovaps\t%zmm1, 64(%rsp)              # 64-byte Spill
    incl\t-4(%rbp)                        # 4-byte Folded Spill
    str\tq0, [sp, #16]                    // 16-byte Spill
    movq\t-48(%rbp), %rsi                 # 8-byte Reload
    movq\t%rsi, -48(%rbp)
    """
    assert spill_stores(assembly) == 4
