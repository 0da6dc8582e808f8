"""Whose target a name is."""

from __future__ import annotations

import pytest

from xpu.building import targets_of
from xpu.errors import XpuConfigError
from xpu.testing import NullBackend, registry_of
from xpu.testing.null_backend import NullCompiler


@pytest.fixture
def registry():
    return registry_of(NullBackend("c", print), NullBackend("simt", print, name="other"))


@pytest.mark.parametrize("backend", [None, "other"])
def test_a_backends_name_is_its_own_device(registry, backend):
    [target] = targets_of(registry, ["other"], backend)
    assert (target.backend.name, target.backend.dialect) == ("other", "simt")


def test_the_name_of_another_backend_than_the_one_named_is_refused(registry):
    with pytest.raises(XpuConfigError) as caught:
        targets_of(registry, ["other"], "null")
    told = "--target other is this machine's device of backend 'other', and --backend says 'null'"
    assert told in str(caught.value)


def test_the_nearest_name_that_a_compiler_knows_is_said(registry, monkeypatch):
    monkeypatch.setattr(NullCompiler, "targets", lambda _: ["level-1", "level-2", "part"])
    told = r"^--target {}: no compiler knows it; {}allowed: what a backend"
    for name, hint in (
        ("level-9", r"did you mean 'level-2'\? "),
        ("gpu", ""),
        ("nul", r".*'null'\? "),
    ):
        with pytest.raises(XpuConfigError, match=told.format(name, hint)):
            targets_of(registry, [name], None)


@pytest.mark.parametrize("backend", [None, "other"])
def test_an_empty_name_is_refused(registry, backend):
    with pytest.raises(XpuConfigError, match=r"^--target is empty; .*: null, other$"):
        targets_of(registry, ["null", ""], backend)


class Knowing(NullCompiler):
    def knows(self, target):
        return target == "one"


@pytest.mark.parametrize(
    ("compiler", "unknown"), [(Knowing, {"two"}), (NullCompiler, set())], ids=["all", "its own"]
)
def test_a_compiler_that_knows_its_own_target_alone_says_nothing_of_others(
    registry, monkeypatch, compiler, unknown
):
    monkeypatch.setattr(NullBackend, "compiler", lambda _: compiler({}))
    found = targets_of(registry, ["one", "two"], "null")
    assert {it.name for it in found if it.is_unknown} == unknown
