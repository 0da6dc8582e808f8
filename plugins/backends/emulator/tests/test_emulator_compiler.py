"""The compiler half: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from xpu.errors import XpuBuildError
from xpu.spec import Argument, CompiledCode, KernelUnit, simt_prelude
from xpu_backend_emulator.backend import EmulatorBackend
from xpu_backend_emulator.compiler import TARGETS, EmulatorCompiler
from xpu_backend_emulator.toolchain import find_toolchain

PLAIN = "XPU_KERNEL(xpu::global<int> y) { y[xpu::thread()] = 1; }"


@pytest.fixture
def fake_cxx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a compiler in place that says what it is, and does `script` when it compiles."""
    real = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")

    def make(script: str) -> None:
        path = tmp_path / "fake-c++"
        path.write_text(
            f'#!/bin/sh\nfor a in "$@"; do [ "$a" = -dM ] && exec {real} "$@"; done\n{script}\n'
        )
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    return make


def test_footprint_and_buffers(compiler, unit) -> None:
    made = unit(
        """template <int W> static int turned(int v) {
            XPU_SHARED(int, cell, W);
            cell[xpu::thread() % W] = v;
            return v;
        }
        XPU_KERNEL(xpu::global<int> y) {
            XPU_SHARED(char, one, 1);
            XPU_SHARED(double, two, 3);
            if (XPU_N == 1) y[0] = turned<5>(1);
        }""",
        XPU_N=1,
        XPU_THREADS=96,
    )
    taken = (Argument("result", "int32", "write"),)
    made = KernelUnit(made.kernel, made.entry, made.text, {}, made.defines, taken)
    (code,) = compiler.compile([made], "wave32", deadline_s=60)
    assert isinstance(code, CompiledCode), code
    assert code.facts.static_shared_bytes == 16 + 32 + 32  # each at a multiple of 16
    assert code.facts.pinned_block == 96
    assert code.facts.registers is None
    assert code.facts.stack_bytes is None
    assert [(buffer.name, buffer.mode) for buffer in code.buffers] == [("result", "write")]


def test_the_same_input_gives_the_same_bytes_and_a_target_other_ones(unit) -> None:
    def bytes_of(target: str) -> bytes:
        (code,) = EmulatorCompiler(find_toolchain(), 32).compile(
            [unit(PLAIN)], target, deadline_s=60
        )
        assert isinstance(code, CompiledCode), code
        return code.code

    assert bytes_of("wave64") == bytes_of("wave64")
    assert len({bytes_of(target) for target in TARGETS}) == 4


def test_a_failure_stands_in_its_place(compiler, unit) -> None:
    units = [unit(PLAIN), unit("XPU_KERNEL(xpu::global<int> y) { y[0] = nothing; }"), unit(PLAIN)]
    first, second, third = compiler.compile(units, "wave32", deadline_s=60)
    assert isinstance(first, CompiledCode)
    assert isinstance(third, CompiledCode)
    assert isinstance(second, XpuBuildError)
    text = str(second)
    assert text.startswith("family.member, target wave32: ")
    assert "kernel.cpp:2" in text
    assert "nothing" in text
    assert text.endswith("mend the source, or leave the member out")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#include <stdint.h>\n" + PLAIN, "stdint.h"),
        # Some compilers have their own C++ headers whatever they are told; what these need is not.
        ("#include <vector>\n" + PLAIN, r"vector|features\.h"),
        ('extern "C" int puts(const char *);\nXPU_KERNEL() { puts(""); helper(); }', "helper"),
        ("int helper();\nXPU_KERNEL(xpu::global<int> y) { y[0] = helper(); }", "helper"),
        ("XPU_KERNEL(xpu::global<int> y) { throw 1; }", "exception"),
        (
            "XPU_KERNEL(xpu::global<const int> y) { y[0] = 1; }",
            "read-only|lvalue|rvalue|not assignable",
        ),
        (
            "XPU_KERNEL(xpu::global<int> y) { auto v = y[0]; y[1] = v + 1; }",
            "lvalue|no match|invalid",
        ),
        ("XPU_KERNEL(xpu::global<int> y) { int &v = y[0]; v = 1; }", "element"),
        ("XPU_KERNEL(int n) { }", "takes xpu::global<T> and int64_t"),
        ("XPU_KERNEL(int64_t n, xpu::global<int> y) { y[0] = n; }", "takes its arrays first"),
        (
            "XPU_KERNEL(xpu::global<int *> y) { y[0] = new int; }",
            "operator new",
        ),
        (
            "XPU_KERNEL(xpu::global<int> y, int64_t n) { int own[n]; own[0] = 1; y[0] = own[0]; }",
            "variable length array",
        ),
        ("XPU_KERNEL(xpu::global<int64_t> y) { xpu::atomic_add(y, 0, 1); }", "of 32 bits"),
        ("XPU_KERNEL(xpu::global<int> y) { y[0] = xpu::group_sum<64>(1); }", "at most 32"),
        ("XPU_KERNEL() { xpu::copy_wait<-1>(); }", "0 groups or more"),
        (
            "struct alignas(32) wide { int v[8]; };\nXPU_KERNEL() { XPU_SHARED(wide, part, 1); }",
            "aligned to at most 16",
        ),
        ("XPU_KERNEL(xpu::global<uint8_t> y) { y[0] = xpu::shuffle(y[1], 0); }", "4, 8, 12 or 16"),
        (
            "XPU_KERNEL(xpu::global<int> y) { volatile char big[60000]; big[y[0]] = 1; }",
            "frame size",
        ),
        ("int x;", "defines no kernel"),
        (
            "XPU_KERNEL(xpu::global<int> y, int64_t n) { XPU_SHARED(int, part, n); part[0] = 0; }",
            "n",
        ),
    ],
)
def test_what_is_not_of_the_dialect_is_refused(refused, text, words) -> None:
    if words == "stdint.h" and "ziglang" in find_toolchain().command:
        pytest.skip("zig adds its own headers to every search path")
    assert re.search(words, refused(text)), refused(text)


def test_headers_that_the_environment_offers_are_not_included(
    refused, tmp_path, monkeypatch
) -> None:
    (tmp_path / "outside.h").touch()
    for name in ("CPATH", "CPLUS_INCLUDE_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    assert "outside.h" in refused("#include <outside.h>\nXPU_KERNEL() {}")


def test_parameters_are_held_against_the_design(compiler, unit) -> None:
    text = "XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y) { y[0] = x[0]; }"

    def answer(*access: str) -> str:
        made = unit(text)
        taken = tuple(Argument(f"a{at}", "int32", mode) for at, mode in enumerate(access))
        made = KernelUnit(made.kernel, made.entry, made.text, {}, made.defines, taken)
        (result,) = compiler.compile([made], "wave32", deadline_s=60)
        return "" if isinstance(result, CompiledCode) else str(result)

    assert answer("read", "write") == answer("read", "update") == answer("write", "update") == ""
    assert "only reads 'a1', and the kernel may write it" in answer("read", "read")
    assert "takes 2 arrays, the design has 1 (a0)" in answer("read")


def test_the_macros_of_the_dialect_are_not_a_members(refused) -> None:
    for name in ("XPU_WAVE", "XPU_ENTRY"):
        assert f"gives the macro {name}" in refused(PLAIN, **{name: 64})


def test_a_block_larger_than_any(refused) -> None:
    assert "1024 threads" in refused(PLAIN, XPU_THREADS=1025)


def test_targets_and_names_of_includes_are_checked(refused, compiler, unit) -> None:
    assert "is none of wave32, wave32-fast, wave64, wave64-fast" in refused(PLAIN, "wave16")
    for name in ("xpu_simt.h", "kernel.cpp", "../up.h", "/abs.h", "xpu_simt_common.h"):
        assert repr(name) in refused(PLAIN, includes={name: ""})
    good = unit('#include "sub/mine.h"\n' + PLAIN, {"sub/mine.h": "#define MINE 1\n"})
    (code,) = compiler.compile([good], "wave32", deadline_s=60)
    assert isinstance(code, CompiledCode), code


def test_the_deadline_ends_a_compiler_that_hangs(fake_cxx, unit, tmp_path) -> None:
    fake_cxx(f'echo "$TMPDIR" > {tmp_path}/said; sleep 60 & wait')
    start = time.monotonic()
    (error,) = EmulatorCompiler(find_toolchain(), 32).compile(
        [unit(PLAIN)], "wave32", deadline_s=0.3
    )
    assert time.monotonic() - start < 10
    assert "passed its deadline" in str(error)
    # What it leaves goes with the directory of the build.
    temporary = Path((tmp_path / "said").read_text().strip())
    assert temporary.name.startswith("xpu-emulator-")
    assert not temporary.exists()


def test_a_compiler_that_fails_and_says_nothing(fake_cxx, unit) -> None:
    fake_cxx("exit 3")
    (error,) = EmulatorCompiler(find_toolchain(), 32).compile(
        [unit(PLAIN)], "wave32", deadline_s=60
    )
    assert "it says nothing" in str(error)


def test_without_a_compiler_the_backend_is_unavailable(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    answer = EmulatorBackend().availability()
    assert not answer.is_available
    assert "pip install ziglang" in answer.fix
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert "set CXX to a C++ compiler" in EmulatorBackend().availability().reason
    monkeypatch.setenv("CXX", f"{sys.executable} -c ''")
    assert not EmulatorBackend().availability().is_available


def test_the_fingerprint_rests_on_flags_and_prelude(compiler, monkeypatch) -> None:
    before = compiler.fingerprint("wave32")
    assert "-std=c++17" in before
    monkeypatch.setattr(
        "xpu_backend_emulator.compiler.simt_prelude",
        lambda: {**simt_prelude(), "xpu_simt_common.h": "//"},
    )
    assert compiler.fingerprint("wave32") != before


def test_the_shared_prelude_names_no_host_and_no_vendor() -> None:
    text = "\n".join(simt_prelude().values())
    names = ("common", "lines", "matrix", "tiers")
    assert list(simt_prelude()) == [f"xpu_simt_{name}.h" for name in names]
    assert not re.search(
        r"#\s*include\s*<|cuda|hip|nvidia|amd\b|emulat|__builtin", text, re.IGNORECASE
    )
