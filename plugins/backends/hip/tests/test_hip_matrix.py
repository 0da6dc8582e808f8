"""The native tier of cooperative matrices, on the host: it has not run on AMD silicon.

The very header is compiled for the host, the matrix instructions replaced by a model of a whole
wave that was written from AMD's description of the registers (``wave_model.h``) and is itself
compared here with what AMD's matrix instruction calculator prints.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xpu_backend_hip
from xpu.model import MatrixShape
from xpu.spec import KernelUnit, in_tiers, simt_prelude
from xpu_backend_hip.matrices import matrix_shapes, matrix_unit

HERE = Path(__file__).parent
RUNTIME = Path(xpu_backend_hip.__file__).parent / "runtime"
TARGETS = ("gfx90a", "gfx942", "gfx1151", "gfx1201")
ELEMENTS = ("int8", "float16", "bfloat16")


KINDS = (
    *("iu8_gfx11", "f16_gfx11", "iu8_gfx12", "f16_gfx12", "i8_mfma16", "i8_mfma32", "f16_mfma16"),
    *("bf16_gfx11", "bf16_gfx12", "bf16_mfma16"),
)
"""``enum kind`` of wave_model.h."""
# As AMD's matrix instruction calculator prints them (--register-layout): where the words along k of
# row 0 of A are (gfx11 has them in lane 16, too), and the sums of column 0, from row 0 on.
TURNS = " ".join(f"v{i // 2}{{{i % 2 * 16}}}" for i in range(16))
RUNS = " ".join(f"v{i % 8}{{{i // 8 * 16}}}" for i in range(16))
QUARTERS = " ".join(f"v{i % 4}{{{i // 4 * 16}}}" for i in range(16))
PRINTED = {
    "iu8_gfx11": ("v0{0} v1{0} v2{0} v3{0}", TURNS),
    "f16_gfx11": ("v0{0} v1{0} v2{0} v3{0} v4{0} v5{0} v6{0} v7{0}", TURNS),
    "iu8_gfx12": ("v0{0} v1{0} v0{16} v1{16}", RUNS),
    "f16_gfx12": ("v0{0} v1{0} v0{16} v1{16} v2{0} v3{0} v2{16} v3{16}", RUNS),
    "i8_mfma16": ("v0{0} v0{16} v0{32} v0{48}", QUARTERS),
    "i8_mfma32": ("v0{0} v1{0} v0{16} v1{16} v0{32} v1{32} v0{48} v1{48}", QUARTERS),
    "f16_mfma16": ("v0{0} v1{0} v0{16} v1{16} v0{32} v1{32} v0{48} v1{48}", QUARTERS),
}


class Data(ctypes.Structure):
    """``struct data`` of wave_products.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("a", "b")),
        *((name, ctypes.c_int64) for name in ("offset_a", "offset_b", "stride")),
        *((name, ctypes.c_void_p) for name in ("c", "writes")),
        *((name, ctypes.c_int) for name in ("is_filled", "times")),
    )


def macros(target: str) -> list[str]:
    """Return the macros that the compiler half gives for a target's matrices."""
    empty = KernelUnit("family.member", "none", "", {}, {})
    given, _ = in_tiers(empty, matrix_shapes(target), lambda unit: unit, lambda _unit: b"")
    unit = matrix_unit(target)
    assert unit is not None
    defines = {**given.defines, unit.macro: str(unit.version)}
    return [f"-D{name}={value}" for name, value in defines.items()]


@pytest.fixture(scope="module")
def waves(tmp_path_factory):
    """Return the wave of each target, compiled for the host."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler for the host")
    directory = tmp_path_factory.mktemp("waves")
    for name, text in simt_prelude().items():
        (directory / name).write_text(text)
    started = {}
    for target in TARGETS:
        places = (f"-I{directory}", f"-I{RUNTIME}", f"-I{HERE}")
        flags = ("-std=c++17", "-O1", "-w", "-shared", "-fPIC", *places, *macros(target))
        source, library = HERE / "wave_products.cpp", directory / f"{target}.so"
        command = (compiler, *flags, source, "-o", library)
        started[target] = library, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    # All have ended before one is found wrong: none is left open behind the test.
    said = [process.communicate()[1] for _, process in started.values()]
    assert not any(process.returncode for _, process in started.values()), "".join(said)
    return {target: ctypes.CDLL(str(library)) for target, (library, _) in started.items()}


def numbers(rng: np.random.Generator, element: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers as they lie in memory, and what they are."""
    if element == "int8":
        made = rng.integers(-128, 128, count, dtype=np.int8)
        return made, made.astype(np.float64)
    values = rng.standard_normal(count).astype(np.float32)
    if element == "float16":
        return values.astype(np.float16), values.astype(np.float16).astype(np.float64)
    bits = values.view(np.uint32) & np.uint32(0xFFFF0000)
    return (bits >> 16).astype(np.uint16), bits.view(np.float32).astype(np.float64)


def lines(flat: np.ndarray, offset: int, stride: int, count: int, k: int) -> np.ndarray:
    """Return `count` lines of k elements as (count, k)."""
    return np.stack([flat[offset + i * stride :][:k] for i in range(count)])


@pytest.mark.parametrize("is_filled", [False, True], ids=["loaded", "filled"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_product_is_a_plain_product(waves, target, is_filled) -> None:
    rng = np.random.default_rng()
    for text in matrix_shapes(target):
        shape = MatrixShape.from_text(text)
        m, k, whole = shape.m, shape.k, shape.element == "int8"
        aligned = 16 if whole else 8  # elements in 16 bytes
        stride = k + aligned * int(rng.integers(0, 4))
        offset_a, offset_b = (aligned * int(step) for step in rng.integers(0, 5, 2))
        given_a, a = numbers(rng, shape.element, 64 + 16 * stride)
        given_b, b = numbers(rng, shape.element, 64 + 16 * stride)
        c = np.zeros((2, m, 16), np.int32 if whole else np.float32)
        c[0] = rng.integers(-(2**20), 2**20, (m, 16)) if whole else rng.standard_normal((m, 16))
        c[1] = 77
        writes = np.zeros((m, 16), np.int32)
        times = int(rng.integers(1, 4))
        pointers = [array.ctypes.data for array in (given_a, given_b)]
        data = Data(*pointers, offset_a, offset_b, stride, *(x.ctypes.data for x in (c, writes)))
        data.is_filled, data.times = is_filled, times
        made = waves[target].run(ELEMENTS.index(shape.element), m, k, ctypes.byref(data))
        one_of_32 = whole and target == "gfx942"
        assert made == times * (1 if one_of_32 else k // 16), text
        right = c[0] + times * (
            lines(a, offset_a, stride, m, k) @ lines(b, offset_b, stride, 16, k).T
        )
        if whole:
            np.testing.assert_array_equal(c[1], right, text)
        else:
            np.testing.assert_allclose(c[1], right, rtol=1e-5, atol=1e-4, err_msg=text)
        lanes = 64 if target.startswith("gfx9") else 32
        assert writes.min() >= 1, text
        assert len(set(writes.ravel())) == 1, text
        assert writes.sum() % (lanes * (m * 16 // lanes)) == 0, text


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_has_the_registers_that_the_calculator_prints(waves, kind) -> None:
    library, number = waves["gfx90a"], KINDS.index(kind)
    operand, sums = PRINTED[kind.replace("bf16", "f16")]
    elements = 2 if "f16" in kind else 4
    for word, (register, lane) in enumerate(places(operand)):
        found = [library.model_k(number, lane, register, e) for e in range(elements)]
        assert found == [word * elements + e for e in range(elements)]
    for row, (register, lane) in enumerate(places(sums)):
        assert library.model_row(number, lane, register) == row


def places(printed: str) -> list[tuple[int, int]]:
    """Return register and lane of each word like ``v1{16}``."""
    return [(int(reg), int(lane)) for reg, lane in re.findall(r"v(\d+)\{(\d+)\}", printed)]


@pytest.mark.parametrize(
    ("target", "macro", "version"),
    [
        ("gfx908:sramecc+", "XPU_HIP_MFMA", 908),
        ("gfx90a:sramecc+:xnack-", "XPU_HIP_MFMA", 910),
        ("gfx942", "XPU_HIP_MFMA", 940),
        ("gfx9-4-generic", "XPU_HIP_MFMA", 940),
        ("gfx1103", "XPU_HIP_WMMA", 11),
        ("gfx11-generic", "XPU_HIP_WMMA", 11),
        ("gfx1200", "XPU_HIP_WMMA", 12),
    ],
)
def test_a_target_has_the_instructions_of_its_generation(target, macro, version) -> None:
    unit = matrix_unit(target)
    assert unit is not None
    assert (unit.macro, unit.version) == (macro, version)
    shapes = [MatrixShape.from_text(text) for text in matrix_shapes(target)]
    assert {shape.element for shape in shapes} == {*ELEMENTS} - (
        {"bfloat16"} if version == 908 else set()
    )
    assert {(shape.m, shape.n, shape.k) for shape in shapes} == {
        (m, 16, k) for m in (8, 16) for k in (16, 32)
    }


@pytest.mark.parametrize("target", ["gfx900", "gfx1030", "gfx1170", "gfx1250", "gfx9-generic", ""])
def test_a_target_without_them_has_no_shapes(target) -> None:
    assert matrix_unit(target) is None
    assert matrix_shapes(target) == ()
