"""Gates and declarations on code that compilers of real targets make; no device is asked."""

from __future__ import annotations

import attrs
import pytest
from first_party import plugin

from xpu.adaptor import BuildCache
from xpu.adaptor.gates import Finding
from xpu.errors import XpuBuildError, XpuConfigError
from xpu.model import Declarations, Family, Member, Unbounded, Unlowered
from xpu.orchestrator import Building, FamilyBuild, targets_of
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Argument, Design, KernelSource, Launch, occupancy, unbounded, unlowered, wave

# With 1024 threads in a block no part has the registers for what each of them keeps.
SOURCE = """#include "xpu_simt.h"
XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y)
{
    float kept[XPU_VALUES];
#pragma unroll
    for (int i = 0; i < XPU_VALUES; ++i) kept[i] = x[i * xpu::threads() + xpu::thread()];
    xpu::barrier();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < XPU_VALUES; ++i) sum = sum * kept[i] + kept[XPU_VALUES - 1 - i];
    y[xpu::thread()] = sum;
}
"""


class Keeps(Design):
    name = "keeps"
    parameters = ("values", "threads")
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))
    shapes = data = verify = None

    def dialects(self):
        return ("simt",)

    def source(self, dialect):
        return KernelSource(dialect, SOURCE)

    def launch(self, dialect, member, problem):
        return Launch(block=(member["threads"], 1, 1))


class Open(Keeps):
    name = "open"

    def launch(self, dialect, member, problem):
        return Launch(block=(problem.n, 1, 1))


@occupancy(max_waves=2)
class Bounded(Open):
    name = "bounded"


@unlowered("issue 8", "emulator", gate="spill", members=("fw",))
@unbounded("issue 8", members=("few", "fe"))
class Misnamed(Keeps):
    name = "misnamed"


@wave(width=32)
class Narrow(Keeps):
    name = "narrow"


# A call for each number, of a function that the compiler sees and does not put in its place.
CALLS = """#include "xpu_c.h"
static __attribute__((noinline)) float of_one(float a) { return a * a * 0.5f + a; }
static __attribute__((noinline)) void of_many(const float *restrict from, float *restrict to)
{
    for (int i = 0; i < 64; i++) to[i] = from[i] * from[i] * 0.5f + from[i];
}
XPU_KERNEL
{
    const float *x = buffers[0];
    float *y = buffers[1];
    for (int64_t i = 0; i + XPU_AT_ONCE <= sizes[0]; i += XPU_AT_ONCE) {
        if (XPU_AT_ONCE == 1) y[i] = of_one(x[i]);
        else of_many(x + i, y + i);
    }
}
"""


class Calls(Keeps):
    name = "calls"
    parameters = ("at_once",)
    launch = Design.launch

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, CALLS)


ONE, ALL = Member("one", {"at_once": 1}), Member("all", {"at_once": 64})

MANY, FEW = (
    Member("many", {"values": 140, "threads": 1024}),
    Member("few", {"values": 4, "threads": 64}),
)


@pytest.fixture
def built():
    """Build a design's family for a target, declared so; skip where there is no compiler."""

    def build(backend: str, target: str, design: type[Design], *declared, members=(FEW,)):
        registry = Registry.from_plugins([(backend, plugin(backend), "xpu-orchestrator")])
        registry = attrs.evolve(registry, designs={design.name: design()})
        try:
            targets = targets_of(registry, [target], backend)
        except (XpuBuildError, XpuConfigError) as error:
            pytest.skip(str(error))
        told = Declarations(
            unlowered=tuple(it for it in declared if isinstance(it, Unlowered)),
            unbounded=tuple(it for it in declared if isinstance(it, Unbounded)),
        )
        family = Family("f", design.name, ("n",), tuple(members), declared=told)
        building = Building(registry, Settings(families={"f": family}), BuildCache())
        [made] = building.run(building.steps([family], targets))
        return made

    return build


def gates(made: FamilyBuild) -> list[tuple[str, str, str]]:
    return [(one.gate, one.member, one.item) for one in made.findings]


@pytest.mark.parametrize(("backend", "target"), [("cuda", "sm_90"), ("hip", "gfx90a")])
def test_a_spill_fails_a_build_is_tracked_and_becomes_stale(built, backend, target) -> None:
    both = built(backend, target, Keeps, members=(MANY, FEW))
    assert both.has_failed
    [found] = both.findings
    assert isinstance(found, Finding)
    assert (found.gate, found.kernel, found.target) == ("spill", "f.many", target)
    spilled = both.members["many"].manifest.footprint.spill_bytes
    assert f"{spilled} bytes of registers" in found.figure
    told = Unlowered("issue 7", backend, "spill", (target,), ("many",))
    tracked = built(backend, target, Keeps, told, members=(MANY, FEW))
    assert (gates(tracked), tracked.has_failed) == ([("spill", "many", "issue 7")], False)
    mended = attrs.evolve(FEW, name="many")
    stale = built(backend, target, Keeps, told, members=(mended, FEW))
    assert (gates(stale), stale.has_failed) == ([("stale", "many", "")], True)


@pytest.mark.parametrize("target", ["native", "x86-64"])
def test_a_loop_that_calls_a_function_for_each_number_is_scalar(built, target) -> None:
    both = built("cpu", target, Calls, members=(ONE, ALL))
    assert (gates(both), both.has_failed) == ([("scalar-loop", "one", "")], True)
    told = Unlowered("issue 7", "cpu", "scalar-loop", (target,), ("one",))
    tracked = built("cpu", target, Calls, told, members=(ONE, ALL))
    assert (gates(tracked), tracked.has_failed) == ([("scalar-loop", "one", "issue 7")], False)
    mended = attrs.evolve(ALL, name="one")
    stale = built("cpu", target, Calls, told, members=(mended, ALL))
    assert (gates(stale), stale.has_failed) == ([("stale", "one", "")], True)


def test_a_target_that_the_compiler_does_not_know_is_stale(built) -> None:
    told = Unlowered("issue 7", "emulator", "spill", ("wave63",))
    made = built("emulator", "wave64", Keeps, told)
    assert (gates(made), made.has_failed) == ([("stale", "", "")], True)
    assert "names the target 'wave63', which" in made.findings[0].figure


def test_a_decorator_names_members_of_a_family_of_its_design(built) -> None:
    made = built("emulator", "wave64", Misnamed)
    assert [one.gate for one in made.findings] == ["stale"] * 3
    figures = [one.figure for one in made.findings]
    assert any(
        "names the member 'fw', which is not there in dialect 'simt'" in it for it in figures
    )
    assert any(
        "names the member 'fe', which is not there; did you mean 'few'" in it for it in figures
    )


def test_an_unbounded_launch_is_tracked_or_bounded(built) -> None:
    where = ("emulator", "wave64")
    open_ = built(*where, Open)
    assert (gates(open_), open_.has_failed) == ([("unbounded-launch", "few", "")], True)
    assert "tests/integration/test_gates_on_targets.py:" in open_.findings[0].figure
    assert open_.members["few"].manifest.footprint.pinned_block == 1024
    tracked = built(*where, Open, Unbounded("issue 7"))
    assert (gates(tracked), tracked.has_failed) == ([("unbounded-launch", "few", "issue 7")], False)
    bounded = built(*where, Bounded)
    assert (bounded.findings, bounded.has_failed) == ((), False)
    assert bounded.members["few"].manifest.footprint.pinned_block == 128
    stale = built(*where, Bounded, Unbounded("issue 7"))
    assert (gates(stale), stale.has_failed) == ([("stale", "", "")], True)


def test_a_member_for_waves_of_one_width_has_no_code_for_others(built) -> None:
    assert not built("emulator", "wave32", Narrow).has_failed
    refused = built("emulator", "wave64", Narrow)
    assert (gates(refused), refused.has_failed) == ([("no-code", "few", "")], True)
    assert "waves of 32 lanes, as it declares, and the target's have 64" in str(refused.findings[0])
    assert str(refused.findings[0]).count("or track it") == 1
    told = Unlowered("issue 7", "emulator", targets=("wave64",))
    for target in ("wave64", "wave32"):
        assert not built("emulator", target, Narrow, told).has_failed
