from __future__ import annotations

import hashlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import attrs
import numpy as np
import pytest

from xpu.errors import XpuBuildError
from xpu.model import BufferAccess
from xpu.spec import Argument, CompiledCode, KernelUnit, Launch
from xpu_backend_cpu import amx, flags
from xpu_backend_cpu.backend import CpuBackend
from xpu_backend_cpu.compiler import CpuCompiler
from xpu_backend_cpu.toolchain import Toolchain, find_toolchain

COPY = "XPU_KERNEL { (void)team; ((float *)buffers[1])[0] = ((float *)buffers[0])[sizes[0]]; }"
is_x86 = platform.machine() == "x86_64"


def is_running(process: int) -> bool:
    """Whether a process lives; one that waits for its parent to look does not."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def has_ended(process: int) -> bool:
    """Whether a process that was killed ends: on a busy machine that takes a moment."""
    until = time.monotonic() + 20
    while is_running(process):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_the_same_unit_gives_the_same_bytes_wherever_it_is_compiled(unit, monkeypatch, tmp_path):
    first = CpuCompiler(find_toolchain(), 1).compile([unit(COPY)], "native", deadline_s=60)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    second = CpuCompiler(find_toolchain(), 1).compile([unit(COPY)], "native", deadline_s=60)
    assert first[0].code == second[0].code
    assert first[0].facts.code_hash == hashlib.sha256(first[0].code).hexdigest()
    assert list(tmp_path.iterdir()) == []


def test_a_unit_that_fails_stands_in_its_place(compiler, unit, error_of):
    broken = unit("XPU_KERNEL { this is no C; }", "broken")
    results = compiler.compile([unit(COPY, "a"), broken, unit(COPY, "b")], "native", deadline_s=60)
    assert isinstance(results[0], CompiledCode)
    assert isinstance(results[2], CompiledCode)
    message = error_of(results[1])
    assert message.startswith("family.broken: ")
    assert "kernel.c:2" in message
    assert "error:" in message


def test_defines_and_includes_reach_the_kernel(compiler, launcher, unit):
    text = '#include "part/scale.h"\nXPU_KERNEL { ((int64_t *)buffers[0])[0] = SCALE * FACTOR; }'
    whole = attrs.evolve(unit(text, FACTOR="7"), includes={"part/scale.h": "#define SCALE 6LL\n"})
    (result,) = compiler.compile([whole], "native", deadline_s=60)
    assert isinstance(result, CompiledCode), result


@pytest.mark.parametrize("name", ["../out.h", "/out.h", "kernel.c", "xpu_c.h", ""])
def test_an_include_cannot_leave_its_directory_or_replace_a_file(compiler, unit, error_of, name):
    whole = attrs.evolve(unit(COPY), includes={name: "text"})
    (result,) = compiler.compile([whole], "native", deadline_s=60)
    assert repr(name) in error_of(result)


def test_buffer_accesses_are_the_declared_ones(compiler, unit):
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "update"))
    whole = attrs.evolve(unit(COPY), arguments=arguments)
    (result,) = compiler.compile([whole], "native", deadline_s=60)
    assert result.buffers == (BufferAccess("x", "read"), BufferAccess("y", "update"))


def test_absent_footprint_stays_absent_and_the_frame_is_seen(compiler, unit):
    text = (
        "XPU_KERNEL { volatile char room[5000]; room[sizes[0]] = 1;"
        " ((char *)buffers[0])[0] = room[1]; }"
    )
    (result,) = compiler.compile([unit(text)], "native", deadline_s=60)
    facts = result.facts
    assert (facts.registers, facts.static_shared_bytes, facts.spill_bytes) == (None, None, None)
    if find_toolchain().reports_stack:
        assert 4800 <= facts.stack_bytes < 6000  # less what lies below the stack pointer
    else:
        assert facts.stack_bytes is None


@pytest.mark.skipif(not is_x86, reason="x86 instructions")
def test_native_dot_instructions_are_named(compiler, unit):
    text = """#include <immintrin.h>
    XPU_KERNEL {
        __m512i *v = buffers[0];
        v[0] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(v[0], v[1], v[2]), v[3], v[4]);
    }"""
    (result,) = compiler.compile([unit(text)], "cascadelake", deadline_s=60)
    assert isinstance(result, CompiledCode), result
    assert [(item.instruction, item.tier) for item in result.operations] == [("vpdpbusd", "native")]


def test_a_failing_compiler_is_quoted(fake_cc, unit, error_of):
    fake_cc("echo 'warning: old' >&2; echo 'kernel.c:9: error: out of cheese' >&2; exit 4")
    (result,) = CpuBackend().compiler().compile([unit(COPY)], "native", deadline_s=60)
    message = error_of(result)
    assert "family.kernel_under_test" in message
    assert "out of cheese" in message
    assert "old" not in message


def test_a_compiler_past_its_deadline_is_ended_with_its_children(fake_cc, unit, error_of, tmp_path):
    fake_cc(f"sleep 300 & echo $! > {tmp_path}/child; wait")
    start = time.monotonic()
    results = (
        CpuBackend(workers=2)
        .compiler()
        .compile([unit(COPY, "slow"), unit(COPY, "slower")], "native", deadline_s=0.4)
    )
    assert time.monotonic() - start < 3
    message = error_of(results[0])
    assert "family.slow" in message
    assert "0.4 s" in message
    assert "family.slower" in error_of(results[1])
    assert has_ended(int((tmp_path / "child").read_text()))


def test_no_compiler_is_an_answer_with_a_fix(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    answer = CpuBackend().availability()
    assert not answer.is_available
    assert "no C compiler" in answer.reason
    assert "pip install ziglang" in answer.fix
    with pytest.raises(XpuBuildError, match="gcc or clang"):
        CpuBackend().compiler()
    with pytest.raises(XpuBuildError, match="gcc or clang"):
        CpuBackend().open()


@pytest.mark.parametrize("named", ["/nowhere/cc", "/bin/false", "/bin/echo -x", "'unclosed"])
def test_a_cc_that_is_no_compiler_is_named(monkeypatch, named):
    monkeypatch.setenv("CC", named)
    answer = CpuBackend().availability()
    assert not answer.is_available
    assert repr(named) in answer.reason
    assert "$CC" in answer.reason


def test_cc_may_hold_arguments(monkeypatch, unit):
    command = shlex.join(find_toolchain().command)
    monkeypatch.setenv("CC", f"{command} -DFROM_CC=1")
    text = "#ifndef FROM_CC\n#error lost\n#endif\n" + COPY
    (result,) = CpuBackend().compiler().compile([unit(text)], "native", deadline_s=60)
    assert isinstance(result, CompiledCode), result


def test_a_target_that_is_no_name_is_refused(compiler, unit, error_of):
    (result,) = compiler.compile([unit(COPY)], "native; rm -rf", deadline_s=60)
    assert "-march" in error_of(result)
    with pytest.raises(XpuBuildError, match="-march"):
        compiler.fingerprint("")


def test_an_unknown_target_names_the_nearest(compiler, unit, error_of):
    (result,) = compiler.compile([unit(COPY)], "haswel", deadline_s=60)
    told = error_of(result)
    assert f": target 'haswel' is none of {compiler.identity}'s; did you mean 'haswell'? " in told
    assert ", native, " in told


def test_a_compiler_that_lists_no_targets_refuses_one_in_its_own_words(
    compiler, unit, error_of, monkeypatch
):
    monkeypatch.setattr("xpu_backend_cpu.compiler.known_targets", lambda _: frozenset())
    (result,) = compiler.compile([unit(COPY)], "no-such-cpu", deadline_s=60)
    assert f"{compiler.identity} failed for target no-such-cpu: " in error_of(result)


def test_the_fingerprint_follows_target_prelude_and_processor(compiler, monkeypatch, tmp_path):
    native = compiler.fingerprint("native")
    assert native == CpuCompiler(find_toolchain(), 7).fingerprint("native")
    assert native != compiler.fingerprint("x86-64-v3")
    monkeypatch.setattr(flags, "cpu_signature", lambda: "f" * 64)
    assert native != compiler.fingerprint("native")
    monkeypatch.undo()
    changed = tmp_path / "xpu_c.h"
    changed.write_text(flags.PRELUDE.read_text() + "\n")
    monkeypatch.setattr(flags, "PRELUDE", changed)
    assert native != compiler.fingerprint("native")


def test_refused_tiles_are_switched_off(monkeypatch, tmp_path):
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\nprintf '#define __AMX_%s__ 1\\n' TILE INT8; echo '#define X 1'\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(amx, "is_permitted", lambda: False)
    found = flags.target_flags(find_toolchain(), "native")
    assert found[-2:] == ("-mno-amx-int8", "-mno-amx-tile")
    assert "-mno-amx-tile" not in flags.target_flags(find_toolchain(), "sapphirerapids")
    monkeypatch.setattr(amx, "is_permitted", lambda: True)
    assert not any("amx" in flag for flag in flags.target_flags(find_toolchain(), "native"))


@pytest.mark.parametrize(
    ("family", "version", "reports"),
    [
        ("gcc", "9.4.0", True),
        ("clang", "15.0.7", False),
        ("clang", "16.0.0", True),
        ("zig", "22.1.8", False),
    ],
)
def test_who_reports_stack_frames(family, version, reports):
    assert Toolchain(("cc",), family, version).reports_stack == reports


def test_code_is_disassembled_without_places(compiler, unit, tmp_path, monkeypatch):
    (result,) = compiler.compile([unit(COPY)], "native", deadline_s=60)
    (tmp_path / "code").write_bytes(result.code)
    if shutil.which("objdump"):
        text = compiler.disassembly(tmp_path / "code", "kernel_under_test")
        assert "ret" in text
        assert not re.search(r"^ *[0-9a-f]+:", text, re.MULTILINE)
        (tmp_path / "other").write_bytes(b"nothing")
        with pytest.raises(XpuBuildError, match="objdump gave exit status"):
            compiler.disassembly(tmp_path / "other", "kernel_under_test")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(XpuBuildError, match="there is no objdump; install binutils"):
        compiler.disassembly(tmp_path / "code", "kernel_under_test")
    assert "kernel_under_test" in result.listing


def test_zig_compiles_and_runs_kernels(monkeypatch, tmp_path, open_device):
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    backend = CpuBackend()
    assert backend.compiler().identity.startswith("zig ")
    text = '#include "xpu_c.h"\nXPU_KERNEL { ((int64_t *)buffers[0])[0] = sizes[0] + VALUE; }'
    unit = KernelUnit("f.z", "z", text, {}, {"VALUE": "4"})
    twice = [backend.compiler().compile([unit], "native", deadline_s=120)[0] for _ in range(2)]
    assert isinstance(twice[0], CompiledCode), twice[0]
    assert twice[0].code == twice[1].code
    (tmp_path / "z.so").write_bytes(twice[0].code)
    device = open_device(1)
    out = np.zeros(1, np.int64)
    buffers = [device.import_array(out, writable=True)]
    device.launcher(device.load(tmp_path / "z.so", "z"), Launch(), buffers, [38])()
    assert out[0] == 42
    if is_x86:
        (old,) = backend.compiler().compile([unit], "x86-64-v3", deadline_s=120)
        assert isinstance(old, CompiledCode), old


EACH = '_Pragma("clang loop unroll(full)") for (int at = 0; at < COUNT; at++)'
CROWDED = f"""
XPU_KERNEL {{
    typedef float lanes __attribute__((vector_size(32)));
    lanes *x = buffers[0], sums[COUNT];
    {EACH} sums[at] = x[at];
    for (int64_t turn = 0; turn < sizes[0]; turn++)
        {EACH} sums[at] = sums[at] * x[turn + at] + x[turn];
    {EACH} x[at] = sums[at];
}}
"""


@pytest.mark.skipif(not is_x86, reason="x86 registers")
@pytest.mark.parametrize("count", [4, 24])
def test_spills_are_those_that_clang_itself_reports(unit, tmp_path, count):
    pytest.importorskip("ziglang")
    zig = Toolchain((sys.executable, "-m", "ziglang", "cc"), "zig", "0")
    compiler = CpuCompiler(zig, workers=1)
    (result,) = compiler.compile([unit(CROWDED, COUNT=str(count))], "x86-64-v3", deadline_s=120)
    assert isinstance(result, CompiledCode), result
    source = tmp_path / "again.c"
    head = "#include <stdint.h>\n#define XPU_KERNEL void k(void **buffers, const int64_t *sizes)\n"
    source.write_text(f"{head}#define COUNT {count}\n{CROWDED}")
    command = [*zig.command, *flags.target_flags(zig, "x86-64-v3"), "-Rpass-missed=regalloc"]
    made = subprocess.run(
        [*command, "-S", str(source), "-o", str(tmp_path / "again.s")],
        capture_output=True,
        text=True,
        check=True,
    )
    told = [line for line in made.stderr.splitlines() if "generated in function" in line]
    reported = sum(int(each) for each in re.findall(r"(\d+) (?:folded )?spills", "\n".join(told)))
    assert result.facts.spill_stores == reported
    assert (reported > 0) == (count == 24)


def test_an_interrupt_ends_what_is_compiled(fake_cc, unit, tmp_path, monkeypatch):
    started = tmp_path / "started"
    fake_cc(f"sleep 300 & echo $! >> {started}; wait")
    compiler = CpuBackend(workers=2).compiler()

    def interrupted(*_: object) -> object:
        while not (started.exists() and started.read_text().endswith("\n")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures._base.Future.result", interrupted)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compiler.compile([unit(COPY, "a"), unit(COPY, "b")], "native", deadline_s=60)
    assert time.monotonic() - start < 50
    assert all(has_ended(int(process)) for process in started.read_text().split())
