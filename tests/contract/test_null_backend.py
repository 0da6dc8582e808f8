"""What the kit gives for tests of other things: the null backend, registries, a probe's context."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import toy_family as toy
from kit_kernels import PythonBackend

from xpu import Orchestrator, Problem
from xpu.errors import XpuConfigError, XpuLaunchException, XpuPluginError
from xpu.model import DeviceFacts
from xpu.registry import Registry
from xpu.spec import hookimpl
from xpu.testing import NullBackend, NullLaunch, RecordingContext, registry_of


def slow_when_fine(launch: NullLaunch) -> float:
    """Stand for the toy's kernels: what it says is what a launch takes."""
    x, y = launch.buffers
    y[...] = 3 * x + 1
    return 7000.0 / int(launch.defines["XPU_GRAIN"])


@pytest.fixture
def make(tmp_path: Path):
    def orchestrator(backend: NullBackend, **more: object) -> Orchestrator:
        members = {"fine": {"mode": 0, "grain": 7}, "coarse": {"mode": 0, "grain": 70}}
        config = toy.write_family(tmp_path, members)
        registry = registry_of(backend, toy.Toy)
        cache = tmp_path / "build"
        return Orchestrator(registry=registry, config=config, build_cache=cache, **more)

    return orchestrator


def test_it_runs_the_function_and_tells_its_time(make) -> None:
    with make(NullBackend("c", slow_when_fine)) as orchestrator:
        result = orchestrator.choose("toy", Problem(n=1000))
    times = {member.name: member.median_ns for member in result.members}
    assert (result.member, result.source) == ("coarse", "timed")
    assert times == {"fine": 1000.0, "coarse": 100.0}


def test_without_a_function_nothing_is_written_and_the_trial_says_so(make) -> None:
    with (
        make(NullBackend("c")) as orchestrator,
        pytest.raises(XpuLaunchException, match=r"wrong .*not written"),
    ):
        orchestrator.choose("toy", Problem(n=10))


def test_a_closure_serves_here_and_is_named_where_it_cannot_be_found(make) -> None:
    seen: list[NullLaunch] = []
    backend = NullBackend("c", lambda launch: seen.append(launch))
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    with make(backend, tuning="off") as orchestrator:
        orchestrator.bind("toy", n=5)(x, out=y)
        assert [launch.sizes for launch in seen] == [(5,)]
        assert seen[0].entry == "xpu_toy_fine"
        assert seen[0].defines == {"XPU_MODE": "0", "XPU_GRAIN": "7"}
        assert [buffer.dtype.name for buffer in seen[0].buffers] == ["float32", "float32"]
        with pytest.raises(XpuLaunchException, match="stands in no module"):
            orchestrator.choose("toy", Problem(n=5))


def test_it_tells_any_facts(make) -> None:
    facts = DeviceFacts(backend="null", name="a part", max_grid_x=3, wave_width=64)
    with make(NullBackend("c", facts=facts)) as orchestrator:
        assert orchestrator.facts == facts


def test_a_registry_of_parts_and_plugins() -> None:
    class Plugin:
        @hookimpl
        def xpu_designs(self):
            return [toy.Toy()]

    for given in (
        (PythonBackend, toy.Toy),
        (PythonBackend(), toy.Toy()),
        (Plugin(), PythonBackend),
    ):
        registry = registry_of(*given)
        assert isinstance(registry, Registry)
        assert (set(registry.backends), set(registry.designs)) == ({"null"}, {"toy"})


def test_a_registry_of_what_does_not_load_is_refused(tmp_path: Path) -> None:
    class Raises:
        @hookimpl
        def xpu_designs(self):
            raise OSError("no kernels")

    for given, said in (
        ((Raises(),), "failed at xpu_designs: OSError: no kernels"),
        ((toy.Toy(), toy.Toy()), "conflict"),
        ((tmp_path / "nothing.toml",), "no such file"),
        ((3,), "has no hook"),
        (("xpu_family_kquant",), "has no hook"),
    ):
        with pytest.raises(XpuPluginError, match=said):
            registry_of(*given)


def test_a_probes_context_writes_down_what_it_is_asked() -> None:
    context = RecordingContext({"one": [{"n": 1}, {"n": 2}]}, refused=["2"])
    first, second = (context.trial("one", problem) for problem in context.problems("one"))
    assert (first.source, second.source, second.member) == ("timed", "refused", "")
    assert context.tried == [("one", "1"), ("one", "2")]
    with pytest.raises(XpuConfigError, match="did you mean 'one'"):
        context.problems("ones")
    result = context.compare_in_place("mine", {"a": lambda: None, "b": lambda: None}, "build")
    assert (result.member, context.recall("mine", "build")) == ("a", "a")
    assert context.recall("mine", "another build") is None


def test_without_pytest_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None; import xpu.testing"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install pytest" in done.stderr


def test_the_core_does_not_import_it() -> None:
    code = "import sys, xpu.cli, xpu.orchestrator; print([m for m in sys.modules if 'pytest' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
