"""The page of parts that nobody has seen: up to date, nobody left out, and what explain says."""

from __future__ import annotations

import importlib.util
import json
import types
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from xpu.cli.app import run
from xpu.orchestrator import settings_for
from xpu.registry import default_registry


@pytest.fixture(scope="module")
def script(root: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("unseen_parts", root / "docs/unseen_parts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def settings() -> Any:
    settings = settings_for(default_registry())
    if settings.dormant:
        pytest.skip(f"designs of {', '.join(settings.dormant)} are not installed")
    return settings


@pytest.fixture(scope="module")
def answers(script: types.ModuleType, settings: Any) -> list[Any]:
    return list(script.considered(default_registry(), settings))


def test_the_page_is_what_the_command_writes(script: types.ModuleType, settings: Any) -> None:
    assert script.PAGE.read_text("utf-8") == script.page(), "run: python docs/unseen_parts.py"


def test_every_part_goes_through_every_family_with_a_grid(
    script: types.ModuleType, settings: Any, answers: list[Any]
) -> None:
    parts = script.parts()
    assert len(parts) == 33
    through = {(shapes.name, part) for _, part, shapes in answers}
    families = {shapes.name for _, _, shapes in answers}
    assert len(through) == len(families) * len(parts)
    waves = {
        name
        for name, family in settings.families.items()
        if not family.routes
        and any("simt" in (it.dialects or ()) for it in family.members)
        and (source := default_registry().source_for(family.design, "simt")) is not None
        and source.routine is None  # of a library nobody knows the grid
    }
    assert families >= waves


def test_each_has_survivors_or_a_refusal_that_names_all(settings: Any, answers: list[Any]) -> None:
    for dialect, part, shapes in answers:
        members = {member.name for member in settings.family(shapes.name).for_dialect(dialect)}
        kept = {verdict.candidate.name for verdict in shapes.survivors}
        gone = {verdict.candidate.name for verdict in shapes.pruned}
        assert kept | gone == members, part
        assert not kept & gone
        for verdict in shapes.pruned:
            assert verdict.rule, part
            assert verdict.need is not None
            assert verdict.limit is not None
        if not kept:
            assert all(name in shapes.refusal() for name in members), part


def test_explain_says_the_same_of_a_facts_file(
    answers: list[Any], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tomllib

    devices = tomllib.loads((root / "tests/vectors/devices.toml").read_text("utf-8"))["devices"]
    for number, (dialect, part, shapes) in enumerate(answers):
        if number % 33 != number // 33:  # one part of each family
            continue
        (tmp_path / "facts.toml").write_text(tomli_w.dumps(devices[part]))
        command = ["explain", shapes.name, shapes.problem.key, "--json", "--facts"]
        assert run([*command, str(tmp_path / "facts.toml")]) == 0
        said = json.loads(capsys.readouterr().out)
        names = {verdict.candidate.name for verdict in shapes.survivors}
        family = settings_for(default_registry()).family(shapes.name)
        spoken = {member.name for member in family.for_dialect(dialect)}
        assert {each["name"] for each in said["survivors"]} & spoken == names


def test_a_part_too_small_for_any_member_is_refused_with_every_reason(
    script: types.ModuleType, answers: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "facts.toml").write_text("max_threads_per_block = 1\nmultiprocessors = 1\n")
    for name in {shapes.name for _, _, shapes in answers}:
        problem = next(shapes.problem.key for _, _, shapes in answers if shapes.name == name)
        command = ["explain", name, problem, "--json", "--facts", str(tmp_path / "facts.toml")]
        assert run(command) == 0
        said = json.loads(capsys.readouterr().out)
        waves = {each["name"] for each in said["pruned"]}
        assert waves
        assert {(each["rule"], each["limit"]) for each in said["pruned"]} == {("R0", 1)}
