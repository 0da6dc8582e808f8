"""Plugins found through distributions on disk, and `XPU_PLUGINS`."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from importlib import metadata
from typing import Any

import pytest

from xpu.registry import Registry, default_registry, discover, load_plugins

PROBE = """
    from xpu.spec import Probe, hookimpl

    class Made(Probe):
        name = "{name}"
        summary = "one"

        def run(self, context):
            return ()

    @hookimpl
    def xpu_probes():
        return [Made()]
"""


def _states(registry: Registry) -> dict[str, str]:
    return {record.name: record.state for record in registry.records}


@pytest.fixture
def three(site: Any) -> Any:
    for name in ("granite", "marble", "slate"):
        module = f"reg_{name}"
        site.install(f"acme-{name}", {name: module}, **{module: PROBE.format(name=name)})
    return site


def test_a_module_with_hooks_is_loaded_through_its_entry_point(three: Any) -> None:
    registry = load_plugins(entry_points=three.points(), environ={})
    assert set(registry.probes) == {"granite", "marble", "slate"}
    record = registry.records[0]
    assert (record.name, record.distribution, record.state) == ("granite", "acme-granite", "loaded")


@pytest.mark.parametrize(
    "body", ["raise SystemExit(1)", "import no_such_module_at_all", "def f(:", "1 / 0"]
)
def test_a_module_that_breaks_at_import_does_not_stop_the_others(three: Any, body: str) -> None:
    three.install("acme-broken", {"broken": "reg_broken"}, reg_broken=body)
    registry = load_plugins(entry_points=three.points(), environ={})
    assert set(registry.probes) == {"granite", "marble", "slate"}
    record = next(it for it in registry.records if it.name == "broken")
    assert (record.state, record.stage) == ("failed", "import")
    assert record.distribution == "acme-broken"


@pytest.mark.parametrize("value", ["reg_nowhere", "reg_granite:missing", "not a module!"])
def test_an_entry_point_to_nowhere_is_a_record(three: Any, value: str) -> None:
    three.install("acme-nowhere", {"nowhere": value})
    registry = load_plugins(entry_points=three.points(), environ={})
    assert _states(registry)["nowhere"] == "failed"
    assert len(registry.probes) == 3


@pytest.mark.parametrize(
    ("variable", "loaded"),
    [
        ("", {"granite", "marble", "slate"}),
        (" , ,", {"granite", "marble", "slate"}),
        ("marble", {"marble"}),
        ("marble, slate", {"marble", "slate"}),
        ("-marble", {"granite", "slate"}),
        ("- marble,-slate", {"granite"}),
        ("marble,slate,-slate", {"marble"}),
    ],
)
def test_the_variable_admits_and_blocks(three: Any, variable: str, loaded: set[str]) -> None:
    registry = load_plugins(entry_points=three.points(), environ={"XPU_PLUGINS": variable})
    assert set(registry.probes) == loaded
    states = _states(registry)
    assert {name for name, state in states.items() if state == "loaded"} == loaded
    assert {state for name, state in states.items() if name not in loaded} <= {"blocked"}
    # Blocking is for what must not run: it is not even imported.
    assert {name for name in states if f"reg_{name}" in sys.modules} == loaded


def test_a_blocked_plugin_says_what_blocks_it_and_warns_of_nothing(
    three: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="xpu"):
        registry = load_plugins(entry_points=three.points(), environ={"XPU_PLUGINS": "-slate"})
    record = next(it for it in registry.records if it.name == "slate")
    assert (record.stage, record.cause) == ("XPU_PLUGINS", "XPU_PLUGINS blocks 'slate'")
    assert not caplog.records


@pytest.mark.parametrize("variable", ["-marbel", "granite,marbel"])
def test_an_unknown_name_in_the_variable_is_a_record_with_the_nearest(
    three: Any, variable: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="xpu"):
        registry = load_plugins(entry_points=three.points(), environ={"XPU_PLUGINS": variable})
    record = next(it for it in registry.records if it.name == "marbel")
    assert (record.state, record.stage) == ("failed", "XPU_PLUGINS")
    assert "did you mean 'marble'?" in record.cause
    assert [it.getMessage() for it in caplog.records] == [f"XPU_PLUGINS: {record.cause}"]


def test_one_module_through_two_distributions_is_one_record(
    three: Any, caplog: pytest.LogCaptureFixture
) -> None:
    three.install("xpu-orchestrator", {"granite": "reg_granite", "marble": " reg_marble "})
    registry = load_plugins(entry_points=three.points(), environ={})
    assert [(it.name, it.distribution, it.state) for it in registry.records] == [
        ("granite", "xpu-orchestrator", "loaded"),
        ("marble", "xpu-orchestrator", "loaded"),
        ("slate", "acme-slate", "loaded"),
    ]
    assert not caplog.records


def test_a_module_that_fails_through_two_distributions_fails_once(site: Any) -> None:
    site.install("one", {"bad": "reg_bad"}, reg_bad="1 / 0")
    site.install("two", {"bad": "reg_bad"})
    assert [it.state for it in load_plugins(entry_points=site.points(), environ={}).records] == [
        "failed"
    ]


def test_the_winner_of_a_conflict_does_not_depend_on_the_order_found(site: Any) -> None:
    for distribution in ("acme-b", "Acme_A", "xpu-orchestrator"):
        module = f"reg_{distribution.lower().replace('-', '_')}"
        site.install(distribution, {"same": module}, **{module: PROBE.format(name=distribution)})
    for order in itertools.permutations(site.points()):
        registry = load_plugins(entry_points=order, environ={})
        assert list(registry.probes) == ["xpu-orchestrator"]
        assert [(it.distribution, it.state) for it in registry.records] == [
            ("acme-a", "conflict"),
            ("acme-b", "conflict"),
            ("xpu-orchestrator", "loaded"),
        ]
        assert "acme-b or" not in registry.records[0].cause
        assert "uninstall xpu-orchestrator or acme-a" in registry.records[0].cause


def test_distributions_come_from_the_group_by_default(
    three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XPU_PLUGINS", raising=False)
    assert {"granite", "marble", "slate"} <= set(load_plugins().probes)
    monkeypatch.setenv("XPU_PLUGINS", "slate")
    assert set(load_plugins().probes) == {"slate"}


def test_torn_metadata_of_one_distribution_is_a_record(
    three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.install("acme-torn", {"torn": "reg_torn"})
    (three.folder / "acme_torn-1.0.dist-info" / "entry_points.txt").write_bytes(b"[xpu]\n\xff=\xfe")
    found = [*metadata.distributions(path=[str(three.folder)])]
    monkeypatch.setattr(metadata, "distributions", lambda **_: iter(found))
    registry = load_plugins(environ={})
    assert {"granite", "marble", "slate"} <= set(registry.probes)
    assert _states(registry)["acme-torn"] == "failed"


def test_the_registry_of_the_process_is_made_once_whoever_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Registry] = []
    barrier = threading.Barrier(4)

    def slow() -> Registry:
        made.append(Registry())
        threading.Event().wait(0.05)
        return made[-1]

    monkeypatch.setattr(discover, "load_plugins", slow)
    discover._loaded.cache_clear()
    got: list[Registry] = []

    def ask() -> None:
        barrier.wait()
        got.append(default_registry())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    discover._loaded.cache_clear()
    assert len(made) == 1
    assert all(one is made[0] for one in got)
    assert len(got) == 4
