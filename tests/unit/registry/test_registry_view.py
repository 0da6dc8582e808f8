"""What good plugins bring, look-ups, and two plugins that want one name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from xpu.errors import XpuConfigError, XpuPluginError
from xpu.model import DEVICE_FACT_NAMES, Family, Problem
from xpu.registry import Registry, bare
from xpu.spec import Argument, KernelSource, Launch, Preparation

Make = Callable[..., Any]


def test_everything_that_plugins_bring_is_there_by_name(
    tmp_path: Path, plugin: Make, backend: Make, design: Make, probe: Make, source: Make
) -> None:
    file = tmp_path / "families.toml"
    file.touch()
    added = KernelSource("simt", "text", design="d")
    first = plugin(xpu_backends=[backend("b", further_facts=("cores",))], xpu_config=[str(file)])
    second = plugin(
        xpu_designs=(design("d"), design("e")),
        xpu_probes=iter([probe("p")]),
        xpu_problem_sources={source("s")},
        xpu_kernel_sources=[added],
    )
    registry = Registry.from_plugins([("one", first, "dist-1"), ("two", second, "dist-2")])
    assert [(it.name, it.distribution, it.state) for it in registry.records] == [
        ("one", "dist-1", "loaded"),
        ("two", "dist-2", "loaded"),
    ]
    assert set(registry.backends) == {"b"}
    assert set(registry.designs) == {"d", "e"}
    assert set(registry.probes) == {"p"}
    assert set(registry.problem_sources) == {"s"}
    assert registry.config_files == (("one", file),)
    assert registry.kernel_sources == {("d", "simt"): added}
    assert registry.device_facts == DEVICE_FACT_NAMES | {"cores"}
    assert registry.dialects == {"c", "simt"}
    assert registry.missing == ()


def test_the_view_cannot_be_changed(plugin: Make, probe: Make) -> None:
    registry = Registry.from_plugins([("one", plugin(xpu_probes=[probe("p")]), "d")])
    with pytest.raises(TypeError):
        registry.probes["q"] = probe("q")  # type: ignore[index]
    with pytest.raises(AttributeError):
        registry.records = ()  # type: ignore[misc]


def test_a_hook_may_return_nothing(plugin: Make) -> None:
    registry = Registry.from_plugins([("one", plugin(xpu_probes=lambda: None), "d")])
    assert registry.records[0].state == "loaded"


@pytest.mark.parametrize("kind", ["backend", "design", "probe"])
def test_a_look_up_gives_the_nearest_name(
    kind: str, plugin: Make, backend: Make, design: Make, probe: Make
) -> None:
    made = {
        "xpu_backends": [backend("granite")],
        "xpu_designs": [design("granite")],
        "xpu_probes": [probe("granite"), probe("marble")],
    }
    registry = Registry.from_plugins([("one", plugin(**made), "d"), ("bad", plugin(xpu_x=1), "e")])
    assert getattr(registry, kind)("granite").name == "granite"
    with pytest.raises(XpuConfigError) as raised:
        getattr(registry, kind)("granit")
    said = str(raised.value)
    assert f"no {kind} is called 'granit'" in said
    assert "did you mean 'granite'?" in said
    assert "bad (failed)" in said


def test_a_source_is_the_designs_own_or_an_added_one(plugin: Make, design: Make) -> None:
    own, added = KernelSource("c", "own"), KernelSource("simt", "added", design="d")
    family = plugin(xpu_designs=[design("d", source=lambda _self, _dialect: own)])
    more = plugin(xpu_kernel_sources=[added, KernelSource("simt", "orphan", design="gone")])
    registry = Registry.from_plugins([("more", more, "m"), ("family", family, "f")])
    assert registry.source_for("d", "c") is own
    assert registry.source_for("d", "simt") is added
    assert registry.source_for("d", "other") is None
    assert registry.source_for("gone", "simt") is None


def test_a_familys_design_is_as_its_constants_make_it(plugin: Make, design: Make) -> None:
    half = design("d", arguments=(Argument("y", "float16", "write"),))
    whole = design("d", for_constants=lambda _self, constants: half if "y" in constants else _self)
    registry = Registry.from_plugins([("family", plugin(xpu_designs=[whole]), "f")])
    narrow = Family("f", "d", ("n",), (), constants={"y": "float16"})
    assert registry.design_of(narrow).arguments == half.arguments
    assert bare(registry.design_of(attrs.evolve(narrow, constants={}))) is whole
    of_any = Registry.from_plugins([("family", plugin(xpu_designs=[design("d")]), "f")])
    assert of_any.design_of(narrow).name == "d"


class Repack(Preparation):
    argument = "y"

    def source(self, dialect: str) -> KernelSource:
        return KernelSource(dialect, "repack")

    def sizes(self, raw_shape: Any, constants: Any) -> tuple[int, ...]:
        return raw_shape

    def prepared_bytes(self, raw_shape: Any, constants: Any) -> int:
        return 1


def test_what_a_dialect_needs_comes_from_whoever_brings_it(plugin: Make, design: Make) -> None:
    own_launch, added_launch = Launch(grid=(1, 2, 3)), Launch(grid=(4, 5, 6), block=(7, 1, 1))
    family = design("d", preparation=Repack(), launch=lambda *_given: own_launch)
    repack = KernelSource("simt", "their repack")
    more = [
        KernelSource(
            "simt",
            "added",
            design="d",
            preparation=repack,
            launch=lambda member, problem: added_launch if member["a"] == problem.n else None,
        ),
        KernelSource("plain", "added", design="d"),
    ]
    registry = Registry.from_plugins(
        [
            ("family", plugin(xpu_designs=[family, design("bare")]), "f"),
            ("more", plugin(xpu_kernel_sources=more), "m"),
        ]
    )
    member, problem = {"a": 9}, Problem(n=9)
    of_d = Family("f", "d", ("n",), ())
    assert registry.preparation_for("d", "c") == KernelSource("c", "repack")
    assert registry.launch_for(of_d, "c", member, problem) is own_launch
    assert registry.preparation_for("d", "simt") is repack
    assert registry.launch_for(of_d, "simt", member, problem) is added_launch
    assert registry.preparation_for("d", "plain") is None
    assert registry.launch_for(of_d, "plain", member, problem) is own_launch
    assert registry.preparation_for("d", "spoken by nobody") is None
    assert registry.preparation_for("bare", "c") is None


def test_a_preparation_that_cannot_give_its_source_is_named(plugin: Make, design: Make) -> None:
    class Torn(Repack):
        def source(self, dialect: str) -> KernelSource:
            raise FileNotFoundError("kernels/prepare.c")

    family = plugin(xpu_designs=[design("d", preparation=Torn())])
    registry = Registry.from_plugins([("family", family, "f")])
    with pytest.raises(XpuPluginError, match=r"'d': Torn\.source\(\) .*kernels/prepare\.c"):
        registry.preparation_for("d", "c")


def test_a_design_that_cannot_give_its_source_is_named(plugin: Make, design: Make) -> None:
    def missing(self: object, dialect: str) -> KernelSource:
        raise FileNotFoundError("kernels/q.c")

    family = plugin(xpu_designs=[design("d", source=missing)])
    registry = Registry.from_plugins([("family", family, "f")])
    with pytest.raises(XpuPluginError, match=r"'d': MadeDesign\.source\(\) .*kernels/q\.c"):
        registry.source_for("d", "c")


@pytest.mark.parametrize(
    ("hook", "fixture", "kind", "field"),
    [
        ("xpu_backends", "backend", "backend", "backends"),
        ("xpu_designs", "design", "design", "designs"),
        ("xpu_probes", "probe", "probe", "probes"),
        ("xpu_problem_sources", "source", "problem source", "problem_sources"),
    ],
)
def test_two_that_bring_one_name_conflict_and_the_later_gives_nothing(
    hook: str,
    fixture: str,
    kind: str,
    field: str,
    plugin: Make,
    probe: Make,
    request: pytest.FixtureRequest,
) -> None:
    make = request.getfixturevalue(fixture)
    ours, theirs = make("same"), make("same")
    first = plugin(**{hook: [ours]})
    second = plugin(**({"xpu_probes": [probe("extra")]} | {hook: [make("other"), theirs]}))
    registry = Registry.from_plugins([("zeta", first, "dist-z"), ("alpha", second, "dist-a")])
    record = next(it for it in registry.records if it.name == "alpha")
    assert (record.state, record.stage) == ("conflict", kind)
    for part in (f"{kind} 'same'", "'zeta' of dist-z", "'alpha' of dist-a", "XPU_PLUGINS=-zeta"):
        assert part in record.cause
    assert getattr(registry, field) == {"same": ours}
    assert "extra" not in registry.probes


def test_two_modules_under_one_entry_point_name_conflict(plugin: Make, probe: Make) -> None:
    first, second = plugin(xpu_probes=[probe("p")]), plugin(xpu_probes=[probe("q")])
    registry = Registry.from_plugins([("same", first, "dist-1"), ("same", second, "dist-2")])
    assert [it.state for it in registry.records] == ["loaded", "conflict"]
    cause = registry.records[1].cause
    assert "entry point 'same'" in cause
    assert "uninstall dist-1 or dist-2" in cause
    assert list(registry.probes) == ["p"]


def test_one_that_fails_leaves_its_name_to_the_next(plugin: Make, probe: Make) -> None:
    failing, working = plugin(xpu_probes=3), plugin(xpu_probes=[probe("p")])
    registry = Registry.from_plugins([("same", failing, "dist-1"), ("same", working, "dist-2")])
    assert [it.state for it in registry.records] == ["failed", "loaded"]
    assert list(registry.probes) == ["p"]


def test_one_that_brings_a_name_twice_conflicts_with_itself(plugin: Make, probe: Make) -> None:
    registry = Registry.from_plugins([("one", plugin(xpu_probes=[probe("p"), probe("p")]), "d")])
    record = registry.records[0]
    assert (record.state, record.stage) == ("conflict", "probe")
    assert "brings probe 'p' twice" in record.cause


def test_an_added_source_never_takes_the_designs_own_dialect(plugin: Make, design: Make) -> None:
    family = ("family", plugin(xpu_designs=[design("d")]), "f")
    thief = (
        "thief",
        plugin(xpu_kernel_sources=[KernelSource("c", "stolen", design="d")]),
        "t",
    )
    for order in itertools.permutations([family, thief]):
        registry = Registry.from_plugins(order)
        assert {it.name: it.state for it in registry.records} == {
            "family": "loaded",
            "thief": "conflict",
        }
        assert not registry.kernel_sources


def test_the_same_object_twice_is_one_plugin(plugin: Make, probe: Make) -> None:
    one = plugin(xpu_probes=[probe("p")])
    registry = Registry.from_plugins([("one", one, "folder"), ("one", one, "root")])
    assert [(it.distribution, it.state) for it in registry.records] == [("folder", "loaded")]
