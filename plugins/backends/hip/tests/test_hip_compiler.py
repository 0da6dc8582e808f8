"""The compiler half: what it takes, what it refuses, and how it says so. No device is needed."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

from xpu.errors import XpuBuildError
from xpu.spec import Argument, CompiledCode, KernelUnit, simt_prelude
from xpu_backend_hip import driver, process

PLAIN = "XPU_KERNEL(xpu::global<int> y) { y[xpu::thread()] = 1; }"
LARGE = """XPU_KERNEL(xpu::global<int> y) {
    XPU_SHARED(int, s, 60000);
    s[y[0]] = 1;
    y[1] = s[y[2]];
}"""
# Its depth is not known before it runs, and what it keeps of itself makes a loop of it no option.
RECURSIVE = """struct kept { int v[8]; };
__attribute__((noinline)) int deep(kept k, int n) {
    if (n == 0) return k.v[0];
    kept more = k;
    more.v[n & 7] = deep(k, n - 1) + k.v[(n + 1) & 7];
    return deep(more, n / 2);
}
XPU_KERNEL(xpu::global<int> y) { y[0] = deep(kept{{y[1], y[2]}}, y[3]); }"""


@pytest.fixture
def refused(compiler, unit) -> Callable[..., str]:
    """Compile a kernel that must be refused and return the message."""

    def go(
        text: str,
        target: str = "gfx1151",
        includes: Mapping[str, str] | None = None,
        **more: object,
    ) -> str:
        (result,) = compiler.compile([unit(text, includes, **more)], target, deadline_s=60)
        assert isinstance(result, XpuBuildError), "it should not have compiled"
        return str(result)

    return go


@pytest.fixture
def played(compiler, tmp_path) -> Callable[[str], object]:
    """Return the compiler with a script in the place of clang."""

    def go(script: str) -> object:
        path = tmp_path / "clang.py"
        path.write_text(script)
        command = (sys.executable, "-I", "-S", str(path))
        return type(compiler)(attrs.evolve(compiler._toolchain, command=command))

    return go


def test_it_says_its_name(compiler) -> None:
    assert re.fullmatch(r"clang \d+\.\d+\.\d+", compiler.identity)


def test_a_failure_stands_in_its_place(compiler, unit) -> None:
    units = [unit(PLAIN), unit("XPU_KERNEL(xpu::global<int> y) { y[0] = nothing; }"), unit(PLAIN)]
    first, second, third = compiler.compile(units, "gfx942", deadline_s=60)
    assert isinstance(first, CompiledCode), first
    assert isinstance(third, CompiledCode), third
    assert isinstance(second, XpuBuildError)
    text = str(second)
    assert text.startswith("family.member, target gfx942: clang ")
    assert "kernel.cpp:2:41: error: use of undeclared identifier 'nothing'" in text
    assert "y[0] = nothing;" in text
    assert text.endswith("mend the source, or leave the member out")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#include <stdint.h>\n" + PLAIN, "stdint.h"),
        ("#include <hip/hip_runtime.h>\n" + PLAIN, "hip_runtime.h"),
        ("int helper();\nXPU_KERNEL(xpu::global<int> y) { y[0] = helper(); }", "helper"),
        ("XPU_KERNEL(xpu::global<int> y) { throw 1; }", "cannot use 'throw'"),
        ("XPU_KERNEL(xpu::global<const int> y) { y[0] = 1; }", "const"),
        (LARGE, r"local memory \(240000\) exceeds limit \(65536\)"),
        (RECURSIVE, "take out recursion"),
        ("int x;", "defines no kernel; begin it with XPU_KERNEL"),
        (
            "XPU_KERNEL(xpu::global<int> y, int64_t n) { XPU_SHARED(int, part, n); part[0] = 0; }",
            "kernel.cpp",
        ),
    ],
)
def test_what_is_not_of_the_dialect_is_refused(refused, text, words) -> None:
    said = refused(text)
    assert re.search(words, said), said
    assert tempfile.gettempdir() not in said


def test_a_block_larger_than_any(refused) -> None:
    assert "1024 threads" in refused(PLAIN, XPU_THREADS=1025)


def test_an_unknown_target_names_the_nearest(refused, compiler) -> None:
    said = refused(PLAIN, "gfx1161")
    assert said.startswith(f"family.member: target 'gfx1161' is none of {compiler.identity}'s")
    assert "did you mean 'gfx1151'" in said
    assert "gfx90a" in said


@pytest.mark.parametrize("target", ["gfx803", "tahiti", "gfx1151:wave64+", "gfx1151 -o x", ""])
def test_a_target_that_the_prelude_does_not_serve(refused, target) -> None:
    assert f"target {target!r} is none of" in refused(PLAIN, target)


@pytest.mark.parametrize(
    "target", ["gfx900", "gfx90a:sramecc+:xnack-", "gfx1030", "gfx9-4-generic", "gfx11-generic"]
)
def test_any_other_target_of_the_compiler_is_served(compiler, unit, target) -> None:
    (code,) = compiler.compile([unit(PLAIN)], target, deadline_s=60)
    assert isinstance(code, CompiledCode), code
    assert code.code.startswith(b"\x7fELF")


def test_a_feature_that_a_part_has_not_is_the_compilers_to_refuse(refused) -> None:
    assert "gfx1151:xnack+" in refused(PLAIN, "gfx1151:xnack+")


def test_names_of_includes_are_checked(refused, compiler, unit) -> None:
    for name in ("xpu_simt.h", "kernel.cpp", "../up.h", "/abs.h", "xpu_hip_dot.h"):
        assert repr(name) in refused(PLAIN, includes={name: ""})
    good = unit('#include "sub/mine.h"\n' + PLAIN, {"sub/mine.h": "#define MINE 1\n"})
    (code,) = compiler.compile([good], "gfx1151", deadline_s=60)
    assert isinstance(code, CompiledCode), code


def test_no_file_of_the_current_directory_or_of_the_user_is_included(
    refused, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CPATH", str(tmp_path))
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path))
    (tmp_path / "beside.h").write_text("\n")
    assert "beside.h" in refused('#include "beside.h"\n' + PLAIN)


def test_buffers_are_those_of_the_design(compiler, unit) -> None:
    made = unit(PLAIN)
    taken = (Argument("result", "int32", "write"),)
    given = KernelUnit(made.kernel, made.entry, made.text, {}, made.defines, taken)
    (code,) = compiler.compile([given], "gfx1151", deadline_s=60)
    assert [(buffer.name, buffer.mode) for buffer in code.buffers] == [("result", "write")]


def test_the_same_input_gives_the_same_bytes_and_a_target_other_ones(compiler, unit) -> None:
    def codes(target: str) -> set[bytes]:
        made = compiler.compile([unit(PLAIN), unit(PLAIN)], target, deadline_s=60)
        return {code.code for code in made}

    targets = ("gfx90a", "gfx1100", "gfx1151")
    assert len(set().union(*map(codes, targets))) == len(targets)


def test_the_deadline_ends_a_compiler_and_what_it_started(played, unit, tmp_path) -> None:
    child = f"import time; time.sleep(2); open({str(tmp_path / 'alive')!r}, 'w')"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    start = time.monotonic()
    (late,) = played(script).compile([unit(PLAIN)], "gfx1151", deadline_s=0.5)
    assert time.monotonic() - start < 2
    assert isinstance(late, XpuBuildError)
    assert str(late).startswith("family.member, target gfx1151: clang ")
    assert "passed its deadline of 0.5 s and was ended" in str(late)
    assert "raise XPU_COMPILE_DEADLINE_S" in str(late)
    time.sleep(max(start + 2.5 - time.monotonic(), 0))
    assert not (tmp_path / "alive").exists()


def test_a_compiler_whose_starter_is_gone_is_ended_by_the_kernel() -> None:
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    done = process.run([sys.executable, "-c", script], None, 7.5)
    assert done == process.Finished(0, f"({8 + process._LATE_S}, {8 + process._LATE_S})\n")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", "was ended by SIGSEGV; make the kernel smaller"),
        ("import sys; sys.exit('error: no such library')", "failed: error: no such library;"),
        ("raise SystemExit(3)", "failed: exit status 3, and it says nothing;"),
        ("pass", "says that all is well, and there is no code"),
        ("open('kernel.co', 'wb').write(b'nothing')", "something that is no code object"),
    ],
)
def test_a_compiler_that_dies_is_a_failure_in_its_place(played, unit, script, words) -> None:
    (error,) = played(script).compile([unit(PLAIN)], "gfx1151", deadline_s=60)
    assert isinstance(error, XpuBuildError)
    assert words in str(error)


def test_no_file_is_left_behind(compiler, played, unit, tmp_path, monkeypatch) -> None:
    mute = played("import time, tempfile; tempfile.mkstemp(); time.sleep(60)")
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    broken = unit("XPU_KERNEL(xpu::global<int> y) { y[0] = helper(); }")
    compiler.compile([unit(PLAIN), broken], "gfx1151", deadline_s=60)
    mute.compile([unit(PLAIN)], "gfx1151", deadline_s=0.5)
    assert list(place.iterdir()) == []


def test_the_fingerprint_rests_on_flags_prelude_and_maker(compiler, monkeypatch) -> None:
    before = compiler.fingerprint("gfx1151")
    assert "-O3" in before
    assert "gfx1151" in before
    other = attrs.evolve(compiler._toolchain, banner="somebody's clang version 22.1.8")
    assert type(compiler)(other).fingerprint("gfx1151") != before
    headers = {**simt_prelude(), "xpu_simt_common.h": "//"}
    monkeypatch.setattr("xpu_backend_hip.compiler._headers", lambda: headers)
    assert compiler.fingerprint("gfx1151") != before


def test_without_a_device_a_target_has_to_be_named(compiler, monkeypatch) -> None:
    monkeypatch.setattr(driver, "library", lambda: ("", "it is not there"))
    with pytest.raises(XpuBuildError, match=r"to compile for: .*; name a target.*gfx1151"):
        compiler.native_target()


def test_the_linker_that_is_shown_to_the_compiler_is_used(compiler, unit, tmp_path) -> None:
    called = tmp_path / "called with space"
    script = tmp_path / "linker.py"
    script.write_text(f"import sys; open({str(called)!r}, 'w').write(' '.join(sys.argv[1:]))\n")
    linker = (sys.executable, str(script))
    toolchain = attrs.evolve(compiler._toolchain, linker=linker)
    (error,) = type(compiler)(toolchain).compile([unit(PLAIN)], "gfx1151", deadline_s=60)
    assert isinstance(error, XpuBuildError)
    told = called.read_text()
    assert not told.startswith("-flavor")
    assert "-shared" in told


def test_includes_lie_where_the_wheel_has_them() -> None:
    import xpu_backend_hip

    runtime = Path(xpu_backend_hip.__file__).parent / "runtime"
    assert (runtime / "xpu_simt.h").is_file()


DIVIDES = """XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y) {
    y[xpu::thread()] = x[xpu::thread()] / x[xpu::threads()];
}"""


def test_a_units_block_and_arithmetic_reach_the_compiler(compiler, unit) -> None:
    plain = unit(DIVIDES)
    told = attrs.evolve(unit(DIVIDES, XPU_THREADS=96), max_threads=96, fast_math=True)
    exact, fast = compiler.compile([plain, told], "gfx1151", deadline_s=60)
    assert (exact.facts.pinned_block, fast.facts.pinned_block) == (1024, 96)
    assert "v_div_scale_f32" in exact.listing
    assert "v_div_scale_f32" not in fast.listing
    assert "v_rcp_f32" in fast.listing
    # threads() is read where the code object says that the runtime puts it: behind two pointers.
    assert re.search(r"\.offset: +28\n.*\n +\.value_kind: +hidden_group_size_x", exact.listing)
    assert re.search(r"s_load_\w+ s\d+, s\[\d+:\d+\], 0x1c", exact.listing)
