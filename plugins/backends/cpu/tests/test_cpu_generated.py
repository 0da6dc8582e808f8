from __future__ import annotations

from xpu_backend_cpu.generated import largest_frame_bytes, native_operations


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
