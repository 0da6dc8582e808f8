"""Editing one member in a layer of configuration compiles and times what it touches, no more."""

from __future__ import annotations

from pathlib import Path

import first_party
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem
from xpu.adaptor import BuildCache
from xpu.choice.trial import Trial
from xpu.orchestrator import Building, chosen_families, settings_for, targets_of
from xpu.testing import NullBackend, NullLaunch, registry_of
from xpu.testing.null_backend import NullCompiler

FAMILIES = """
[families.a]
design = "toy"
problem = ["n"]
default = { c = "slow" }
members = [{ name = "slow", mode = 0, grain = 7 }, { name = "fast", mode = 0, grain = 70 }]

[families.b]
design = "toy"
problem = ["n"]
default = { c = "slow" }
members = [{ name = "slow", mode = 0, grain = 9 }, { name = "fast", mode = 0, grain = 50 }]

[families.c]
design = "toy"
problem = ["n"]
members = [{ name = "one", mode = 0, grain = 3 }, { name = "two", mode = 0, grain = 4 }]

[families.either]
problem = ["n"]
routes = [{ family = "b" }, { family = "a" }]
"""
NAMES = ("a", "b", "c", "either")
PROBLEM = Problem(n=100)


def triple(launch: NullLaunch) -> float:
    x, y = launch.buffers
    y[...] = 3 * x + 1
    return 7000.0 / int(launch.defines["XPU_GRAIN"])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are compiled."""
    seen: list[str] = []
    compile_all = NullCompiler.compile

    def watched(self, units, target, *, deadline_s):
        seen.extend(unit.kernel for unit in units)
        return compile_all(self, units, target, deadline_s=deadline_s)

    monkeypatch.setattr(NullCompiler, "compile", watched)
    return seen


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The trials that are run."""
    seen: list[int] = []
    run = Trial.run
    monkeypatch.setattr(Trial, "run", lambda self: seen.append(1) or run(self))
    return seen


def edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_only_its_family_and_what_its_answer_reaches_are_timed_again(
    tmp_path: Path, compiled, tried, quiet_machine
) -> None:
    registry = registry_of(NullBackend("c", triple), toy.Toy)
    base = tmp_path / "families.toml"

    def sources(text: str) -> tuple[dict[str, str], list[str], int]:
        base.write_text(text)
        compiled.clear(), tried.clear()
        with Orchestrator(
            tmp_path / "store", config=base, registry=registry, build_cache=tmp_path / "build"
        ) as orchestrator:
            found = {name: orchestrator.choose(name, PROBLEM).source for name in NAMES}
        return found, sorted(compiled), len(tried)

    everything = ["a.fast", "a.slow", "b.fast", "b.slow", "c.one", "c.two"]
    assert sources(FAMILIES) == (dict.fromkeys(NAMES, "timed"), everything, 4)
    stored = dict.fromkeys(NAMES, "stored")
    assert sources(FAMILIES) == (stored, [], 0)

    # A member that does not win: nothing rests on it but the answers of its family.
    text = edited(FAMILIES, "grain = 7 }", "grain = 8 }")
    assert sources(text) == ({**stored, "a": "timed"}, ["a.slow"], 1)
    assert sources(text) == (stored, [], 0)

    # The one that wins: so do the answers of the family of routes that it serves.
    text = edited(text, "grain = 70 }", "grain = 71 }")
    assert sources(text) == ({**stored, "a": "timed", "either": "timed"}, ["a.fast"], 2)
    assert sources(text) == (stored, [], 0)

    # A member of its own: the others of the family keep their code.
    text = edited(text, '"one", mode = 0, grain = 3 }', '"one", mode = 0, grain = 3 }, NEW')
    text = text.replace("NEW", '{ name = "three", mode = 0, grain = 5 }')
    assert sources(text) == ({**stored, "c": "timed"}, ["c.three"], 1)


def test_of_all_shipped_families_only_that_member_is_compiled_again(
    tmp_path: Path, compiled
) -> None:
    registry = registry_of(NullBackend("c"), first_party.plugin("kquant"))
    layer = tmp_path / "families.toml"

    def built(text: str) -> list[str]:
        layer.write_text(text)
        compiled.clear()
        settings = settings_for(registry, layer if text else None)
        building = Building(registry, settings, BuildCache(tmp_path / "cache"))
        chosen = chosen_families(settings, [])
        for _ in building.run(building.steps(chosen, targets_of(registry, [], None))):
            pass
        return sorted(compiled)

    assert len(built("")) > 100
    assert built("") == []
    sizes = "tile_m = 8, tile_n = 16, tile_k = 256, unroll = 4"
    member = f'{{ name = "i8x16", dialects = ["c"], {sizes} }}'
    assert built(f"[families.q4k_tile]\nmembers = [{member}]\n") == ["q4k_tile.i8x16"]
