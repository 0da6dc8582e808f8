"""Names of targets: what the compiler says that it takes, and what a processor runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xpu.errors import XpuLaunchException
from xpu_backend_cpu import toolchain
from xpu_backend_cpu.backend import CpuBackend
from xpu_backend_cpu.compiler import CpuCompiler
from xpu_backend_cpu.targets import knows, levels, own_name
from xpu_backend_cpu.toolchain import Toolchain, find_toolchain

SECOND = ["cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"]
THIRD = [*SECOND, *["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"]]
FOURTH = [*THIRD, *["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], ["x86-64"]),
        (SECOND, ["x86-64-v2", "x86-64"]),
        (THIRD, ["x86-64-v3", "x86-64-v2", "x86-64"]),
        (set(THIRD) - {"movbe"}, ["x86-64-v2", "x86-64"]),
        (FOURTH, ["x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"]),
        (set(FOURTH) - {"popcnt"}, ["x86-64"]),  # a level has all of those below it
    ],
)
def test_a_processor_has_the_levels_whose_features_it_has(flags, names):
    assert list(levels(flags, "x86_64")) == names
    assert levels(flags, "aarch64") == ()


@pytest.mark.parametrize(
    "said",
    [
        "cc1: note: valid arguments to '-march=' switch are: x86-64 haswell znver4 native",
        "note: valid target CPU values are: x86-64, haswell, znver4",
        "info: available CPUs for architecture 'x86_64':\n x86_64\n haswell\n znver4",
    ],
)
def test_a_compiler_says_which_targets_it_takes(said: str, tmp_path: Path):
    fake = tmp_path / "cc"
    fake.write_text(f"#!{sys.executable}\nimport sys\nsys.exit({said!r})\n")
    fake.chmod(0o755)
    compiler = CpuCompiler(Toolchain((str(fake),), "gcc", "12"), workers=1)
    assert {"x86-64", "haswell", "znver4"} <= set(compiler.targets())
    for name in ("native", "x86-64", "haswell", "znver4", "znver4+avx"):
        assert compiler.knows(name)
    for name in ("sm_90", "gfx1151", "zen", ""):
        assert not compiler.knows(name)


def test_this_machines_compiler_knows_targets_and_no_others_parts():
    found = find_toolchain()
    assert knows(found, "native")
    assert not knows(found, "sm_90")


def test_native_code_is_carried_under_the_name_of_this_processor(compiler: CpuCompiler):
    assert compiler.carried_target("native") == own_name() == CpuBackend().code_targets()[0]
    assert compiler.carried_target("x86-64-v3") == "x86-64-v3"


def test_a_pool_that_is_carried_opens_the_machine_without_a_compiler(
    compiler: CpuCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = {name: tmp_path / name for name in compiler.runtime("native")}
    for name, content in compiler.runtime("native").items():
        files[name].write_bytes(content)
    monkeypatch.setenv("CC", "/nonexistent/cc")
    assert not CpuBackend().availability().is_available
    carried = CpuBackend().prebuilt(files)
    assert carried.availability().is_available
    assert carried.open().facts == CpuBackend().devices()[0]


def test_a_pool_that_is_missing_or_none_is_refused_by_name(tmp_path: Path):
    with pytest.raises(XpuLaunchException, match=r"needs its worker pool, pool\.so"):
        CpuBackend().prebuilt({})
    broken = tmp_path / "pool.so"
    broken.write_bytes(b"no library")
    carried = CpuBackend().prebuilt({"pool.so": broken})
    assert not carried.availability().is_available
    with pytest.raises(XpuLaunchException, match=f"the worker pool {broken} cannot be loaded"):
        carried.open()


def test_a_compiler_is_asked_once_and_a_script_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "cache"))
    asked: list[tuple[str, ...]] = []

    def answer(command: tuple[str, ...]) -> str:
        asked.append(command)
        return "12"

    program, script = tmp_path / "gcc-12", tmp_path / "gcc-wrapper"
    program.write_bytes(b"\x7fELF and so on")
    script.write_text("#!/bin/sh\nexec gcc-12\n")
    launcher = tmp_path / "ccache"  # it starts whatever compiler it finds
    launcher.write_bytes(b"\x7fELF and so on")
    (tmp_path / "cc").symlink_to(launcher)
    for name, times in ((program, 1), (script, 2), (tmp_path / "cc", 2)):
        asked.clear()
        for _ in range(2):
            assert toolchain.asked((str(name),), ("-v",), answer) == "12"
        assert len(asked) == times, name
