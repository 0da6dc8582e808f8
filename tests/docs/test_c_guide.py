"""The backend for the dialect `c` of the guide, made wrong in one way after the other."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

MODULES = ("xpu_backend_toy/backend.py", "xpu_backend_toy/c.py")
RUNS = "test_a_worker_process_runs_every_kernel_of_the_kit"
SETS = "test_every_instruction_set_that_macros_allow_can_be_used"
ALIGNED = "test_memory_is_aligned_as_kernels_in_c_are_promised"
ARRAYS = "test_an_array_is_taken_without_a_copy"
SWAPPED = "buffers and sizes swapped"

FAULTS = {
    "misaligned": (
        ("start = -raw.ctypes.data % 64", "start = (16 - raw.ctypes.data) % 64"),
        {ALIGNED, RUNS},
        "16] bytes past a multiple of 64",
    ),
    "one phase": (
        ("in range(kernel.phases)", "in range(1)"),
        {RUNS},
        "not kept: scratch memory that is kept from phase to phase",
    ),
    "one counter": (
        ("(ctypes.c_int64(0))", "(ctypes.c_int64(0)) if phase == 0 else start"),
        {RUNS},
        "not kept: scratch memory that is kept from phase to phase",
    ),
    "no entry": (
        ('{"XPU_ENTRY": unit.entry, **unit.defines}', "unit.defines"),
        {RUNS},
        "undefined symbol: xpu_kit_table_fine",
    ),
    "no prelude": (
        ('"xpu_c.h": PRELUDE, ', ""),
        {"test_every_kernel_of_the_kit_compiles"},
        "xpu_c.h: No such file",
    ),
    "numpy refused": (
        (
            "        array = value if",
            "        raise XpuLaunchException('no')\n        array = value if",
        ),
        {ARRAYS},
        "kernels in `c` run on the host",
    ),
    "facts of zeros": (
        ("KernelFacts())", "KernelFacts(stack_bytes=0))"),
        {"test_a_fact_of_the_code_is_read_or_absent"},
        "leave it absent",
    ),
    SWAPPED: (
        ("ctypes.byref(team), addresses, numbers", "ctypes.byref(team), numbers, addresses"),
        {RUNS},
        "ended by SIGSEGV",
    ),
}


@pytest.fixture
def failures(page, tmp_path: Path):
    """Run the kit on the page's backend with one change; return what each failed test says."""

    def run(old: str, new: str, tests: set[str]) -> dict[str, str]:
        page("writing-a-backend.md").write_files(tmp_path)
        (tmp_path / "xpu_backend_toy/__init__.py").touch()
        texts = {name: (tmp_path / name).read_text("utf-8") for name in MODULES}
        changed = {name: text.replace(old, new) for name, text in texts.items()}
        assert changed != texts, old
        for name, text in changed.items():
            (tmp_path / name).write_text(text, "utf-8")
        path = [str(tmp_path), *(entry for entry in sys.path if entry)]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", tmp_path),
                *("-p", "no:cacheprovider", "--tb=short", f"--junitxml={tmp_path / 'report.xml'}"),
                *("-k", " or ".join(tests), "tests/test_toy_c.py"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        return {
            test.attrib["name"].partition("[")[0]: str(fault.text)
            for test in ET.parse(tmp_path / "report.xml").iter("testcase")
            for fault in (*test.iter("failure"), *test.iter("error"))
        }

    return run


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != SWAPPED])
def test_the_kit_finds(fault: str, failures) -> None:
    change, expected, said = FAULTS[fault]
    found = failures(*change, expected)
    assert set(found) == expected
    assert said in "".join(found.values())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a processor that knows of AMX")
def test_the_kit_finds_an_instruction_set_that_no_process_may_use(failures) -> None:
    # Where the processor has the tiles, nobody has asked for them.
    change = ("[*FLAGS, *without]", '[*FLAGS, *without, "-mamx-tile"]')
    found = failures(*change, {"test_"})
    assert set(found) == {SETS}
    assert "__AMX_TILE__: crashed: the worker process was ended by SIGILL" in found[SETS]


def test_a_kernel_that_ends_its_process_is_one_failure(failures) -> None:
    change, expected, said = FAULTS[SWAPPED]
    found = failures(*change, {"test_"})
    assert set(found) == expected
    assert said in "".join(found.values())
