"""A backend from outside, as its user has it: two wheels in a fresh environment.

It brings its own dialect, its own kernels for another plugin's design and its own members; no
line of the core knows it. PoCL, from the package index, is the device.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import first_party
import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
PACKAGE = HERE / "xpu_backend_opencl"
MEMBERS = {"cl16", "cl64", "cl64x2"}
TOO_WIDE = """
[[families.q4k_matvec.members]]
name     = "too_wide"
dialects = ["opencl_c"]
threads  = 1048576
rows     = 1
chunk    = 1
"""


@pytest.fixture(scope="module")
def device(outside: Any) -> Any:
    """The environment, once its OpenCL device is known to be usable."""
    done = outside.tried("xpu", "device", "--backend", "opencl", "--json")
    if done.returncode != 0:
        pytest.fail(f"PoCL is installed and gives no device: {done.stderr}")
    return outside


def test_it_imports_nothing_of_the_core_but_what_plugins_see() -> None:
    imported = {
        name
        for path in (PACKAGE / "xpu_backend_opencl").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    ours = {name for name in imported if name.partition(".")[0] == "xpu"}
    assert ours == {"xpu.errors", "xpu.model", "xpu.spec"}
    assert not {name for name in imported if re.match("xpu_(?!backend_opencl)", name)}


def test_the_core_has_no_word_of_it(root: Path) -> None:
    for path in (root / "xpu").rglob("*.py"):
        assert "opencl" not in path.read_text("utf-8").lower(), path


def test_doctor_finds_it(device: Any) -> None:
    said = json.loads(device.run("xpu", "doctor", "--json"))
    (plugin,) = (each for each in said["plugins"] if each["name"] == "opencl")
    assert (plugin["distribution"], plugin["state"]) == ("xpu-backend-opencl", "loaded")
    (backend,) = (each for each in said["backends"] if each["name"] == "opencl")
    assert backend["available"]
    assert backend["devices"]
    assert "families.toml" in json.dumps(said["config"])


def test_a_program_chooses_and_binds_its_kernels(device: Any, tmp_path: Path) -> None:
    first_party.plugin("kquant")
    (tmp_path / "families.toml").write_text(TOO_WIDE)
    command = ("python", "-P", HERE / "outside_program.py", tmp_path / "store", tmp_path)
    first, second = (json.loads(device.run(*command)) for _ in range(2))
    assert Path(first["core"]).is_relative_to(device.directory)
    for answer in first["answers"]:
        assert answer["source"] == "timed"
        assert answer["stored"]
        assert answer["member"] in MEMBERS
        assert set(answer["statuses"]) >= MEMBERS
        assert answer["error"] < 1e-4
        assert answer["is_same_from_raw"]
    assert first["pruned"] == [["too_wide", "R0", 1048576, first["most_threads"]]]
    for before, answer in zip(first["answers"], second["answers"], strict=True):
        assert (answer["source"], answer["member"]) == ("stored", before["member"])
        assert answer["error"] < 1e-4


def test_a_probe_times_its_kernels_like_any_other(device: Any, tmp_path: Path) -> None:
    for name in ("cpu", "kquant", "matvec_variant"):
        first_party.plugin(name)
    families = ["q4k_matvec", "q5k_matvec", "q6k_matvec"]
    (tmp_path / "probes.toml").write_text(
        f'[probes.matvec_variant]\nfamilies = {families}\nproblems = ["1x768x512"]\n'
    )
    command = ("xpu", "probe", "run", "matvec_variant", "--json")
    said = {
        backend: json.loads(
            device.run(*command, "--backend", backend, XPU_CONFIG_DIR=str(tmp_path))
        )
        for backend in ("opencl", "cpu")
    }
    for result in said["opencl"]["results"]:
        assert result["choice"] in MEMBERS
        timed = [each for each in result["members"] if each["median_ns"]]
        assert {each["name"] for each in timed} == MEMBERS
    for result in said["cpu"]["results"]:
        assert not {each["name"] for each in result["members"]} & MEMBERS
    for each in said.values():
        assert [result["family"] for result in each["results"]] == families


def test_its_own_tests_pass_with_the_kit(device: Any, tmp_path: Path) -> None:
    first_party.plugin("kquant")
    said = device.run(
        "python", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error",
        "--rootdir", PACKAGE / "tests", "-c", PACKAGE / "pyproject.toml",
        "--confcutdir", PACKAGE / "tests", "--import-mode=importlib", PACKAGE / "tests",
        PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert re.search(r"\d+ passed", said), said
    assert "failed" not in said
