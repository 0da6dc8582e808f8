"""What every command says of a family of routes."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_family as toy

ROUTES = """
[families.any]
problem = ["n"]
[[families.any.routes]]
family = "small"
when   = "problem.n <= 2000"
[[families.any.routes]]
family = "toy"

[families.small]
design  = "toy"
problem = ["n"]
[[families.small.members]]
name  = "fine"
mode  = 0
grain = 32
"""


@pytest.fixture(autouse=True)
def _routes(config: Path) -> None:
    members = {"plain": {"mode": toy.RIGHT}, "coarse": {"mode": toy.SLOW, "grain": 512}}
    file = toy.write_family(config, members, default='{ c = "coarse" }')
    file.write_text(file.read_text() + ROUTES)


def test_families(xpu) -> None:
    documents = {one["name"]: one for one in xpu("families", "--json").document}
    assert documents["any"] == {
        "name": "any",
        "problem": ["n"],
        "buckets": {},
        "routes": [
            {"family": "small", "when": "problem.n <= 2000"},
            {"family": "toy", "when": None},
        ],
    }
    text = xpu("families").out
    assert "any: routes, problem n" in text
    assert "problem.n <= 2000" in text
    assert "always" in text


def test_explain_says_of_each_route_and_then_of_its_members(xpu, tmp_path: Path) -> None:
    document = xpu("explain", "any", "1000", "--json").document
    assert [one["name"] for one in document["survivors"]] == ["small", "toy"]
    assert [one["family"] for one in document["routes"]] == ["small", "toy"]
    [small, whole] = document["routes"]
    assert [one["name"] for one in small["survivors"]] == ["fine"]
    assert [one["name"] for one in whole["survivors"]] == ["plain", "coarse"]
    document = xpu("explain", "any", "2001", "--json").document
    assert document["aside"] == [
        {"name": "small", "status": "pruned", "note": "problem.n <= 2000 does not hold"}
    ]
    assert [one["family"] for one in document["routes"]] == ["toy"]
    text = xpu("explain", "any", "2001").out
    assert "problem.n <= 2000 does not hold" in text
    assert "toy 2001" in text


def test_explain_by_a_facts_file(xpu, tmp_path: Path) -> None:
    (tmp_path / "facts.toml").write_text('name = "part"\nmultiprocessors = 4\n')
    command = ["explain", "any", "100", "--json", "--facts", tmp_path / "facts.toml"]
    document = xpu(*command).document
    # R9 of this configuration: at 100 elements a grain of 512 is too much, one of 32 is not.
    assert [one["name"] for one in document["survivors"]] == ["small", "toy"]
    assert [one["family"] for one in document["routes"]] == ["small", "toy"]
    document = xpu(*command[:2], "40", *command[3:]).document
    assert [one["name"] for one in document["survivors"]] == ["small"]
    [aside] = document["aside"]
    assert (aside["name"], aside["status"]) == ("toy", "pruned")
    assert "plain: R9 (grains): needs 64, limit 40; coarse: R9" in aside["note"]


def test_bench(xpu) -> None:
    document = xpu("bench", "any", "1000", "--json").document
    assert (document["family"], document["default"]) == ("any", "small")
    members = {one["name"]: one for one in document["members"]}
    assert {name: one["serving"] for name, one in members.items()} == {
        "small": "fine",
        "toy": "coarse",  # the clock reads all alike, so the default wins
    }
    assert all(one["median_ns"] > 0 for one in members.values())
    assert document["serving"] == members[document["choice"]]["serving"]
    assert "toy (coarse)" in xpu("bench", "any", "1000").out


def test_bench_of_the_one_route_that_takes_part_times_what_it_chose(xpu) -> None:
    document = xpu("bench", "any", "4000", "--json").document
    assert (document["choice"], document["serving"]) == ("toy", "coarse")
    members = {one["name"]: one for one in document["members"]}
    assert members["toy"]["median_ns"] > 0
    assert document["default"] == "toy"
    assert members["small"]["note"] == "problem.n <= 2000 does not hold"


def test_who_forces_a_member_is_told_that_it_serves(xpu, monkeypatch) -> None:
    for command in ("bench", "explain"):
        monkeypatch.delenv("XPU_SHAPE_TOY", raising=False)
        assert xpu(command, "toy", "1000", "--json").document["override"] is None
        assert "forces" not in xpu(command, "toy", "1000").out
        monkeypatch.setenv("XPU_SHAPE_TOY", "coarse")
        assert xpu(command, "toy", "1000", "--json").document["override"] == "coarse"
        assert "XPU_SHAPE_TOY forces coarse: it serves" in xpu(command, "toy", "1000").out


def test_build_builds_what_its_routes_have(xpu) -> None:
    rows = xpu("build", "any", "toy", "--json").document
    assert [(one["family"], one["member"]) for one in rows] == [
        ("small", "fine"),
        ("toy", "plain"),
        ("toy", "coarse"),
    ]
    assert [(one["family"], one["member"]) for one in xpu("build", "--json").document] == [
        ("toy", "plain"),
        ("toy", "coarse"),
        ("small", "fine"),
    ]


def test_tune_asks_first_what_the_answer_rests_on_and_nothing_twice(xpu) -> None:
    command = ("tune", "--problem", "any:1000", "--problem", "toy:1000", "--json")
    plan = xpu(*command, "--dry-run").document
    assert [one["family"] for one in plan["problems"]] == ["small", "toy", "any"]
    # Until it is built nobody can tell that one family has but one member.
    assert [one["state"] for one in plan["problems"]][1:] == ["to_time", "to_time"]
    results = xpu(*command).document["results"]
    assert [one["family"] for one in results] == ["small", "toy", "any"]
    answer = results[-1]
    assert answer["stored"]
    assert answer["serving"] == {"small": "fine", "toy": "coarse"}[answer["choice"]]
    plan = xpu(*command, "--dry-run").document
    assert [one["state"] for one in plan["problems"]] == ["only", "stored", "stored"]
    assert f"{answer['choice']} ({answer['serving']})" in xpu("tune", "--problem", "any:1000").out


def test_what_rests_on_an_answer_that_was_not_kept_is_left_with_it(xpu, monkeypatch) -> None:
    command = ("tune", "--problem", "any:3000", "--json")
    with monkeypatch.context() as patch:
        patch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.9)
        document = xpu(*command).document
    # One route alone takes part, so the route itself is not timed.
    assert [(one["family"], one["source"], one["stored"]) for one in document["results"]] == [
        ("toy", "timed", False),
        ("any", "only", False),
    ]
    assert [one["family"] for one in document["left"]] == ["toy", "any"]
    plan = xpu(*command, "--dry-run").document
    assert [one["state"] for one in plan["problems"]] == ["to_time", "to_time"]
    assert xpu(*command).document["left"] == []


def test_a_probe_looks_at_it(xpu, config: Path) -> None:
    (config / "probes.toml").write_text('[probes.each]\nfamilies = ["any"]\nproblems = ["3000"]\n')
    [result] = xpu("probe", "run", "--json").document["results"]
    assert (result["family"], result["choice"], result["source"]) == ("any", "toy", "only")
    assert result["serving"] == "coarse"
    table = xpu("probe", "run").out
    assert "toy (coarse)" in table
    assert "small: problem.n <= 2000 does not hold" in table


def test_a_family_of_routes_has_no_kernels_to_show(xpu) -> None:
    answer = xpu("manifest", "show", "any.toy")
    assert answer.status == 2
    assert "any is a family of routes and has no kernels of its own" in answer.err
    assert "one of these families: small, toy" in answer.err
