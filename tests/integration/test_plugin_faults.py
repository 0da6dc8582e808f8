"""A plugin that fails is named on the command line: whose it is, which method, and why."""

from __future__ import annotations

import json
from pathlib import Path

import faulty_backends as faulty
import first_party
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem
from xpu.cli.app import run
from xpu.errors import XpuPluginError
from xpu.registry import Registry
from xpu.spec import KernelSource, Preparation, hookimpl

MEMBERS = {"a": {"mode": toy.RIGHT}, "b": {"mode": toy.RIGHT, "grain": 512}}


def spoilt(*_given, **_named):
    raise KeyError("weights")


class AsItIs(Preparation):
    argument = "x"

    def source(self, dialect):
        copy = (
            "float *y = buffers[1]; const float *x = buffers[0];\n"
            "for (int64_t i; (i = xpu_take(team, 1)) < sizes[0];) y[i] = x[i];"
        )
        return KernelSource(dialect, f'#include "xpu_c.h"\nXPU_KERNEL {{ {copy} }}')

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4 * raw_shape[0]


def prepared(**broken):
    return {"preparation": type("Torn", (AsItIs,), broken)()}


class Designs:
    """A plugin that brings the toy design with some of its methods exchanged."""

    def __init__(self, attributes):
        self._design = type("Torn", (toy.Toy,), attributes)

    @hookimpl
    def xpu_designs(self):
        return [self._design()]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch, quiet_machine) -> Path:
    monkeypatch.setenv("XPU_CONFIG_DIR", str(tmp_path))
    toy.write_family(tmp_path, MEMBERS)
    (tmp_path / "probes.toml").write_text(
        '[probes.each]\nfamilies = ["toy"]\nproblems = ["2000", "3000"]\n'
    )
    return tmp_path


@pytest.fixture
def xpu(directory, monkeypatch, capsys):
    """Run a command with a torn design or backend; return its status and both outputs."""

    def xpu(*arguments, design=None, backend=None):
        cpu = faulty.Plugin(backend) if backend else first_party.plugin("cpu")
        registry = Registry.from_plugins(
            [
                ("acme_cpu", cpu, "acme-cpu-xpu"),
                ("acme", Designs(design or {}), "acme-xpu"),
                ("other", Designs({"name": "other"}), "other-xpu"),
                ("each", toy.EachPlugin(), "each"),
            ]
        )
        monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
        monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)
        capsys.readouterr()
        status = run(list(arguments))
        return status, *capsys.readouterr()

    return xpu


def blames(plugin: str, method: str, cause: str, text: str) -> None:
    """See that the text names all that there is to know, and no fault of the core."""
    brings = {"acme": "design 'toy'", "acme_cpu": "backend 'cpu'"}[plugin]
    distribution = {"acme": "acme-xpu", "acme_cpu": "acme-cpu-xpu"}[plugin]
    assert f"plugin '{plugin}' of {distribution}: {brings}: {method} {cause}" in text
    assert f"XPU_PLUGINS=-{plugin}" in text
    assert "XPU_TRACEBACK=1 shows where" in text
    assert "fault of XPU's own" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("broken", "method", "cause"),
    [
        ({"shapes": spoilt}, "Torn.shapes()", "raised KeyError: 'weights'"),
        ({"shapes": lambda *_: {"x": (9,)}}, "Torn.shapes()", "gave {'x': (9,)}; it must be"),
        ({"shapes": lambda _self, problem: {}}, "Torn.shapes()", "raised TypeError: "),
        ({"data": spoilt}, "Torn.data()", "raised KeyError: 'weights'"),
        ({"data": lambda *_: {}}, "Torn.data()", "gave what no launch can read: nothing for x"),
        ({"data": lambda *_: {"x": [1.0]}}, "Torn.data()", "gave what no launch can read: 'x' is"),
        ({"verify": spoilt}, "Torn.verify()", "raised KeyError: 'weights'"),
        ({"verify": lambda *_: None}, "Torn.verify()", "gave None; it must be a str"),
        ({"verify": lambda *_: True}, "Torn.verify()", "gave True; it must be a str"),
        ({"source": spoilt}, "Torn.source()", "raised KeyError: 'weights'"),
        ({"launch": spoilt}, "Torn.launch()", "raised KeyError: 'weights'"),
        ({"launch": lambda *_: None}, "Torn.launch()", "gave None; it must be a Launch"),
        ({"check_problem": spoilt}, "Torn.check_problem()", "raised KeyError: 'weights'"),
        ({"bytes_touched": spoilt}, "Torn.bytes_touched()", "raised KeyError: 'weights'"),
        (prepared(source=spoilt), "Torn.source()", "raised KeyError: 'weights'"),
        (prepared(sizes=spoilt), "Torn.sizes()", "raised KeyError: 'weights'"),
        (prepared(prepared_bytes=lambda *_: None), "Torn.prepared_bytes()", "gave None; it must"),
    ],
)
@pytest.mark.parametrize("command", ["bench toy 2000", "probe run"])
def test_a_design_that_fails_is_named_with_the_method(xpu, command, broken, method, cause):
    status, out, err = xpu(*command.split(), design=broken)
    assert status == 1
    blames("acme", method, cause, err if command.startswith("bench") else out)


def test_a_figure_that_a_design_cannot_give_is_its_fault(xpu):
    status, _, err = xpu("bench", "toy", "2000", design={"operations": spoilt})
    assert status == 1
    blames("acme", "Torn.operations()", "raised KeyError: 'weights'", err)


@pytest.mark.parametrize(
    ("backend", "method", "cause"),
    [
        (faulty.OpensNothing, "OpensNothing.open()", "gave None; it must be a Device"),
        (faulty.OpensUnfinished, "OpensUnfinished.open()", "raised TypeError: Can't instantiate"),
        (faulty.HasNoFacts, "CpuDevice.facts", "raised AttributeError"),
        (faulty.Identifies, "CpuDevice.identity()", "raised AttributeError: no such thing"),
        (faulty.Times, "CpuDevice.timer()", "raised AttributeError: no such thing"),
        (faulty.Compiles, "CpuCompiler.compile()", "gave None; it must be 2 CompiledCode"),
        (faulty.Targets, "CpuCompiler.native_target()", "raised AttributeError: no such thing"),
        (faulty.Loads, "CpuDevice.load()", "raised AttributeError: no such thing"),
        (faulty.Launches, "CpuDevice.launcher()", "raised AttributeError: no such thing"),
        (faulty.Reads, "CpuDevice.to_host()", "raised AttributeError: no such thing"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_backend_that_fails_is_named_with_the_method(
    xpu, backend, method, cause, is_known, directory, monkeypatch
):
    if is_known and backend is not faulty.Compiles:
        assert xpu("bench", "toy", "2000")[0] == 0  # code that ran well runs in this process
    else:
        monkeypatch.setenv("XPU_BUILD_CACHE", str(directory / "build"))
    status, _, err = xpu("bench", "toy", "2000", backend=backend)
    assert status == 1
    blames("acme_cpu", method, cause, err)
    assert "wrong" not in err
    assert xpu("bench", "toy", "2000")[0] == 0, "it condemned the members"


def test_a_backend_that_fails_in_the_other_half_does_not_matter(xpu):
    assert xpu("build", "toy", backend=faulty.OpensNothing)[0] == 0


@pytest.mark.parametrize(
    ("broken", "method"),
    [
        ({"source": spoilt}, "Torn.source()"),
        ({"staging": spoilt}, "Torn.staging()"),
        (prepared(source=spoilt), "Torn.source()"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_family_at_fault_costs_the_build_of_others_nothing(
    xpu, directory, broken, method, is_first
):
    torn = (directory / "families.toml").read_text()
    other = torn.replace("toy", "other")
    (directory / "families.toml").write_text(torn + other if is_first else other + torn)
    status, out, err = xpu("build", "--target", "cpu", "--json", design=broken)
    assert status == 1
    rows = {(row["family"], row["member"]): row for row in json.loads(out)}
    for name in MEMBERS:
        assert rows["other", name]["status"] in ("built", "cached")
        blames("acme", method, "raised KeyError: 'weights'", rows["toy", name]["error"])
    blames("acme", method, "raised KeyError: 'weights'", err)


def test_facts_that_are_none_are_the_backends_fault_and_other_devices_are_listed(xpu, monkeypatch):
    status, out, err = xpu("device", "--json", backend=faulty.HasTornFacts)
    assert (status, json.loads(out)) == (1, [])
    blames("acme_cpu", "HasTornFacts.devices()", "raised XpuConfigError: a fact is a whole", err)
    status, out, _ = xpu("doctor", "--json", backend=faulty.HasTornFacts)
    assert status == 0
    [backend] = json.loads(out)["backends"]
    blames("acme_cpu", "HasTornFacts.devices()", "raised XpuConfigError", backend["reason"])


def test_where_it_was_raised_is_shown_when_asked_for(xpu, monkeypatch, caplog):
    monkeypatch.setenv("XPU_TRACEBACK", "1")
    xpu("probe", "run", design={"data": spoilt})
    assert "in spoilt" in caplog.text


def test_a_member_whose_numbers_cannot_be_checked_costs_the_others_nothing(xpu, directory):
    def verify(self, problem, constants, inputs, outputs, rng):
        return toy.Toy.verify(self, problem, constants, inputs, outputs, rng) and spoilt()

    toy.write_family(directory, {**MEMBERS, "off": {"mode": toy.WRONG}})
    status, out, _ = xpu("bench", "toy", "2000", "--json", design={"verify": verify})
    assert status == 0
    members = {one["name"]: one for one in json.loads(out)["members"]}
    assert members["off"]["status"] == "failed"
    blames("acme", "Torn.verify()", "raised KeyError: 'weights'", members["off"]["note"])
    assert {members[name]["status"] for name in "ab"} <= {"survivor", "left"}


def test_a_program_has_the_same_error_with_its_cause(directory):
    torn = Registry.from_plugins(
        [("cpu", faulty.Plugin(faulty.Broken), "cpu"), ("acme", Designs({"data": spoilt}), "x")]
    )
    with Orchestrator(registry=torn) as one:
        with pytest.raises(XpuPluginError, match=r"Torn\.data\(\) raised KeyError") as raised:
            one.choose("toy", Problem(n=2000))
        assert isinstance(raised.value.__cause__, KeyError)
        # Nothing of the trial is needed to serve.
        assert one.bind("toy", n=2000).member == "a"
