"""``xpu probe run`` from configuration to store and back, on kernels that compile at once."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import tomli_w
import toy_family as toy

from xpu.cli.app import run
from xpu.registry import Registry


@pytest.fixture
def directory(tmp_path: Path, monkeypatch, quiet_machine) -> Path:
    """A configuration of two families of the toy design, and a store of its own."""
    directory = tmp_path / "config"
    directory.mkdir()
    toy.write_family(directory, {"a": {"mode": toy.RIGHT}, "b": {"mode": toy.RIGHT, "grain": 512}})
    families = tomllib.loads((directory / "families.toml").read_text())["families"]
    families["other"] = families["toy"]
    _write(directory, families)
    plan = {"families": ["toy", "other"], "problems": ["2000", "3000"]}
    (directory / "probes.toml").write_text(tomli_w.dumps({"probes": {"each": plan}}))
    monkeypatch.setenv("XPU_CONFIG_DIR", str(directory))
    monkeypatch.setenv("XPU_STORE", str(tmp_path / "store"))
    return directory


def _write(directory: Path, families: dict) -> None:
    (directory / "families.toml").write_text(tomli_w.dumps({"families": families}))


def _families(directory: Path) -> dict:
    return tomllib.loads((directory / "families.toml").read_text())["families"]


@pytest.fixture
def use(monkeypatch):
    """Make the command line see these plugins."""

    def use(registry: Registry) -> None:
        monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
        monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)

    return use


@pytest.fixture
def toys(use) -> None:
    use(toy.probed_registry())


@pytest.fixture
def document(capsys):
    """Run a command with ``--json`` and return its document, with the status it must have."""

    def document(*arguments: str, status: int = 0):
        capsys.readouterr()
        assert run([*arguments, "--json"]) == status
        return json.loads(capsys.readouterr().out)

    return document


def _sources(answer: dict) -> dict[tuple[str, str], str]:
    return {(one["family"], one["problem"]): one["source"] for one in answer["results"]}


def test_a_second_run_answers_everything_from_the_store(directory, toys, document) -> None:
    first = document("probe", "run")
    assert set(_sources(first).values()) == {"timed"}
    second = document("probe", "run")
    assert set(_sources(second).values()) == {"stored"}
    for before, after in zip(first["results"], second["results"], strict=True):
        for name in ("family", "problem", "choice", "margin_permille", "tie", "memory"):
            assert before[name] == after[name]
        assert after["stored"]
        assert {one["rounds"] for one in after["members"]} == {0}


def test_a_member_added_in_toml_is_timed_with_its_family_alone(
    directory, toys, document, capsys
) -> None:
    before = document("families")
    document("probe", "run")
    families = _families(directory)
    families["toy"]["members"].append({"name": "added", "mode": toy.RIGHT, "grain": 1024})
    _write(directory, families)
    after = document("families")
    assert [one["name"] for one in after[0]["members"]] == ["a", "b", "added"]
    assert after[1:] == before[1:]
    capsys.readouterr()
    answer = document("probe", "run")
    assert _sources(answer) == {
        ("toy", "2000"): "timed",
        ("toy", "3000"): "timed",
        ("other", "2000"): "stored",
        ("other", "3000"): "stored",
    }
    for result in answer["results"]:
        assert ("was dropped" in result["note"]) == (result["family"] == "toy")
    assert set(_sources(document("probe", "run")).values()) == {"stored"}


def test_the_table_names_survivors_pruned_and_faults(directory, toys, capsys) -> None:
    families = _families(directory)
    families["toy"]["members"] += [
        {"name": "wrong", "mode": toy.WRONG, "grain": 64},
        {"name": "broken", "mode": toy.NO_COMPILE, "grain": 64},
    ]
    _write(directory, families)
    (directory / "rules.toml").write_text(
        '[[rules]]\nid = "R9"\ntitle = "grain"\nneed = "member.grain"\nlimit = 256\n'
        'prune_when = "need > limit"\n'
    )
    assert run(["probe", "run"]) == 0
    out, _ = capsys.readouterr()
    [row] = [
        line for line in out.splitlines() if line.lstrip().startswith("2000") and "bro" in line
    ]
    for text in (" a ", "b R9: 512 > 256", "broken failed"):
        assert text in row
    assert "wrong" in out
    # A build that fails is told once, not for every problem.
    assert len([line for line in out.splitlines() if "this member does not compile" in line]) == 1
    assert not any(line != line.rstrip() for line in out.splitlines())
    assert "4 results in" in out


def test_one_problem_that_nothing_serves_costs_the_others_nothing(
    directory, toys, document, capsys
) -> None:
    (directory / "rules.toml").write_text(
        '[[rules]]\nid = "R9"\ntitle = "rows"\nneed = "problem.n"\nlimit = 2500\n'
        'prune_when = "need > limit"\n'
    )
    answer = document("probe", "run", status=1)
    assert _sources(answer) == {
        ("toy", "2000"): "timed",
        ("toy", "3000"): "refused",
        ("other", "2000"): "timed",
        ("other", "3000"): "refused",
    }
    refused = answer["results"][1]
    assert refused["choice"] is None
    for text in ("a", "b", "R9", "3000", "2500"):
        assert text in refused["note"]
    assert run(["probe", "run"]) == 1
    out = capsys.readouterr().out
    assert "toy 3000: " in out
    # "none" is the winner; who was pruned is in the sentence.
    [row, _] = [line.split() for line in out.splitlines() if line.split()[:1] == ["3000"]]
    assert row.count("none") == 1


def test_an_interrupted_run_reports_and_keeps_what_was_finished(
    directory, toys, document, monkeypatch
) -> None:
    from xpu.orchestrator import Orchestrator

    choose, calls = Orchestrator.choose, []

    def interrupted(self, *arguments, **more):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return choose(self, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Orchestrator, "choose", interrupted)
        answer = document("probe", "run", status=130)
    assert _sources(answer) == {("toy", "2000"): "timed", ("toy", "3000"): "timed"}
    assert list(_sources(document("probe", "run")).values()) == ["stored"] * 2 + ["timed"] * 2


def test_an_interruption_before_the_first_result_is_all_that_is_told(
    directory, toys, capsys, monkeypatch
) -> None:
    from xpu.orchestrator import Orchestrator

    def interrupted(*_arguments, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(Orchestrator, "choose", interrupted)
    assert run(["probe", "run"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "interrupted" in err


def test_without_anything_to_look_at_that_is_said(directory, use, document, capsys) -> None:
    use(toy.toy_registry())
    assert document("probe", "run")["results"] == []
    assert run(["probe", "run"]) == 0
    assert "nothing to look at" in capsys.readouterr().out


def test_a_members_override_is_served_untimed(directory, toys, document, monkeypatch) -> None:
    monkeypatch.setenv("XPU_SHAPE_TOY", "b")
    answer = document("probe", "run")
    assert {one["choice"] for one in answer["results"][:2]} == {"b"}
    assert list(_sources(answer).values()) == ["override"] * 2 + ["timed"] * 2
    monkeypatch.setenv("XPU_SHAPE_TOY", "nonesuch")
    assert "nonesuch" in document("probe", "run", status=1)["results"][0]["note"]
