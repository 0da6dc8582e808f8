"""On a real GPU: a bundle that one process builds serves another in which there is no NVRTC."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAMILY = "q4k_matvec"
BUILD = "import sys; from xpu.cli import main; main()"

# It stands on the path of worker processes, too. NVRTC is neither imported nor loaded by anyone.
WITHOUT_NVRTC = """
import ctypes, sys


class NoNvrtc:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("cuda.bindings.") and name.endswith("nvrtc"):
            raise ModuleNotFoundError(f"No module named {name!r}: there is no NVRTC here")


class Library(ctypes.CDLL):
    def __init__(self, name, *more, **named):
        if name is not None and "nvrtc" in str(name):
            raise OSError(f"{name}: there is no NVRTC here")
        super().__init__(name, *more, **named)


sys.meta_path.insert(0, NoNvrtc)
ctypes.CDLL = Library
"""

CHILD = f"""
import importlib, sys
from pathlib import Path
import numpy as np
from xpu import Orchestrator, Problem
from xpu.errors import XpuBuildError
from xpu.registry import default_registry

try:
    importlib.import_module("cuda.bindings.nvrtc")
    raise SystemExit("NVRTC can be imported")
except ModuleNotFoundError:
    pass
registry = default_registry()
try:
    registry.backend("cuda").compiler()
    raise SystemExit("there is a compiler")
except XpuBuildError as error:
    print("no compiler:", error)
with Orchestrator(bundle=sys.argv[1], backend="cuda", tuning="first-use") as orchestrator:
    device, family = orchestrator._device, orchestrator.settings.family("{FAMILY}")
    design, problem = registry.design_of(family), Problem(m=1, n=512, k=1024)
    data = design.data(problem, family.constants, np.random.default_rng())
    weights = orchestrator.prepare("{FAMILY}", device.from_host(data["weights"]))
    kernel = orchestrator.bind("{FAMILY}", **problem.sizes)
    out = device.from_host(np.full((1, 512), np.nan, np.float32))
    kernel(weights, device.from_host(data["x"]), out=out)
    device.synchronize()
    result = design.arguments[-1].name
    y = device.to_host(out).view(np.float32).reshape(1, 512)
    said = design.verify(problem, family.constants, data, {{result: y}}, np.random.default_rng())
    assert said == "", said
    assert "nvrtc" not in Path("/proc/self/maps").read_text()
    print("served:", kernel.result.source, sorted({{m.status for m in kernel.result.members}}))
"""


def run(code: str, *words: str, cwd: Path, path: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [path, *sys.path])),
            # Nothing that is built, or known of a compiler, is found in the second process.
            "XPU_BUILD_CACHE": str(cwd / f"cache{len(path)}"),
        },
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_bundle_binds_tunes_and_runs_without_nvrtc(gpu, tmp_path: Path, record_property) -> None:
    pytest.importorskip("xpu_family_kquant", reason="the families are not installed")
    run(BUILD, "build", FAMILY, "--backend", "cuda", "--out", str(tmp_path / "out"), cwd=tmp_path)
    (tmp_path / "without").mkdir()
    (tmp_path / "without/sitecustomize.py").write_text(WITHOUT_NVRTC)
    said = run(CHILD, str(tmp_path / "out"), cwd=tmp_path, path=str(tmp_path / "without"))
    record_property("said", said)
    told, served = said.splitlines()
    assert told.startswith("no compiler: there is no NVRTC")
    assert served.startswith("served: timed")
    assert not {"wrong", "failed", "hung", "crashed", "capped"} & set(served.split("'"))
