"""The compiler half: what it takes, what it refuses, and how it says so. No device is needed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

from xpu.errors import XpuBuildError
from xpu.model import MatrixShape
from xpu.spec import Argument, Availability, CompiledCode, KernelUnit, simt_prelude
from xpu_backend_cuda import compiler as compiler_module
from xpu_backend_cuda import nvrtc, toolchain
from xpu_backend_cuda.backend import CudaBackend
from xpu_backend_cuda.compiler import CudaCompiler

PLAIN = "XPU_KERNEL(xpu::global<int> y) { y[xpu::thread()] = 1; }"
LARGE = """XPU_KERNEL(xpu::global<int> y) {
    XPU_SHARED(int, s, 60000);
    s[y[0]] = 1;
    y[1] = s[y[2]];
}"""
# The compiler's front end walks through it for ten seconds; nothing but its end ends that.
ENDLESS = "".join(
    f"constexpr int f{i}(int n) {{ int s = 0; for (int i = 0; i < n; ++i)"
    f" for (int j = 0; j < n; ++j) s ^= i * j; return s; }} enum {{ v{i} = f{i}(1000) }};\n"
    for i in range(40)
)


@pytest.fixture
def refused(compiler: CudaCompiler, unit: Callable[..., KernelUnit]) -> Callable[..., str]:
    """Compile a kernel that must be refused and return the message."""

    def go(
        text: str, target: str = "sm_90", includes: Mapping[str, str] | None = None, **more: object
    ) -> str:
        (result,) = compiler.compile([unit(text, includes, **more)], target, deadline_s=60)
        assert isinstance(result, XpuBuildError), "it should not have compiled"
        return str(result)

    return go


def test_it_says_its_name(compiler) -> None:
    assert re.fullmatch(r"nvrtc \d+\.\d+", compiler.identity)


def test_a_failure_stands_in_its_place(compiler, unit) -> None:
    units = [unit(PLAIN), unit("XPU_KERNEL(xpu::global<int> y) { y[0] = nothing; }"), unit(PLAIN)]
    first, second, third = compiler.compile(units, "sm_90", deadline_s=60)
    assert isinstance(first, CompiledCode)
    assert isinstance(third, CompiledCode)
    assert isinstance(second, XpuBuildError)
    text = str(second)
    assert text.startswith("family.member, target sm_90: nvrtc ")
    assert 'kernel.cpp(2): error: identifier "nothing" is undefined' in text
    assert "y[0] = nothing;" in text
    assert text.endswith("mend the source, or leave the member out")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#include <stdint.h>\n" + PLAIN, "stdint.h"),
        ("#include <vector>\n" + PLAIN, "vector"),
        ("#include <cuda_fp16.h>\n" + PLAIN, "cuda_fp16.h"),
        ("int helper();\nXPU_KERNEL(xpu::global<int> y) { y[0] = helper(); }", "helper"),
        ("XPU_KERNEL(xpu::global<int> y) { throw 1; }", "exception"),
        ("XPU_KERNEL(xpu::global<const int> y) { y[0] = 1; }", "lvalue"),
        (LARGE, "too much shared data"),
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


def test_a_block_larger_than_any(refused) -> None:
    assert "1024 threads" in refused(PLAIN, XPU_THREADS=1025)


def test_an_unknown_target_names_the_nearest(refused, compiler) -> None:
    said = refused(PLAIN, "sm_91a")
    assert said.startswith(f"family.member: target 'sm_91a' is none of {compiler.identity}'s")
    assert "did you mean 'sm_90a'" in said
    assert "sm_120" in said


def test_names_of_includes_are_checked(refused, compiler, unit) -> None:
    for name in ("xpu_simt.h", "kernel.cpp", "../up.h", "/abs.h", "xpu_simt_common.h"):
        assert repr(name) in refused(PLAIN, includes={name: ""})
    good = unit('#include "sub/mine.h"\n' + PLAIN, {"sub/mine.h": "#define MINE 1\n"})
    (code,) = compiler.compile([good], "sm_90", deadline_s=60)
    assert isinstance(code, CompiledCode), code


def test_no_file_of_the_current_directory_is_included(refused, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.h").write_text("\n")
    assert "beside.h" in refused('#include "beside.h"\n' + PLAIN)


def test_buffers_are_those_of_the_design(compiler, unit) -> None:
    made = unit(PLAIN)
    taken = (Argument("result", "int32", "write"),)
    given = KernelUnit(made.kernel, made.entry, made.text, {}, made.defines, taken)
    (code,) = compiler.compile([given], "sm_90", deadline_s=60)
    assert [(buffer.name, buffer.mode) for buffer in code.buffers] == [("result", "write")]


def test_the_same_input_gives_the_same_bytes_and_a_target_other_ones(compiler, unit) -> None:
    def codes(target: str) -> set[bytes]:
        made = compiler.compile([unit(PLAIN), unit(PLAIN)], target, deadline_s=60)
        return {code.code for code in made}

    targets = ("sm_80", "sm_90", "sm_90a")
    assert len(set().union(*map(codes, targets))) == len(targets)


def test_the_deadline_ends_one_compilation_and_stalls_no_other(compiler, unit) -> None:
    slow = unit(ENDLESS + PLAIN)
    start = time.monotonic()
    late, *others = compiler.compile([slow, *[unit(PLAIN)] * 3], "sm_90", deadline_s=2)
    assert time.monotonic() - start < 8
    assert isinstance(late, XpuBuildError)
    assert str(late).startswith("family.member, target sm_90: nvrtc ")
    assert "passed its deadline of 2 s and was ended" in str(late)
    assert all(isinstance(code, CompiledCode) for code in others), others


def test_a_compilation_whose_starter_is_gone_ends_itself(compiler, unit) -> None:
    job = compiler._job(unit(ENDLESS + PLAIN), "sm_90", 1.0)
    job["deadline_s"] = 1.0 - nvrtc._LATE_S
    command = [sys.executable, "-I", "-S", nvrtc.__file__]
    done = subprocess.run(command, input=json.dumps(job).encode(), check=False, timeout=8)
    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
        ("raise OSError('no such library')", "exit status 1: OSError: no such library"),
        ("raise SystemExit(3)", "exit status 3: it says nothing"),
        ("pass", "exit status 0: it says nothing"),
    ],
)
def test_a_compiler_that_dies_is_a_failure_in_its_place(
    refused, tmp_path, monkeypatch, script, words
) -> None:
    (tmp_path / "dies.py").write_text(script)
    monkeypatch.setattr("xpu_backend_cuda.nvrtc.__file__", str(tmp_path / "dies.py"))
    assert words in refused(PLAIN)


def test_the_fingerprint_rests_on_flags_prelude_and_library(compiler, monkeypatch) -> None:
    before = compiler.fingerprint("sm_90")
    assert "--std=c++17" in before
    headers = {**simt_prelude(), "xpu_simt_common.h": "//"}
    monkeypatch.setattr(compiler_module, "_headers", lambda: headers)
    assert compiler.fingerprint("sm_90") != before


def test_the_prelude_and_its_runtime_are_at_hand() -> None:
    assert {"xpu_simt.h", "xpu_simt_common.h"} <= set(compiler_module._headers())


@pytest.mark.usefixtures("compiler")
def test_without_a_device_a_target_has_to_be_named(monkeypatch) -> None:
    missing = Availability(False, "no driver")
    monkeypatch.setattr("xpu_backend_cuda.driver.availability", lambda: missing)
    with pytest.raises(XpuBuildError, match=r"no driver; name a target.*--target sm_"):
        CudaCompiler(toolchain.find_nvrtc()).native_target()


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("architecture", "target"), [("sm_80", "sm_80"), ("sm_90", "sm_90a"), ("sm_100", "sm_100a")]
)
def test_a_device_is_compiled_for_with_instructions_of_its_own(
    monkeypatch, architecture, target
) -> None:
    monkeypatch.setattr("xpu_backend_cuda.driver.availability", lambda: Availability(True))
    monkeypatch.setattr("xpu_backend_cuda.facts.target_of", lambda index: architecture)
    assert CudaCompiler(toolchain.find_nvrtc()).native_target() == target


def test_without_a_driver_the_extra_is_asked_for_where_it_is_missing(monkeypatch) -> None:
    missing = Availability(False, "no driver", "install a driver")
    monkeypatch.setattr("xpu_backend_cuda.driver.availability", lambda: missing)
    assert CudaBackend().availability() == missing
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    state = CudaBackend().availability()
    assert not state.is_available
    assert state.reason.startswith("no driver; ")
    assert state.fix == "install a driver; to compile: pip install 'xpu-orchestrator[cuda]'"


def test_what_is_missing_is_said_with_what_installs_it(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("xpu_backend_cuda.driver.availability", lambda: Availability(True))
    assert CudaBackend().availability().is_available
    toolchain.find_nvrtc.cache_clear()
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path))  # where nothing is remembered
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(XpuBuildError, match=r"pip install 'xpu-orchestrator\[cuda\]'"):
        CudaBackend().compiler()
    state = CudaBackend().availability()
    assert not state.is_available
    assert "there is no NVRTC" in state.reason
    assert state.fix == "pip install 'xpu-orchestrator[cuda]'"


def test_a_library_that_cannot_be_loaded_is_said(monkeypatch, tmp_path) -> None:
    class Found:
        abs_path = str(tmp_path / "libnvrtc.so")

    Path(Found.abs_path).write_bytes(b"no library")
    toolchain.find_nvrtc.cache_clear()
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path))  # where nothing is remembered
    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", lambda _: Found)
    with pytest.raises(XpuBuildError, match=r"there is no NVRTC: .*libnvrtc\.so"):
        toolchain.find_nvrtc()


def test_loading_the_plugin_loads_nothing_of_cuda() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, xpu_backend_cuda.plugin as p; p.xpu_backends()\n"
            "print([m for m in sys.modules if m.split('.')[0] in ('cuda', 'pynvml')])",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize("executable", ["", None])
def test_without_an_interpreter_what_to_set_is_said(
    compiler, unit, monkeypatch, executable
) -> None:
    # A program that embeds Python may have none.
    monkeypatch.setattr(sys, "executable", executable)
    text = "XPU_KERNEL(xpu::global<float> y) { y[0] = 1; }"
    (error,) = compiler.compile([unit(text, XPU_THREADS=32)], "sm_90", deadline_s=60)
    assert isinstance(error, XpuBuildError)
    assert "sys.executable is empty" in str(error)
    assert "set it to a Python interpreter" in str(error)


def test_matrix_shapes_are_those_of_the_target(compiler) -> None:
    for target in ("sm_80", "sm_90a", "sm_120"):
        shapes = [MatrixShape.from_text(text) for text in compiler.matrix_shapes(target)]
        assert len(set(shapes)) == 12
        assert {shape.element for shape in shapes} == {"int8", "float16", "bfloat16"}
        assert {(shape.m, shape.n, shape.k) for shape in shapes} == {
            (m, 16, k) for m in (8, 16) for k in (16, 32)
        }
    assert compiler.matrix_shapes("sm_75") == compiler.matrix_shapes("gfx1151") == ()


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        ((8, 0), ["sm_80"]),
        ((8, 9), [f"sm_8{minor}" for minor in range(9, -1, -1)]),
        ((9, 0), ["sm_90a", "sm_90"]),
        ((10, 3), ["sm_103a", "sm_103", "sm_102", "sm_101", "sm_100"]),
        ((12, 1), ["sm_121a", "sm_121", "sm_120"]),
        ((7, 5), []),
    ],
)
def test_a_part_runs_its_own_code_and_that_of_older_parts_of_its_generation(capability, names):
    assert list(toolchain.runnable(*capability)) == names


@pytest.mark.parametrize(
    ("architecture", "target", "does"),
    [
        ("sm_90", "sm_90a", True),
        ("sm_90a", "sm_90", True),
        ("sm_86", "sm_80", True),
        ("sm_121", "sm_120", True),
        ("sm_80", "sm_86", False),
        ("sm_90", "sm_80", False),
        ("gfx1151", "sm_90", False),
    ],
)
def test_an_architecture_runs_code_for_itself_and_for_its_generation(architecture, target, does):
    assert CudaBackend().runs_code(architecture, target) is does


def test_nvrtc_knows_its_targets_and_no_others(compiler):
    assert compiler.knows("sm_80")
    assert not any(compiler.knows(name) for name in ("sm_70", "native", "gfx1151", "x86-64"))


DIVIDES = """XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y) {
    y[xpu::thread()] = x[xpu::thread()] / x[xpu::threads()];
}"""


def test_a_units_block_and_arithmetic_reach_the_compiler(compiler, unit) -> None:
    plain = unit(DIVIDES)
    told = attrs.evolve(unit(DIVIDES, XPU_THREADS=96), max_threads=96, fast_math=True)
    exact, fast = compiler.compile([plain, told], "sm_90", deadline_s=60)
    assert (exact.facts.pinned_block, fast.facts.pinned_block) == (1024, 96)
    assert "div.rn.f32" in exact.listing
    assert "div.approx.ftz.f32" in fast.listing
