"""Which compiler is found, what is said without one, and what the backend says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from xpu.errors import XpuBuildError
from xpu.spec import Availability, CompiledCode
from xpu_backend_hip import driver, toolchain
from xpu_backend_hip.backend import HipBackend

FAKE = """#!/bin/sh
case "$*" in
*--version*) echo "{banner}" ;;
*-print-prog-name=ld.lld*) echo {lld} ;;
*--print-supported-cpus*) printf '%s\\n' {targets} ;;
esac
exit {status}
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Put a compiler that only answers into all that PATH has; there is no ziglang."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setitem(sys.modules, "ziglang", None)

    def go(name: str, **answers: object) -> Path:
        told = {
            "banner": "clang version 22.1.8",
            "lld": "/bin/sh",
            "targets": "gfx803 gfx90a gfx1151 generic",
            "status": 0,
        }
        program = path / name
        program.write_text(FAKE.format(**(told | answers)))
        program.chmod(0o755)
        return program

    return go


def test_the_compiler_without_a_number_comes_first(place) -> None:
    place("clang-23", banner="clang version 23.1.0")
    found = place("clang", banner="AMD clang version 20.0.0git (roc-7.0 12345)")
    chosen = toolchain.find_toolchain()
    assert chosen.command == (str(found),)
    assert chosen.identity == "clang 20.0.0"
    assert chosen.banner.startswith("AMD clang")
    assert chosen.linker == ()
    assert chosen.targets == ("gfx90a", "gfx1151")


def test_of_those_with_a_number_the_newest_that_serves(place) -> None:
    place("clang", banner="Debian clang version 14.0.6")
    place("clang-9", banner="clang version 9.0.0")
    place("clang-100", banner="clang version 100.0.0", lld="lld")
    place("clang-format-99")
    found = place("clang-22")
    assert toolchain.find_toolchain().command == (str(found),)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"banner": "Debian clang version 14.0.6"}, r"clang is clang 14\.0\.6, older than 19"),
        ({"banner": "gcc 12"}, "says 'gcc 12' and no version of clang"),
        ({"lld": "lld"}, "finds no lld; install lld-22"),
        ({"targets": "gfx803 generic"}, "was built without AMD's targets"),
        ({"status": 1}, "gave exit status 1: clang version"),
    ],
)
def test_one_that_does_not_serve_is_named_with_the_reason(place, answers, words) -> None:
    found = place("clang", **answers)
    with pytest.raises(XpuBuildError, match=words) as told:
        toolchain.find_toolchain()
    assert str(found) in str(told.value)
    assert str(told.value).endswith("pip install 'xpu-orchestrator[hip-compile]'")


@pytest.mark.usefixtures("place")
def test_without_a_compiler_what_to_install_is_said(monkeypatch) -> None:
    monkeypatch.setattr(driver, "_has_bindings", lambda: False)
    with pytest.raises(XpuBuildError, match=r"no clang of release 19 or newer.*hip-compile\]'"):
        HipBackend().compiler()
    state = HipBackend().availability()
    assert not state.is_available
    assert state.reason.startswith("the package hip-python is not installed; nor is there a comp")
    both = "pip install 'xpu-orchestrator[hip]'; to compile: pip install 'xpu-orchestrator[hip-"
    assert state.fix.startswith(both)


def test_without_a_reader_of_its_code_what_to_install_is_said(place, monkeypatch) -> None:
    place("clang")
    monkeypatch.setitem(sys.modules, "elftools", None)
    with pytest.raises(XpuBuildError, match=r"hip-compile.*pip install pyelftools$"):
        toolchain.find_toolchain()


def test_what_is_built_is_run_without_a_compiler(place, monkeypatch) -> None:
    available = Availability(True)
    monkeypatch.setattr(driver, "availability", lambda: available)
    assert HipBackend().prebuilt({}).availability() == available
    assert not HipBackend().availability().is_available
    place("clang")
    assert HipBackend().availability() == available


def test_the_package_ziglang_serves_where_there_is_no_clang(unit, tmp_path, monkeypatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setenv("PATH", str(tmp_path))
    backend = HipBackend()
    text = (
        "XPU_KERNEL(xpu::global<int> y) { XPU_SHARED(int, s, 100); s[y[0]] = 1; y[1] = s[y[2]]; }"
    )
    (code,) = backend.compiler().compile([unit(text)], "gfx1151", deadline_s=60)
    assert isinstance(code, CompiledCode), code
    assert code.facts.static_shared_bytes == 400
    assert list(tmp_path.iterdir()) == []


def test_loading_the_plugin_loads_no_compiler_and_no_reader() -> None:
    script = (
        "import sys, xpu_backend_hip.plugin as p; p.xpu_backends()\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('elftools', 'msgpack', 'ziglang')])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == "[]"


@pytest.mark.usefixtures("compiler")
def test_code_is_built_from_the_command_line(tmp_path) -> None:
    pytest.importorskip("xpu_family_kquant")
    script = "from xpu.cli import main; main()"
    words = ("q4k_library", "--backend", "hip", "--target", "gfx1151", "--out", str(tmp_path / "o"))
    done = subprocess.run(
        [sys.executable, "-c", script, "build", *words, "--json"],
        env={**os.environ, "XPU_BUILD_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    manifests = sorted((tmp_path / "o").glob("manifests/hip.gfx1151/*.toml"))
    assert manifests
    for manifest in manifests:
        code = tomllib.loads(manifest.read_text("utf-8"))["code_hash"]
        assert (tmp_path / "o/code" / code).read_bytes().startswith(b"\x7fELF")
