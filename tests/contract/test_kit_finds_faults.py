"""The kit finds what is wrong: each faulty plugin fails the tests that are meant for it."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

import broken_backends
import broken_families
import broken_probes
import pytest

from xpu.testing import FamilySuite

MODULES = (broken_backends, broken_families, broken_probes)

# A suite for each faulty plugin, with the tests that are to fail; all of them for the right one,
# and where one fault must not show as many.
SUITES = """
import {module} as faulty
import kit_kernels
from xpu.testing import BackendSuite, FamilySuite, ProbeSuite

for plugin in (faulty.Base, *faulty.FOUND):
    name = f"Test{{plugin.__name__}}"
    suite, given = {suite}
    tests = {{test for test in dir(suite) if test.startswith("test_")}}
    wanted = faulty.FOUND.get(plugin, tests)
    assert wanted <= tests, wanted - tests
    wanted = tests if plugin.__name__ in faulty.WHOLE else wanted
    given |= dict.fromkeys(tests - wanted)
    globals()[name] = type(name, (suite,), given)
"""
SUITE = {
    broken_backends: 'BackendSuite, {"backend": plugin, "kernels": kit_kernels.SOURCES}',
    broken_families: 'FamilySuite, {"plugin": plugin()}',
    broken_probes: 'ProbeSuite, {"probe": plugin}',
}
Failed = dict[str, dict[str, str]]


def run_suites(module: object, tmp_path: Path) -> Failed:
    """Run the suites in a process of their own; return what each failed test says, by plugin."""
    text = SUITES.format(module=module.__name__, suite=SUITE[module])
    (tmp_path / "test_faults.py").write_text(text, "utf-8")
    report = tmp_path / "report.xml"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", tmp_path),
            *("-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}"),
            tmp_path / "test_faults.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed: Failed = defaultdict(dict)
    for test in ET.parse(report).iter("testcase"):
        for fault in (*test.iter("failure"), *test.iter("error")):
            plugin = test.attrib["classname"].rpartition("Test")[2]
            failed[plugin][test.attrib["name"].partition("[")[0]] = str(fault.text)
    return failed


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[object, Failed]:
    return {module: run_suites(module, tmp_path_factory.mktemp("faults")) for module in MODULES}


@pytest.mark.parametrize(
    ("module", "plugin"),
    [
        pytest.param(module, plugin, id=plugin.__name__)
        for module in MODULES
        for plugin in module.FOUND
    ],
)
def test_the_fault_is_found(module: object, plugin: type, failed: dict[object, Failed]) -> None:
    assert set(failed[module].get(plugin.__name__, ())) == module.FOUND[plugin]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_right_one_that_they_are_made_of_passes(
    module: object, failed: dict[object, Failed]
) -> None:
    assert failed[module].get("Base", {}) == {}


def test_a_failure_shows_the_values(failed: dict[object, Failed]) -> None:
    """Assertions of the kit are rewritten: a plugin's author sees no bare AssertionError."""
    said = failed[broken_backends]["LoadIsInPercent"]
    assert "37.0 <= 1" in said["test_the_share_of_others_is_a_share_or_unknown"]


def test_a_dialect_that_no_backend_takes_is_a_skipped_test_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Plugin(broken_families.Base):
        xpu_backends = None

    class Suite(FamilySuite):
        plugin = Plugin()

    monkeypatch.chdir(tmp_path)  # where the plugin writes its file
    names, pairs, why = Suite.collected()
    assert (names, pairs) == (["scaled"], [])
    assert why == "backends: none that is installed takes python"
