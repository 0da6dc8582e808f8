"""A fault in what a plugin brings names the plugin, and what is raised on purpose passes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from xpu.errors import XpuBuildError, XpuConfigError, XpuLaunchException, XpuPluginError
from xpu.model import DeviceFacts, Family, Problem
from xpu.registry import Registry, bare, blaming, guarded, owner_of
from xpu.spec import (
    Argument,
    Backend,
    CompiledCode,
    Compiler,
    Design,
    Device,
    KernelSource,
    Launch,
    Preparation,
    TimerTier,
)

Make = Callable[..., Any]
PROBLEM = Problem(m=2, n=3)


def concrete(base: type, **attributes: Any) -> Any:
    """Make an object of an abstract class, every method returning None unless given."""
    abstract: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    body: dict[str, Any] = {name: lambda self, *_, **__: None for name in abstract}
    return type(f"Acme{base.__name__}", (base,), body | attributes)()


def gives(value: object) -> Callable[..., Any]:
    return lambda self, *_, **__: value


def raises(error: BaseException) -> Callable[..., Any]:
    def method(self: object, *_: object, **__: object) -> None:
        raise error

    return method


@pytest.fixture
def brought(plugin: Make, design: Make, backend: Make, source: Make) -> Make:
    """Return what is looked up in a registry of one plugin that brings it."""

    def make(kind: str, **attributes: Any) -> Any:
        made = {"design": design, "backend": backend, "problem_source": source}[kind]
        hook = f"xpu_{kind}s"
        one = plugin(**{hook: [made("d", **attributes)]})
        registry = Registry.from_plugins([("acme", one, "acme-xpu")])
        return getattr(registry, kind)("d")

    return make


def said(error: pytest.ExceptionInfo[XpuPluginError]) -> str:
    return str(error.value)


@pytest.mark.parametrize("error", [ValueError("two\nlines"), SystemExit(3), KeyError("w")])
def test_what_a_design_raises_names_plugin_distribution_method_cause_and_what_to_do(
    error: BaseException, brought: Make
) -> None:
    one = brought("design", shapes=raises(error))
    with pytest.raises(XpuPluginError) as raised:
        one.shapes(PROBLEM, {})
    cause = " ".join(str(error).split())
    assert said(raised).startswith(
        f"plugin 'acme' of acme-xpu: design 'd': MadeDesign.shapes() raised "
        f"{type(error).__name__}: {cause}; "
    )
    assert "XPU_PLUGINS=-acme" in said(raised)
    assert "XPU_TRACEBACK=1" in said(raised)
    assert raised.value.__cause__ is error


def test_a_method_that_takes_other_arguments_is_the_plugins_fault(brought: Make) -> None:
    one = brought("design", data=lambda self, problem: {})
    with pytest.raises(XpuPluginError, match=r"MadeDesign\.data\(\) raised TypeError: .*argument"):
        one.data(PROBLEM, {}, None)


def test_what_is_raised_on_purpose_or_is_nobodys_fault_passes(brought: Make) -> None:
    for error in (XpuLaunchException("no such device"), XpuBuildError("no compiler")):
        with pytest.raises(type(error)) as raised:
            brought("backend", open=raises(error)).open(0)
        assert raised.value is error
    for error in (KeyboardInterrupt(), MemoryError("3 TiB")):
        with pytest.raises(type(error)):
            brought("design", data=raises(error)).data(PROBLEM, {}, None)


def test_a_fact_that_is_none_is_the_backends_fault_and_a_damaged_file_is_not(
    brought: Make,
) -> None:
    with pytest.raises(XpuPluginError, match="a fact is a whole number"):
        brought("backend", devices=lambda _: [DeviceFacts(multiprocessors="8")]).devices()
    reader = brought("problem_source", open=raises(XpuConfigError("byte 7")))
    with pytest.raises(XpuConfigError, match="byte 7"):
        reader.open("model")


class Unfinished(Device):
    """A device half whose author forgot the rest."""


def test_an_abstract_method_that_is_missing_is_named(brought: Make) -> None:
    one = brought("backend", open=lambda self, index: Unfinished())
    with pytest.raises(XpuPluginError, match=r"MadeBackend\.open\(\) .*abstract .*foreign_load"):
        one.open(0)


def test_a_device_is_at_arms_length_too_and_its_launches_and_clock_are_not(
    brought: Make,
) -> None:
    clock, launch = concrete(TimerTier), object()
    device = concrete(
        Device,
        to_host=raises(AttributeError("no 'stream'")),
        timer=gives(clock),
        launcher=gives(launch),
    )
    opened = brought("backend", open=gives(device)).open(0)
    assert isinstance(opened, Device)
    assert bare(opened) is device
    assert opened.timer() is clock
    assert opened.launcher(None, None, (), ()) is launch
    with pytest.raises(XpuPluginError, match=r"backend 'd': AcmeDevice\.to_host\(\) .*'stream'"):
        opened.to_host(None)
    with pytest.raises(XpuPluginError, match=r"AcmeDevice\.facts raised AttributeError"):
        opened.facts  # noqa: B018 - reading it is what fails


@pytest.mark.parametrize(
    ("kind", "method", "value", "given", "words"),
    [
        ("backend", "open", None, (0,), "Device"),
        ("backend", "compiler", None, (), "Compiler"),
        ("backend", "availability", True, (), "Availability"),
        ("backend", "devices", None, (), "DeviceFacts"),
        ("backend", "devices", ["one"], (), "DeviceFacts"),
        ("design", "verify", None, (PROBLEM, {}, {}, {}, None), "str"),
        ("design", "verify", True, (PROBLEM, {}, {}, {}, None), "str"),
        ("design", "check_problem", None, (PROBLEM, {}), "str"),
        ("design", "source", "text", ("c",), "KernelSource"),
        ("design", "launch", (1, 2, 3), ("c", {}, PROBLEM), "Launch"),
        ("design", "data", None, (PROBLEM, {}, None), "Mapping"),
        ("design", "shapes", None, (PROBLEM, {}), "for each of y"),
        ("design", "shapes", {"x": (1,)}, (PROBLEM, {}), "for each of y"),
        ("design", "shapes", {"y": (1.5,)}, (PROBLEM, {}), "for each of y"),
        ("design", "shapes", {"y": 4}, (PROBLEM, {}), "for each of y"),
        ("design", "staging", None, ("c", {}), "a sequence of Preparation"),
        ("design", "staging", ("x",), ("c", {}), "a sequence of Preparation"),
        ("design", "operations", 1.5, (PROBLEM,), "whole number"),
        ("backend", "library", None, ("gemm",), "str"),
        ("design", "bytes_touched", None, (PROBLEM, {}), "whole number"),
        ("problem_source", "open", None, ("model",), "OpenModel"),
    ],
)
def test_a_result_that_is_not_what_was_promised_is_the_methods_fault(
    kind: str, method: str, value: Any, given: tuple[Any, ...], words: str, brought: Make
) -> None:
    one = brought(kind, **{method: gives(value)})
    with pytest.raises(XpuPluginError) as raised:
        getattr(one, method)(*given)
    assert f".{method}() gave {value!r}; it must be" in said(raised)
    assert words in said(raised)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (KernelSource("simt", "x"), "it must be in dialect 'c'"),
        (KernelSource("c", 3), "texts of UTF-8, not 3"),
        (KernelSource("c", "\ud800"), r"texts of UTF-8, not '\ud800'"),
        (KernelSource("c", "x", {"a.h": b"x"}), "texts of UTF-8, not b'x'"),
        (KernelSource("c", "x", ["a.h"]), "texts of UTF-8, not None"),
        (KernelSource("c", "x", launch=7), "a function or None, not 7"),
    ],
)
def test_a_source_that_cannot_be_one_is_the_methods_fault(
    given: KernelSource, words: str, brought: Make
) -> None:
    with pytest.raises(XpuPluginError) as raised:
        brought("design", source=gives(given)).source("c")
    assert f"{words}; mend it there" in said(raised)


@pytest.mark.parametrize("made", [None, [], ["code"], [CompiledCode(b"", None)] * 2])
def test_a_batch_that_is_not_one_result_for_each_unit_is_the_compilers_fault(
    made: Any, brought: Make
) -> None:
    one = brought("backend", compiler=gives(concrete(Compiler, compile=gives(made)))).compiler()
    with pytest.raises(XpuPluginError, match=r"AcmeCompiler\.compile\(\) gave .*1 CompiledCode"):
        one.compile(["unit"], "here", deadline_s=1.0)


def test_a_preparation_is_at_arms_length(brought: Make) -> None:
    preparation = concrete(Preparation, argument="y", prepared_bytes=gives(None))
    one = brought("design", preparation=preparation).preparation
    assert isinstance(one, Preparation)
    assert one.argument == "y"
    with pytest.raises(XpuPluginError, match=r"AcmePreparation\.prepared_bytes\(\) gave None"):
        one.prepared_bytes((3,), {})
    with pytest.raises(XpuPluginError, match="whole numbers"):
        one.sizes((3,), {})


def test_everything_that_runs_before_a_launch_is_at_arms_length(brought: Make) -> None:
    stages = [
        concrete(Preparation, argument=name, prepared_bytes=gives(None)) for name in ("w", "x")
    ]
    for given in (stages, tuple(stages)):
        found = brought("design", staging=gives(given)).staging("c", {})
        assert [each.argument for each in found] == ["w", "x"]
        for one in found:
            with pytest.raises(XpuPluginError, match=r"prepared_bytes\(\) gave None"):
                one.prepared_bytes((3,), {})
    with pytest.raises(XpuPluginError, match=r"staging\(\) gave .*; it must be a sequence"):
        brought("design", staging=gives(stages[0])).staging("c", {})


def test_the_launch_of_an_added_source_is_its_own_plugins(plugin: Make, design: Make) -> None:
    added = KernelSource("simt", "text", design="d", launch=lambda member, problem: member["no"])
    registry = Registry.from_plugins(
        [
            ("family", plugin(xpu_designs=[design("d", launch=gives(Launch()))]), "f"),
            ("acme", plugin(xpu_kernel_sources=[added]), "acme-xpu"),
        ]
    )
    with pytest.raises(XpuPluginError, match=r"'acme' of acme-xpu: .*launch\(\) raised KeyError"):
        registry.launch_for(Family("f", "d", ("n",), ()), "simt", {}, PROBLEM)


def test_what_is_right_comes_through_as_it_is(brought: Make) -> None:
    right = Launch(grid=(4, 5, 6))
    one = brought("design", launch=gives(right), check_problem=gives(""), verify=gives("off by 2"))
    assert isinstance(one, Design)
    assert one.launch("c", {}, PROBLEM) is right
    assert one.check_problem(PROBLEM, {}) == ""
    assert one.verify(PROBLEM, {}, {}, {}, None) == "off by 2"
    assert one.arguments == (Argument("y", "float32", "write"),)
    assert isinstance(brought("backend"), Backend)


def test_the_registry_keeps_what_was_brought(plugin: Make, design: Make) -> None:
    own = design("d")
    registry = Registry.from_plugins([("acme", plugin(xpu_designs=[own]), "acme-xpu")])
    assert registry.designs["d"] is own
    assert bare(registry.design("d")) is own
    assert bare(own) is own
    assert owner_of(own) is None
    assert Registry(designs={"d": own}).design("d") is own


def test_a_stand_in_of_a_stand_in_names_the_one_that_brought_it_first(
    brought: Make,
) -> None:
    one = brought("design", shapes=raises(ValueError("no")))
    again = guarded(one, owner_of(brought("backend")))
    with pytest.raises(XpuPluginError, match=r"^plugin 'acme' of acme-xpu: design 'd': Made"):
        again.shapes(PROBLEM, {})


def test_code_that_runs_for_a_device_can_be_blamed_on_it(brought: Make) -> None:
    opened = brought("backend", open=gives(concrete(Device))).open(0)
    words = r"AcmeDevice\.a launch raised ZeroDivisionError"
    with pytest.raises(XpuPluginError, match=words), blaming(opened, "a launch"):
        1 / 0  # noqa: B018 - it is what fails
    with pytest.raises(ZeroDivisionError), blaming(bare(opened), "a launch"):
        1 / 0  # noqa: B018 - the same


@pytest.mark.parametrize("is_asked", [True, False])
def test_where_it_was_raised_is_shown_when_asked_for(
    is_asked: bool, brought: Make, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    caplog.set_level(logging.WARNING)
    if is_asked:
        monkeypatch.setenv("XPU_TRACEBACK", "1")
    with pytest.raises(XpuPluginError):
        brought("design", shapes=raises(ValueError("no"))).shapes(PROBLEM, {})
    assert ("in method" in caplog.text) == is_asked
