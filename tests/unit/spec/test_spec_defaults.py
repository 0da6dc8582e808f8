"""What a plugin gets without saying anything, and what it cannot leave out."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpu.spec
from xpu.model import DeviceFacts, Problem
from xpu.spec import (
    Argument,
    Backend,
    CalibrationDesign,
    Compiler,
    Design,
    Device,
    DeviceArray,
    KernelSource,
    Launch,
    OpenModel,
    Preparation,
    Probe,
    ProblemSource,
    TimerTier,
    hookimpl,
    hookspec,
)


class Least(Design):
    name = "least"
    parameters = ()
    problem = ("m", "n")
    arguments = (Argument("a", "uint8", "read"), Argument("y", "float64", "write"))

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "")

    def shapes(self, problem, constants):
        return {"a": (problem.m, 3), "y": (problem.m, problem.n)}

    def data(self, problem, constants, rng):
        return {}

    def verify(self, problem, constants, inputs, outputs, rng):
        return ""


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_launch_touches_each_argument_once(m, n):
    assert Least().bytes_touched(Problem(m=m, n=n), {}) == 3 * m + 8 * m * n


def test_a_design_that_says_no_more_takes_everything_and_counts_nothing():
    design, problem = Least(), Problem(m=1, n=2)
    assert design.check_problem(problem, {}) == ""
    assert design.check_constants({"any": 1}) == ""
    assert design.operations(problem) == 0
    assert design.launch("c", {}, problem) == Launch(grid=(1, 1, 1), block=None)
    assert design.preparation is None
    assert design.arithmetic("c", {}) is None


def test_a_measuring_design_gives_operations_a_second_and_asks_for_no_loaded_host():
    class Measures(Least, CalibrationDesign):
        figure, members = "float32_per_s", ()

        def sized(self, facts, step):
            return None

        def operations(self, problem):
            return problem.m * problem.n

    assert Measures().value(Problem(m=20, n=50), 4.0) == 250e9
    assert (Measures().loaded_figure, Measures().memory) == (None, "warm")


@given(
    st.lists(st.integers(0, 1000), max_size=4).map(tuple),
    st.sampled_from(["uint8", "float16", "float32", "int64"]),
)
def test_the_size_of_an_array_follows_from_shape_and_type(shape, dtype):
    array = DeviceArray(0, shape, dtype, None)
    count = 1
    for size in shape:
        count *= size
    assert array.nbytes == count * np.dtype(dtype).itemsize


@pytest.mark.parametrize(
    "base",
    [
        CalibrationDesign,
        Design,
        Preparation,
        Compiler,
        Device,
        Backend,
        TimerTier,
        Probe,
        ProblemSource,
        OpenModel,
    ],
)
def test_what_a_plugin_must_supply_cannot_be_left_out(base):
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (base,), {})()


def test_a_device_rests_on_its_uuid_and_driver_and_closes_without_ado():
    for facts, device, driver in (
        (DeviceFacts(uuid="u", driver_version="1.2"), "u", "1.2"),
        (DeviceFacts(), "", ""),
    ):
        one = type("One", (Device,), dict.fromkeys(Device.__abstractmethods__))()
        one.facts = facts
        assert one.identity() == {"device": device, "driver": driver}
        assert one.queue_ns() is None
        one.close()
        one.close()


def test_every_public_name_is_there_once_and_in_order():
    constants = [name for name in xpu.spec.__all__ if name.isupper()]
    classes = [name for name in xpu.spec.__all__ if name[0].isupper() and not name.isupper()]
    hooks = [name for name in xpu.spec.__all__ if name.islower()]
    assert xpu.spec.__all__ == [*sorted(constants), *sorted(classes), *sorted(hooks)]
    assert all(hasattr(xpu.spec, name) for name in xpu.spec.__all__)


def test_hooks_are_marked_for_one_project():
    @hookimpl
    def xpu_backends():
        return ()

    assert hasattr(xpu_backends, "xpu_impl")
    assert hookspec.project_name == hookimpl.project_name == xpu.spec.PROJECT


def test_seeing_the_spec_costs_no_numpy():
    code = "import sys, xpu.spec; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
