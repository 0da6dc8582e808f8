"""The backend for the dialect `c` of the guide, made wrong in one way after the other."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
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
# All but the one with which the whole kit is run.
APART = [fault for fault in FAULTS if fault != SWAPPED]

Changes = Mapping[str, tuple[tuple[str, str], set[str], str]]
Failures = dict[str, dict[str, str]]


def write_changed(page, place: Path, package: str, old: str, new: str) -> Path:
    """Write the page's backend with one change, as a package of a name of its own; its tests."""
    page("writing-a-backend.md").write_files(place)
    (place / "xpu_backend_toy/__init__.py").touch()
    texts = {name: (place / name).read_text("utf-8") for name in MODULES}
    changed = {name: text.replace(old, new) for name, text in texts.items()}
    assert changed != texts, old
    for name, text in changed.items():
        (place / name).write_text(text.replace("xpu_backend_toy", package), "utf-8")
    (place / "xpu_backend_toy").rename(place / package)
    tests = place / "tests" / f"test_{package}.py"
    text = (place / "tests/test_toy_c.py").read_text("utf-8")
    tests.write_text(text.replace("xpu_backend_toy", package), "utf-8")
    return tests


@pytest.fixture(scope="module")
def failures(page, tmp_path_factory):
    """Run the kit, or some of its tests, on the page's backend with one change after the other.

    Returned is what each failed test says, by change.
    """

    def run(faults: Changes, *, is_whole: bool) -> Failures:
        place = tmp_path_factory.mktemp("faults")
        packages, tests = {}, []
        for number, (fault, (change, names, _)) in enumerate(faults.items()):
            packages[f"toy_{number}"] = fault
            path = write_changed(page, place, f"toy_{number}", *change)
            tests += [path] if is_whole else [f"{path}::TestCToy::{name}" for name in names]
        report = place / "report.xml"
        path = [str(place), *(entry for entry in sys.path if entry)]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", place),
                *("-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}", *tests),
            ],
            cwd=place,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        found: Failures = {fault: {} for fault in faults}
        for test in ET.parse(report).iter("testcase"):
            package = test.attrib["classname"].split(".")[-2].removeprefix("test_")
            for said in (*test.iter("failure"), *test.iter("error")):
                name = test.attrib["name"].partition("[")[0]
                found[packages[package]][name] = str(said.text)
        return found

    return run


@pytest.fixture(scope="module")
def found(failures) -> Failures:
    """What fails of the tests that are meant for each fault: of all of them in one process."""
    return failures({name: FAULTS[name] for name in APART}, is_whole=False)


@pytest.mark.parametrize("fault", APART)
def test_the_kit_finds(fault: str, found: Failures) -> None:
    _, expected, said = FAULTS[fault]
    assert set(found[fault]) == expected
    assert said in "".join(found[fault].values())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a processor that knows of AMX")
def test_the_kit_finds_an_instruction_set_that_no_process_may_use(failures) -> None:
    # Where the processor has the tiles, nobody has asked for them.
    change = ("[*FLAGS, *without]", '[*FLAGS, *without, "-mamx-tile"]')
    found = failures({"tiles": (change, {SETS}, "")}, is_whole=True)["tiles"]
    assert set(found) == {SETS}
    assert "__AMX_TILE__: crashed: the worker process was ended by SIGILL" in found[SETS]


def test_a_kernel_that_ends_its_process_is_one_failure(failures) -> None:
    found = failures({SWAPPED: FAULTS[SWAPPED]}, is_whole=True)[SWAPPED]
    _, expected, said = FAULTS[SWAPPED]
    assert set(found) == expected
    assert said in "".join(found.values())
