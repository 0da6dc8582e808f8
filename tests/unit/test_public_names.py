"""The names that programs rely on, used as they are documented."""

from __future__ import annotations

import subprocess
import sys

import first_party
import numpy as np
import pytest

import xpu
from xpu import (
    Autotune,
    DeviceFacts,
    KernelFacts,
    Orchestrator,
    Problem,
    ShapeCandidate,
    ShapeChoice,
    ShapeFilter,
    XpuConfigError,
    XpuError,
    XpuLaunchException,
)

FACTS = DeviceFacts(backend="any", multiprocessors=128, registers_per_multiprocessor=65536)


class Clock:
    """A probe with fixed times in nanoseconds."""

    def __init__(self, **times):
        self.times = times
        self.readings = []

    def time_ns(self, candidate):
        self.readings.append(candidate.name)
        return float(self.times[candidate.name])


def shapes(*names, default=None, code="1", family="any name: (it is) only a/name"):
    one = ShapeFilter(family, FACTS, Problem(m=512, n=4096, k=4096), default=default)
    for name in names:
        one.consider(
            ShapeCandidate(name, tile_m=64, tile_n=64, tile_k=256, threads=128, code_hash=code),
            KernelFacts(registers=128, spill_bytes=0, static_shared_bytes=0),
        )
    return one


def test_all_names_are_there_and_nothing_else_is():
    assert set(xpu.__all__) == {
        "Orchestrator", "DeviceFacts", "KernelFacts", "Problem", "ShapeCandidate", "ShapeFilter",
        "ShapeChoice", "Autotune", "KernelTimer", "XpuError", "XpuConfigError", "XpuBuildError",
        "XpuLaunchException",
    }  # fmt: skip
    assert all(getattr(xpu, name) is not None for name in xpu.__all__)
    assert issubclass(XpuLaunchException, XpuError)
    with pytest.raises(AttributeError, match="nothing"):
        _ = xpu.nothing


def test_the_filter_as_documented():
    f = ShapeFilter("q4k_tile", FACTS, Problem(m=512, n=4096, k=4096))
    f.consider(
        ShapeCandidate("t", tile_m=128, tile_n=128, tile_k=256, threads=256),
        KernelFacts(registers=255, spill_bytes=0, static_shared_bytes=34816),
    )
    [verdict] = f.survivors
    assert verdict.candidate.name == "t"
    assert (verdict.rule, verdict.need, verdict.limit) == (None, None, None)
    assert (verdict.resident_groups, verdict.fills, verdict.splits) == (1, True, 1)
    assert verdict.resident_splits == 1
    assert verdict.pad_waste_permille == 0
    assert f.pruned == ()
    assert f.refusal() == ""


def test_the_choice_as_documented(tmp_path):
    choice = ShapeChoice(store=Autotune(tmp_path, FACTS), foreign_load=lambda: 0.0)
    clock = Clock(a=300, b=280, c=307)
    first = choice.choose(shapes("a", "b", "c"), clock)
    assert (first.member, first.source, first.timed, first.stored) == ("b", "timed", True, True)
    count = len(clock.readings)
    again = choice.choose(shapes("a", "b", "c"), clock)
    assert (again.member, again.source, again.timed, again.stored) == ("b", "stored", False, True)
    assert len(clock.readings) == count
    assert (again.margin_permille, again.tie) == (first.margin_permille, first.tie) == (67, False)
    dropped = choice.choose(shapes("a", "b", "c", code="2"), clock)
    assert (dropped.source, dropped.stored) == ("timed", True)
    assert "'b'" in dropped.note


def test_override_hold_only_and_none_without_a_store():
    choice = ShapeChoice(store=None)
    clock = Clock(a=100, b=50)
    family = shapes("a", "b").name
    choice.override(family, "a")
    assert choice.choose(shapes("a", "b"), clock).source == "override"
    choice.clear_override(family)
    with choice.hold():
        held = choice.choose(shapes("a", "b", default="b"), clock)
        assert (held.member, held.source, held.timed) == ("b", "default", False)
    assert clock.readings == []
    assert choice.choose(shapes("a"), clock).source == "only"
    assert choice.choose(shapes("a", "b"), clock).member == "b"
    with pytest.raises(XpuLaunchException):
        choice.choose(shapes(), clock)


def test_the_orchestrator_as_documented():
    for name in ("cpu", "kquant"):
        first_party.plugin(name)
    rng = np.random.default_rng()
    from xpu_family_kquant.reference import errors, random_blocks

    blocks = random_blocks("q4_k", 96, 512, rng)
    x = rng.standard_normal((3, 512)).astype(np.float32)
    y = np.full((3, 96), np.nan, np.float32)
    with Orchestrator(store=None, tuning="off", backend="cpu") as orchestrator:
        orchestrator.bind("q4k_tile", m=3, n=96, k=512)(blocks, x, out=y)
    assert np.sqrt((errors("q4_k", blocks, x, y) ** 2).mean()) <= 0.008


def test_importing_costs_no_numpy():
    code = "import sys, xpu; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("sizes", [{}, {"m": -1}, {"m": 1.5}, {"m": True}, {"m": "3"}])
def test_a_problem_of_something_else_than_sizes_is_refused(sizes):
    with pytest.raises(XpuConfigError):
        Problem(**sizes)
