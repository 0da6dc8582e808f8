"""Tests of a backend as the core uses it: in a worker process, in a trial, behind `bind`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.model import Problem
from xpu.orchestrator import Orchestrator
from xpu.spec import Device
from xpu.testing.backend_fixtures import BackendFixtures
from xpu.testing.surroundings import skip_for
from xpu.testing.workbench import Workbench

_SAYS: Final = """
import importlib, json, sys
place = importlib.import_module(sys.argv[1])
for part in sys.argv[2].split("."):
    place = getattr(place, part)
device = place().open(0)
print(json.dumps(dict(device.identity())))
device.close()
"""
_SIZES: Final = {"m": 33, "n": 130}


class ServiceTests(BackendFixtures):
    """The whole way, from an orchestrator to a launch."""

    @pytest.fixture
    def orchestrator(
        self, bench: Workbench, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Orchestrator]:
        """Make an orchestrator on the kit's families, with a store and a build cache of its own.

        What others do to the machine meanwhile must not decide what is stored.
        """
        bench.load(device)
        monkeypatch.setattr(type(device), "foreign_load", lambda _: 0.0)
        return lambda: Orchestrator(
            tmp_path / "store",
            backend=bench.backend.name,
            registry=bench.registry,
            build_cache=tmp_path / "build",
        )

    def test_another_process_has_the_same_identity(self, bench: Workbench, device: Device) -> None:
        cls = type(bench.backend)
        done = subprocess.run(  # noqa: S603 - this interpreter, on this very backend
            [sys.executable, "-c", _SAYS, cls.__module__, cls.__qualname__],
            env=_with_path(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        assert said == dict(device.identity()), "no answer would ever be found again"

    def test_a_worker_process_runs_every_kernel_of_the_kit(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        faults = []
        for name, member in bench.at_hand():
            told = bench.fault(name, member)
            faults += [told] if told else []
            if ": failed: " in told:
                # It raised, and may do so here too, where one sees the line.
                design, problem = bench.design(name), Problem(**bench.design(name).small)
                inputs = design.data(problem, design.constants, rng)
                bench.run_unseen(device, name, problem, inputs, member)
        assert not faults, "\n".join(faults)

    def test_every_instruction_set_that_macros_allow_can_be_used(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        design = bench.design("kit_isa")
        bench.need("kit_isa")
        inputs = design.data(Problem(set=0), design.constants, rng)
        listed = bench.run_apart("kit_isa", Problem(set=0), inputs)["y"]
        faults = []
        for at, macro in enumerate(listed.tobytes().rstrip(b"\0").decode("ascii").split(), 1):
            told = bench.fault("kit_isa", None, Problem(set=at))
            faults += [f"{macro}{told.removeprefix(f'kit_isa.only on {at}')}"] if told else []
        assert not faults, (
            "the compiler is allowed what a process of this backend cannot use: "
            f"{'; '.join(faults)}. Let open() ask the operating system for it (it gives the tiles "
            "of AMX to who asks), or compile without it"
        )

    def test_a_trial_is_held_and_its_answer_is_recalled(
        self, bench: Workbench, orchestrator: Callable[[], Orchestrator]
    ) -> None:
        with orchestrator() as one:
            result = one.choose("kit_table", Problem(**_SIZES))
        told = {member.name: f"{member.status} {member.note}" for member in result.members}
        assert set(told) == set(bench.members("kit_table"))
        for member in result.members:
            assert member.status in ("survivor", "left"), told
            assert member.median_ns is not None, told
            assert member.median_ns > 0, told
        assert (result.source, result.stored) == ("timed", True), result.note
        with orchestrator() as one:
            again = one.choose("kit_table", Problem(**_SIZES))
        assert (again.member, again.source) == (result.member, "stored"), again.note

    def test_a_bound_kernel_computes_on_the_callers_arrays(
        self,
        bench: Workbench,
        device: Device,
        orchestrator: Callable[[], Orchestrator],
        rng: np.random.Generator,
    ) -> None:
        design, problem = bench.design("kit_table"), Problem(**_SIZES)
        with orchestrator() as one:
            kernel = one.bind("kit_table", memory=None, **_SIZES)
            for _ in range(2):
                inputs = dict(design.data(problem, design.constants, rng))
                a, b = (self.array_of(inputs[name]) for name in ("a", "b"))
                y = self.array_of(np.full((33, 130), np.nan, np.float32))
                try:
                    device.import_array(y, writable=True)
                except XpuLaunchException as error:
                    skip_for(error, "a caller's array", "test_an_array_is_taken_without_a_copy")
                assert kernel(a, b, out=y) is y
                device.synchronize()
                assert np.array_equal(self.numpy_of(y), design.right(problem, inputs))


def _with_path() -> dict[str, Any]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)}
