"""A small design from end to end: compiled, filtered, checked in a worker process, timed, bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xpu import Orchestrator, Problem, XpuLaunchException
from xpu.registry import Registry
from xpu.spec import Argument, Design, KernelSource, Launch, hookimpl

SOURCE = """
#include "xpu_simt.h"
/* y (m, n): each row of x less its mean; a block for each row. */
XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y, int64_t m, int64_t n) {
    XPU_SHARED(float, part, XPU_THREADS / xpu::wave_width);
    const int64_t row = xpu::block_x();
    float sum = 0;
    for (int64_t i = xpu::thread(); i < n; i += xpu::threads()) sum += x[row * n + i];
    sum = xpu::wave_sum(sum);
    if (xpu::lane() == 0) part[xpu::wave()] = sum;
    if (XPU_FAULT != 1) xpu::barrier();
    sum = 0;
    for (int w = 0; w < XPU_THREADS / xpu::wave_width; ++w) sum += part[w];
    for (int64_t i = xpu::thread(); i < n + (XPU_FAULT == 2); i += xpu::threads())
        y[row * n + i] = x[row * n + i] - sum / (float)n;
}
"""
MEMBERS = {
    "small": {"threads": 64, "fault": 0},
    "large": {"threads": 256, "fault": 0},
    "no_barrier": {"threads": 128, "fault": 1},
    "outside": {"threads": 128, "fault": 2},
    "huge": {"threads": 2048, "fault": 0},
}


class Centred(Design):
    name = "centred"
    parameters = ("threads", "fault")
    problem = ("m", "n")
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("simt",)

    def source(self, dialect):
        return KernelSource(dialect, SOURCE)

    def launch(self, dialect, member, problem):
        return Launch((problem.m, 1, 1), (member["threads"], 1, 1))

    def shapes(self, problem, constants):
        return {"x": (problem.m, problem.n), "y": (problem.m, problem.n)}

    def data(self, problem, constants, rng):
        return {"x": rng.standard_normal((problem.m, problem.n)).astype(np.float32)}

    def verify(self, problem, constants, inputs, outputs, rng):
        x = inputs["x"].astype(np.float64)
        error = np.abs(outputs["y"] - (x - x.mean(axis=1, keepdims=True))).max()
        return "" if error < 1e-4 else f"largest error {error:.3g}, allowed 1e-4"


class Plugin:
    @hookimpl
    def xpu_designs(self):
        return [Centred()]


@pytest.fixture
def make(tmp_path: Path):
    import xpu_backend_emulator.plugin

    lines = ["[families.centred]", 'design = "centred"', 'problem = ["m", "n"]']
    for name, parameters in MEMBERS.items():
        lines += ["[[families.centred.members]]", f'name = "{name}"']
        lines += [f"{key} = {value}" for key, value in parameters.items()]
    (tmp_path / "families.toml").write_text("\n".join(lines) + "\n")
    registry = Registry.from_plugins(
        [
            ("emulator", xpu_backend_emulator.plugin, "xpu-backend-emulator"),
            ("centred", Plugin(), "centred"),
        ]
    )

    def orchestrator(**more):
        return Orchestrator(
            tmp_path / "store",
            backend="emulator",
            config=tmp_path / "families.toml",
            registry=registry,
            build_cache=tmp_path / "build",
            **more,
        )

    return orchestrator


def test_a_trial_finds_the_faults_and_stores_the_answer(make, monkeypatch, wave) -> None:
    monkeypatch.setenv("XPU_EMULATOR_WAVE", str(wave))
    with make() as orchestrator:
        assert orchestrator.facts.name == "emulated part"
        assert orchestrator.facts.wave_width == wave
        result = orchestrator.choose("centred", Problem(m=3, n=70))
        members = {member.name: member for member in result.members}
        assert members["huge"].status in ("pruned", "failed")
        for name, check in (("no_barrier", "data race"), ("outside", "out-of-bounds load")):
            assert members[name].status == "failed"
            assert check in members[name].note, members[name].note
            assert f"xpu_centred_{name}" in members[name].note
        assert result.member in ("small", "large")
        assert (result.source, result.stored) == ("timed", True)
    with make() as orchestrator:
        again = orchestrator.choose("centred", Problem(m=3, n=70))
        assert (again.member, again.source) == (result.member, "stored")


def test_a_bound_kernel_computes(make) -> None:
    x = np.random.default_rng().standard_normal((4, 333)).astype(np.float32)
    y = np.full_like(x, np.nan)
    with make(tuning="off") as orchestrator:
        orchestrator.bind("centred", m=4, n=333)(x, out=y)
        assert np.allclose(y, x - x.mean(axis=1, keepdims=True), atol=1e-5)
        orchestrator.override("centred", "outside")
        with pytest.raises(XpuLaunchException, match=r"out-of-bounds load: .*x\[1332\]"):
            orchestrator.bind("centred", m=4, n=333)(x, out=y)
