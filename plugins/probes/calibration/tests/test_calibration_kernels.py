"""The measuring kernels against their references, in every dialect that a backend here takes."""

from __future__ import annotations

import importlib
import itertools
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpu import Orchestrator, XpuConfigError
from xpu.model import FIGURES, DeviceFacts, Family, Problem
from xpu.orchestrator import settings_for
from xpu.spec import CalibrationDesign, CompiledCode, Device, KernelUnit, Launch
from xpu.testing import registry_of
from xpu.testing.member_runner import MemberRunner
from xpu_probe_calibration import plugin

DESIGNS = {design.name: design for design in plugin.xpu_designs()}
FURTHER = {
    "calibrate_float32": [{"n": 3 * 4096, "k": 96}],
    "calibrate_int8_dot": [{"n": 3 * 4096, "k": 32}],
    "calibrate_half_matrix": [{"n": 2 * 4096, "k": 32}],
    "calibrate_int8_matrix": [{"n": 2 * 4096, "k": 64}],
    # Rounds that are a multiple of no depth.
    "calibrate_read": [{"n": 4 * 2048 * 7, "t": 2048}],
    "calibrate_copy": [{"n": 4 * 2048 * 7, "t": 2048}],
    "calibrate_latency": [{"n": 64 * 33, "k": 100}, {"n": 64, "k": 0}],
}
PARTS = {
    "nothing said": DeviceFacts(),
    "a host": DeviceFacts(multiprocessors=2, last_level_cache_bytes=32 << 20, memory_bytes=8 << 30),
    "a large part": DeviceFacts(
        multiprocessors=132,
        max_threads_per_multiprocessor=2048,
        last_level_cache_bytes=50 << 20,
        memory_bytes=140 << 30,
    ),
    "an odd part": DeviceFacts(
        multiprocessors=7, max_threads_per_multiprocessor=1536, memory_bytes=3 << 30
    ),
    "a small part": DeviceFacts(
        multiprocessors=2, max_threads_per_multiprocessor=1024, memory_bytes=1 << 28
    ),
}


def family(design: CalibrationDesign) -> Family:
    return Family(design.name, design.name, design.problem, design.members)


def first(design: CalibrationDesign) -> Problem:
    problem = design.sized(DeviceFacts(), 0)
    assert problem is not None
    return problem


def problems(design: CalibrationDesign) -> list[Problem]:
    return [first(design), *(Problem(**sizes) for sizes in FURTHER[design.name])]


@pytest.fixture(scope="module", params=["cpu", "emulator 32", "emulator 64"])
def runner(request: Any) -> Iterator[MemberRunner]:
    name, _, wave = request.param.partition(" ")
    brings = pytest.importorskip(f"xpu_backend_{name}.plugin")
    with pytest.MonkeyPatch.context() as patch:
        if wave:
            patch.setenv("XPU_EMULATOR_WAVE", wave)
        registry = registry_of(brings, plugin)
        backend = registry.backend(name)
        if not backend.availability().is_available:
            pytest.skip(backend.availability().reason)
        made = MemberRunner(backend, registry, settings_for(registry), None)
        yield made
        made.close()


@pytest.mark.parametrize("name", DESIGNS)
def test_every_member_is_right_on_every_problem(runner: MemberRunner, name: str) -> None:
    design, rng = DESIGNS[name], np.random.default_rng()
    if runner.backend.dialect not in design.dialects():
        pytest.skip(f"{name} has no source in dialect {runner.backend.dialect}")
    ran = 0
    for member in family(design).for_dialect(runner.backend.dialect):
        for problem in problems(design):
            assert design.check_problem(problem, {}) == ""
            inputs = design.data(problem, {}, rng)
            outputs = runner.run(family(design), member.name, problem, inputs)
            assert design.verify(problem, {}, inputs, outputs, rng) == "", (member.name, problem)
            ran += 1
    assert ran > 1


@pytest.mark.parametrize("name", DESIGNS)
def test_one_wrong_element_is_found(name: str) -> None:
    design, rng = DESIGNS[name], np.random.default_rng()
    problem = first(design)
    inputs = design.data(problem, {}, rng)
    right = _right(design, problem, inputs)
    assert design.verify(problem, {}, inputs, right, rng) == ""
    for output in right.values():
        at = rng.integers(output.size)
        output.reshape(-1)[at] += 1
    assert design.verify(problem, {}, inputs, right, rng) != ""


def _right(design: Any, problem: Problem, inputs: Any) -> dict[str, Any]:
    """The right outputs, made one by one in Python."""
    if design.kernel == "copy":
        return {"y": inputs["x"].copy()}
    if design.kernel == "read":
        return {"y": inputs["x"].reshape(problem.t, -1).sum(axis=1, dtype=np.uint32)}
    if design.kernel == "latency":
        at = int(inputs["at"][0])
        for _ in range(problem.k):
            at = int(inputs["next"][at])
        return {"at": np.array([at], np.uint32)}
    if design.kernel == "matrix":
        a, b = (inputs[name].astype(np.float64) for name in ("a", "b"))
        added = sum(a @ b.T for _ in range(problem.k // a.shape[1]))
        tiles = [inputs["start"][tile % 16] + added for tile in range(problem.n // 256)]
        return {"y": np.stack(tiles).reshape(-1)}
    y = inputs["x"].astype(np.float64)
    if design.kernel == "float32":
        for _ in range(problem.k):
            y = inputs["factors"][0] * y + inputs["factors"][1]
    else:
        for _ in range(problem.k // 32):
            y = y + float(inputs["a"].astype(float) @ inputs["b"].astype(float))
    return {"y": y}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", DESIGNS)
def test_problems_grow_about_fourfold_and_fit_the_memory(name: str, part: str) -> None:
    design, facts = DESIGNS[name], PARTS[part]
    sized = []
    while (problem := design.sized(facts, len(sized))) is not None:
        assert design.check_problem(problem, {}) == ""
        assert design.bytes_touched(problem, {}) <= (facts.memory_bytes or 1 << 40) / 8
        sized.append(problem)
        assert len(sized) < 16
    assert len(sized) > 2, "there is more than the first problem"
    work = [design.operations(one) or design.bytes_touched(one, {}) for one in sized]
    for before, after in itertools.pairwise(work[1:]):
        assert 3 <= after / before <= 4
    # A large device is filled: no less work than it has threads.
    threads = (facts.multiprocessors or 1) * (facts.max_threads_per_multiprocessor or 1024)
    if design.kernel != "latency":
        assert all(work_of >= threads for work_of in work[1:])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("calibrate_float32", {"n": 4095, "k": 32}),
        ("calibrate_int8_dot", {"n": 4096, "k": 48}),
        ("calibrate_half_matrix", {"n": 4096, "k": 1 << 21}),
        ("calibrate_int8_matrix", {"n": 4096, "k": 0}),
        ("calibrate_read", {"n": 4096, "t": 0}),
        ("calibrate_copy", {"n": 4096, "t": 2048}),
        ("calibrate_latency", {"n": 65, "k": 1}),
    ],
)
def test_a_problem_that_a_kernel_does_not_take_is_refused(name: str, sizes: Any) -> None:
    assert DESIGNS[name].check_problem(Problem(**sizes), {}) != ""


def test_each_measures_a_known_figure_of_its_own() -> None:
    figures = [design.figure for design in DESIGNS.values()]
    figures += [one.loaded_figure for one in DESIGNS.values() if one.loaded_figure is not None]
    assert len(set(figures)) == len(figures)
    assert set(figures) <= set(FIGURES)
    for design in DESIGNS.values():
        names = [member.name for member in design.members]
        assert len(set(names)) == len(names)
        assert {d for member in design.members for d in member.dialects or ()} == set(
            design.dialects()
        )
        with pytest.raises(XpuConfigError, match="no source in dialect 'other'"):
            design.source("other")


def test_figures_follow_from_times() -> None:
    problem = Problem(n=8192, k=256)
    # 2 * 8192 * 256 operations in 4,096 ns.
    assert DESIGNS["calibrate_float32"].value(problem, 4096.0) == pytest.approx(1.024e12)
    problem = Problem(n=4 * 1024 * 100, t=1024)
    assert DESIGNS["calibrate_copy"].value(problem, 1000.0) == pytest.approx(8 * problem.n * 1e6)
    assert DESIGNS["calibrate_read"].value(problem, 1000.0) == pytest.approx(
        (4 * problem.n + 4096) * 1e6
    )
    assert DESIGNS["calibrate_latency"].value(Problem(n=64, k=500), 1e5) == 200


# What this machine must have to run code for a target; None: that is only compiled.
TARGETS = {"x86-64": "sse2", "x86-64-v3": "avx2", "x86-64-v4": "avx512f", "alderlake": None}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86-64 targets")
@pytest.mark.parametrize("target", TARGETS)
def test_the_hosts_kernels_serve_older_and_other_processors(target: str, tmp_path: Path) -> None:
    backend = pytest.importorskip("xpu_backend_cpu.backend").CpuBackend()
    units = [
        (
            design,
            KernelUnit(
                f"{name}.{member.name}",
                "kernel",
                design.source("c").text,
                {},
                {f"XPU_{key.upper()}": str(value) for key, value in member.parameters.items()},
            ),
        )
        for name, design in DESIGNS.items()
        if "c" in design.dialects()
        for member in family(design).for_dialect("c")
    ]
    built = backend.compiler().compile([unit for _, unit in units], target, deadline_s=120)
    flags = set(Path("/proc/cpuinfo").read_text().split())
    for (design, unit), result in zip(units, built, strict=True):
        assert isinstance(result, CompiledCode), (unit.kernel, result)
        if TARGETS[target] in flags:
            path = tmp_path / unit.kernel
            path.write_bytes(result.code)
            assert _fault(backend.open(0), path, design) == "", unit.kernel


def _fault(device: Device, code: Path, design: CalibrationDesign) -> str:
    """Run a kernel of the host once, and return what its reference says."""
    rng, problem = np.random.default_rng(), first(design)
    inputs = design.data(problem, {}, rng)
    shapes = design.shapes(problem, {})
    arrays = {
        each.name: device.from_host(inputs.get(each.name, np.zeros(shapes[each.name], each.dtype)))
        for each in design.arguments
    }
    kernel = device.load(code, "kernel")
    device.launcher(kernel, Launch(), list(arrays.values()), list(problem.sizes.values()))()
    outputs = {
        each.name: device.to_host(arrays[each.name])
        for each in design.arguments
        if each.access != "read"
    }
    return design.verify(problem, {}, inputs, outputs, rng)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("cpu", {"float32_per_s", "int8_dot_per_s"}),
        (
            "emulator",
            {"float32_per_s", "int8_dot_per_s", "half_matrix_per_s", "int8_matrix_per_s"},
        ),
    ],
)
def test_a_calibration_from_end_to_end(
    name: str, figures: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(f"xpu_backend_{name}.plugin")
    facts = tmp_path / "part.toml"
    facts.write_text(
        "multiprocessors = 1\nwave_width = 32\nmax_threads_per_multiprocessor = 256\n"
        "max_threads_per_block = 1024\nlast_level_cache_bytes = 65536\nmemory_bytes = 16777216\n"
    )
    monkeypatch.setenv("XPU_EMULATOR_FACTS", str(facts))
    # One step beyond the first: whether figures are good is no matter here.
    monkeypatch.setattr("xpu.orchestrator.calibrator.LONG_NS", 1.0)
    monkeypatch.setattr("xpu.orchestrator.calibrator.LAUNCHES_LONG", 0)
    registry = registry_of(importlib.import_module(f"xpu_backend_{name}.plugin"), plugin)
    backend = type(registry.backends[name].open(0))  # the class itself, not its stand-in
    monkeypatch.setattr(backend, "foreign_load", lambda _: 0.0)
    with Orchestrator(backend=name, registry=registry, tuning="off") as orchestrator:
        found = {one.figure: one for one in orchestrator.calibrator.measure()}
    common = {
        *("read_bytes_per_s", "copy_bytes_per_s", "latency_ns", "bytes_in_flight", "launch_ns"),
        *("read_loaded_bytes_per_s", "copy_loaded_bytes_per_s"),
    }
    assert set(found) == {*common, *figures, "clock_ns"}
    for figure in {*common, *figures}:
        assert found[figure].value is not None, found[figure].note
        assert found[figure].value > 0
