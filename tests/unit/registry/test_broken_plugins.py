"""One plugin that is broken, in every way there is, beside one that works."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xpu.model import Declarations, Member
from xpu.registry import Registry
from xpu.registry.contribution import Found
from xpu.registry.registry import assemble
from xpu.spec import KernelSource, hookimpl

Make = Callable[..., Any]


def _nothing(self: object) -> None:
    return None


def _beside_good(broken: object, good: object) -> Registry:
    return Registry.from_plugins([("broken", broken, "acme-broken"), ("good", good, "acme-good")])


def _record(registry: Registry, name: str = "broken") -> Any:
    return next(record for record in registry.records if record.name == name)


@pytest.mark.parametrize(
    "raised",
    [
        ImportError("libvendor.so.7: cannot open\nshared object file"),
        SyntaxError("invalid syntax"),
        SystemExit(3),
        GeneratorExit(),
        RecursionError("too deep"),
        BaseException("bare"),
    ],
)
def test_whatever_an_import_raises_is_a_record(
    raised: BaseException, plugin: Make, probe: Make
) -> None:
    def load() -> object:
        raise raised

    good = plugin(xpu_probes=[probe("fine")])
    registry = assemble(
        [Found("bad", "acme-bad", "bad", load), Found("good", "acme-good", "good", lambda: good)]
    )
    record = _record(registry, "bad")
    assert (record.state, record.stage, record.distribution) == ("failed", "import", "acme-bad")
    assert record.cause.startswith(type(raised).__name__)
    assert "\n" not in record.cause
    assert " ".join(str(raised).split()) in record.cause
    assert list(registry.probes) == ["fine"]


def test_an_exception_that_cannot_say_itself_is_a_record_too() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    def load() -> object:
        raise MuteError

    record = assemble([Found("bad", "acme", "bad", load)]).records[0]
    assert (record.state, record.cause) == ("failed", "MuteError")


def test_ctrl_c_is_not_a_plugins_failure() -> None:
    def load() -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assemble([Found("bad", "acme", "bad", load)])


@pytest.mark.parametrize("stated", [2, 0, "1", None])
def test_another_spec_version_is_incompatible_and_both_are_told(
    stated: object, plugin: Make, probe: Make
) -> None:
    called: list[int] = []
    old = plugin(xpu_probes=lambda: called.append(1))
    old.XPU_SPEC_VERSION = stated
    record = _record(_beside_good(old, plugin(xpu_probes=[probe("fine")])))
    assert (record.state, record.stage) == ("incompatible", "version")
    assert f"XPU_SPEC_VERSION {stated!r}" in record.cause
    assert "this XPU has 1" in record.cause
    assert "acme-broken" in record.cause
    assert not called


@pytest.mark.parametrize("stated", [{}, {"XPU_SPEC_VERSION": 1}])
def test_the_same_version_or_none_stated_is_loaded(stated: dict[str, int], plugin: Make) -> None:
    one = plugin(xpu_probes=[])
    one.__dict__.update(stated)
    assert _record(_beside_good(one, plugin())).state == "loaded"


def test_a_hook_of_no_known_name_is_refused_at_registration(plugin: Make, probe: Make) -> None:
    broken = plugin(xpu_probes=[probe("p")], xpu_backend=[])
    registry = _beside_good(broken, plugin(xpu_probes=[probe("fine")]))
    record = _record(registry)
    assert (record.state, record.stage) == ("failed", "register")
    assert "xpu_backend" in record.cause
    assert list(registry.probes) == ["fine"]


def test_a_hook_with_wrong_arguments_is_refused_at_registration(plugin: Make) -> None:
    def xpu_designs(device: object) -> list[object]:
        return []

    broken = types.SimpleNamespace(xpu_designs=hookimpl(xpu_designs))
    record = _record(_beside_good(broken, plugin()))
    assert (record.state, record.stage) == ("failed", "register")
    assert "device" in record.cause


def test_a_hook_that_lacks_its_marker_is_said(plugin: Make) -> None:
    broken = types.SimpleNamespace(xpu_designs=list)
    record = _record(_beside_good(broken, plugin()))
    assert (record.state, record.stage) == ("failed", "register")
    assert "xpu_designs is not marked" in record.cause
    assert "hookimpl" in record.cause


def test_nothing_counts_of_a_plugin_that_raises_in_its_last_hook(
    plugin: Make, backend: Make, design: Make, probe: Make
) -> None:
    def sources() -> Iterator[object]:
        yield KernelSource("simt", "text", design="d")
        raise OSError("kernels/missing.c")

    broken = plugin(
        xpu_backends=[backend("b")], xpu_designs=[design("d")], xpu_kernel_sources=sources
    )
    registry = _beside_good(broken, plugin(xpu_probes=[probe("fine")]))
    record = _record(registry)
    assert (record.state, record.stage) == ("failed", "xpu_kernel_sources")
    assert record.cause == "OSError: kernels/missing.c"
    assert not registry.backends
    assert not registry.designs
    assert not registry.kernel_sources
    assert list(registry.probes) == ["fine"]


@pytest.mark.parametrize(
    ("hook", "given", "said"),
    [
        ("xpu_backends", 7, "returned 7, not a list of Backend"),
        ("xpu_designs", "qgemm", "returned 'qgemm', not a list of Design"),
        ("xpu_probes", ["tile"], "gave 'tile', which is not a Probe"),
        ("xpu_problem_sources", [object], "which is not a ProblemSource"),
        ("xpu_config", [3], "gave 3, which is not a Path"),
        ("xpu_config", "families.toml", "returned 'families.toml', not a list of Path"),
        ("xpu_kernel_sources", [None], "gave None, which is not a KernelSource"),
        ("xpu_kernel_sources", [KernelSource("c", "")], "design is None, not a text"),
        (
            "xpu_kernel_sources",
            [KernelSource("c", "", design="d", preparation="text")],  # type: ignore[arg-type]
            "preparation is 'text', not a KernelSource or None",
        ),
        (
            "xpu_kernel_sources",
            [KernelSource("c", "", design="d", preparation=KernelSource("b", ""))],
            "its preparation is in dialect 'b', not 'c'",
        ),
        (
            "xpu_kernel_sources",
            [KernelSource("c", "", design="d", launch=7)],  # type: ignore[arg-type]
            "launch is 7, not a function or None",
        ),
    ],
)
def test_nonsense_from_a_hook_is_said(hook: str, given: Any, said: str, plugin: Make) -> None:
    record = _record(_beside_good(plugin(**{hook: given}), plugin()))
    assert (record.state, record.stage) == ("failed", hook)
    assert said in record.cause
    assert hook in record.cause


def test_a_class_in_place_of_its_instance_is_said(plugin: Make, probe: Make) -> None:
    record = _record(_beside_good(plugin(xpu_probes=[type(probe("p"))]), plugin()))
    assert "which is not a Probe" in record.cause


@pytest.mark.parametrize("name", ["", " ", None, 5])
def test_a_name_must_be_a_text(name: object, plugin: Make, backend: Make) -> None:
    record = _record(_beside_good(plugin(xpu_backends=[backend(name)]), plugin()))
    assert (record.state, record.stage) == ("failed", "xpu_backends")
    assert f"name is {name!r}" in record.cause


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"parameters": "tile_m"}, "parameters is 'tile_m', not a tuple of texts"),
        ({"problem": None}, "problem is None"),
        ({"dialects": _nothing}, "dialects() is None"),
        (
            {"declared": Declarations(max_threads="problem.m")},
            "declared max_threads: 'problem.m' is not constant",
        ),
        ({"declared": Declarations(wave="member.tile")}, "declared wave: 'member.tile' is not"),
        ({"declared": Declarations(requires=("member.x > 1",))}, "@requires: expression"),
        (
            {"declared": Declarations(members=(Member("a", {"x": 1}),))},
            "@instantiate('a'): allowed: dynamic_shared_bytes",
        ),
    ],
)
def test_what_a_design_announces_is_looked_at(
    attributes: dict[str, Any], said: str, plugin: Make, design: Make
) -> None:
    record = _record(_beside_good(plugin(xpu_designs=[design("d", **attributes)]), plugin()))
    assert (record.state, record.stage) == ("failed", "xpu_designs")
    assert said in record.cause


def test_a_design_that_forgets_an_attribute_is_said(plugin: Make, design: Make) -> None:
    forgetful = design("d")
    del type(forgetful).parameters
    record = _record(_beside_good(plugin(xpu_designs=[forgetful]), plugin()))
    assert "parameters is None" in record.cause


def test_a_config_file_that_is_not_there_is_said(tmp_path: Path, plugin: Make) -> None:
    record = _record(_beside_good(plugin(xpu_config=[tmp_path / "families.toml"]), plugin()))
    assert (record.state, record.stage) == ("failed", "xpu_config")
    assert str(tmp_path / "families.toml") in record.cause


def test_each_failing_plugin_is_one_warning(plugin: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="xpu"):
        _beside_good(plugin(xpu_probes=3), plugin())
    assert len(caplog.records) == 1
    said = caplog.records[0].getMessage()
    assert caplog.records[0].name == "xpu"
    for part in ("broken", "acme-broken", "failed", "xpu_probes"):
        assert part in said
