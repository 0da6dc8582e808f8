"""What each command's document holds, name by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_family as toy

from xpu import __version__

RESULT = {
    "probe", "family", "problem", "choice", "serving", "source", "stored", "margin_permille", "tie",
    "note", "memory", "members",
}  # fmt: skip
MEMBER = {"name", "serving", "status", "rule", "need", "limit", "median_ns", "rounds", "note"}


def test_probe_run(xpu) -> None:
    answer = xpu("probe", "run", "--json")
    document = answer.document
    assert answer.status == 0
    assert set(document) == {"device", "results", "errors", "left_out", "seconds"}
    assert (document["errors"], document["left_out"]) == ([], {})
    assert document["device"]
    assert document["seconds"] > 0
    small, large = document["results"]
    for result in (small, large):
        assert set(result) == RESULT
        assert (result["probe"], result["family"]) == ("each", "toy")
        assert result["memory"] == "warm"
        assert all(set(member) == MEMBER for member in result["members"])
    assert (small["problem"], large["problem"]) == ("256", "1000")
    # At 256 rows the grain of 512 is pruned, which leaves one: it serves untimed.
    assert (small["choice"], small["source"], small["stored"]) == ("plain", "only", False)
    members = {member["name"]: member for member in small["members"]}
    assert members["coarse"]["status"] == "pruned"
    assert [members["coarse"][name] for name in ("rule", "need", "limit")] == ["R9", 512, 256]
    assert members["broken"]["status"] == "failed"
    assert "this member does not compile" in members["broken"]["note"]
    assert (large["source"], large["stored"]) == ("timed", True)
    timed = {member["name"]: member for member in large["members"]}
    assert [timed[name]["median_ns"] for name in ("plain", "coarse")] == [1000, 1000]
    assert timed[large["choice"]]["rounds"] >= 5
    # Nothing between them: the default serves.
    assert (large["choice"], large["margin_permille"], large["tie"]) == ("coarse", 0, True)


def test_explain(xpu) -> None:
    answer = xpu("explain", "toy", "256", "--json")
    assert answer.status == 0
    assert answer.document == {
        "family": "toy",
        "problem": "256",
        "survivors": [{"name": "plain", "grains": 4}],
        "pruned": [
            {
                "name": "coarse",
                "grains": 0,
                "rule": "R9",
                "title": "grains",
                "need": 512,
                "limit": 256,
            }
        ],
        "aside": [
            {
                "name": "broken",
                "status": "failed",
                "note": answer.document["aside"][0]["note"],
            }
        ],
        "override": None,
        "refusal": "",
    }


def test_explain_of_a_refusal_is_a_success_that_says_it(xpu) -> None:
    document = xpu("explain", "toy", "3", "--json").document
    assert document["survivors"] == []
    assert [one["name"] for one in document["pruned"]] == ["plain", "coarse", "broken"]
    for text in ("plain", "coarse", "broken", "R9", "64", "512", "3"):
        assert text in document["refusal"]
    shown = xpu("explain", "toy", "3").out
    assert "toy: nothing can be launched for 3" in shown
    assert "R9 grains" in shown


def test_explain_shows_who_stands_aside_and_why(xpu, config: Path) -> None:
    def row(name: str) -> list[str]:
        lines = xpu("explain", "toy", "1000").out.splitlines()
        [found] = [line.split() for line in lines if line.split()[:1] == [name]]
        return found

    assert row("plain") == ["plain", "survivor", "-", "15"]
    assert row("broken")[1] == "failed"
    assert row("broken")[-1] == "-"
    families = config / "families.toml"
    families.write_text(families.read_text().replace("[families.toy]", "[families.toy]\ncap = 1"))
    assert row("plain") == ["plain", "capped", "-"]
    assert row("coarse") == ["coarse", "survivor", "1"]


def test_explain_by_a_facts_file_builds_nothing(xpu, tmp_path: Path) -> None:
    facts = tmp_path / "part.toml"
    facts.write_text('backend = "elsewhere"\nmultiprocessors = 132\nwave_width = 32\n')
    document = xpu("explain", "toy", "256", "--facts", facts, "--json").document
    assert [one["name"] for one in document["survivors"]] == ["plain", "broken"]
    assert document["aside"] == []


def test_facts_of_one_backend_are_not_explained_for_another(xpu, tmp_path: Path) -> None:
    facts = tmp_path / "part.toml"
    command = ("explain", "toy", "256", "--facts", facts, "--backend", "cpu", "--json")
    facts.write_text('backend = "elsewhere"')
    answer = xpu(*command)
    assert (answer.status, answer.out) == (2, "")
    assert f"{facts}: backend = 'elsewhere', and --backend says 'cpu'" in answer.err
    for text in ('backend = "cpu"', "multiprocessors = 2"):
        facts.write_text(text)
        assert xpu(*command).status == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("multiprocesors = 1", "did you mean 'multiprocessors'?"),
        ("multiprocessors = 1.5", "whole number"),
        ("multiprocessors = true", "whole number"),
        ("name = 7", "text"),
        ("[device]\nname = 'x'", "no tables"),
        ("multiprocessors = ", "no TOML"),
        ("x = " + "[" * 3000, "no TOML"),
        ("multiprocessors = " + "9" * 5000, "no TOML"),
        ("# " + "x" * 2**20, "at most"),
    ],
)
def test_a_facts_file_that_is_none(text, said, xpu, tmp_path: Path) -> None:
    facts = tmp_path / "part.toml"
    facts.write_text(text)
    answer = xpu("explain", "toy", "256", "--facts", facts, "--json")
    assert (answer.status, answer.out) == (2, "")
    assert str(facts) in answer.err
    assert said in answer.err


def test_doctor(xpu, config: Path, tmp_path: Path) -> None:
    document = xpu("doctor", "--json").document
    assert set(document) == {
        "version", "plugins", "backends", "config", "dormant", "store", "build_cache",
    }  # fmt: skip
    assert document["version"] == __version__
    assert document["store"] == str(tmp_path / "store")
    assert [set(one) for one in document["plugins"]] == [
        {"name", "distribution", "state", "stage", "cause"}
    ] * 3
    assert {one["name"]: one["state"] for one in document["plugins"]} == {
        "cpu": "loaded",
        "toy": "loaded",
        "each": "loaded",
    }
    [backend] = document["backends"]
    assert set(backend) == {"name", "available", "reason", "fix", "devices"}
    assert (backend["name"], backend["available"], len(backend["devices"])) == ("cpu", True, 1)
    assert str(config / "families.toml") in document["config"]


def test_doctor_outlives_a_backend_that_raises(xpu, monkeypatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("driver gone")

    monkeypatch.setattr("xpu_backend_cpu.backend.CpuBackend.availability", fail)
    answer = xpu("doctor", "--json")
    assert answer.status == 0
    assert not answer.document["backends"][0]["available"]
    assert "driver gone" in answer.document["backends"][0]["reason"]
    assert "driver gone" in xpu("doctor").out
    answer = xpu("probe", "run", "--json")
    assert (answer.status, answer.out) == (1, "")
    assert "driver gone" in answer.err


def test_families(xpu) -> None:
    [family] = xpu("families", "--json").document
    assert family == {
        "name": "toy",
        "design": "toy",
        "problem": ["n"],
        "constants": {},
        "buckets": {},
        "default": {"c": "coarse"},
        "cap": 8,
        "members": [
            {"name": "plain", "dialects": None, "mode": 0, "grain": 64},
            {"name": "coarse", "dialects": None, "mode": 0, "grain": 512},
            {"name": "broken", "dialects": None, "mode": 5, "grain": 64},
        ],
    }


def test_device_leaves_out_what_is_absent(xpu) -> None:
    [facts] = xpu("device", "--json").document
    assert facts["backend"] == "cpu"
    assert facts["multiprocessors"] >= 1
    assert "registers_per_multiprocessor" not in facts
    assert None not in facts.values()


def test_probe_list(xpu) -> None:
    [probe] = xpu("probe", "list", "--json").document
    assert {**probe, "summary": ""} == {
        "name": "each",
        "summary": "",
        "families": ["toy"],
        "problems": ["256", "1000"],
        "memory": "warm",
    }


def test_bench_times_every_survivor_and_stores_nothing(xpu, tmp_path: Path) -> None:
    answer = xpu("bench", "toy", "4096", "--json")
    document = answer.document
    assert answer.status == 0
    assert (document["family"], document["problem"]) == ("toy", "4096")
    assert document["default"] == "coarse"
    times = {one["name"]: one["median_ns"] for one in document["members"]}
    assert times["plain"] > 0
    assert times["coarse"] > 0
    assert times["broken"] is None
    assert document["choice"] in ("plain", "coarse")
    assert not (tmp_path / "store").exists()
    table = xpu("bench", "toy", "4096").out
    assert "winner" in table
    assert "default" in table
    assert "margin" in table


def test_bench_times_the_one_that_alone_can_run(xpu) -> None:
    document = xpu("bench", "toy", "256", "--json").document
    members = {one["name"]: one for one in document["members"]}
    assert document["choice"] == "plain"
    assert document["note"] == "plain alone can run; there is nothing to compare it with"
    assert members["plain"]["median_ns"] > 0
    assert members["plain"]["rounds"] >= 5
    assert [members[name]["status"] for name in ("coarse", "broken")] == ["pruned", "failed"]
    assert "margin" not in xpu("bench", "toy", "256").out


def test_bench_under_foreign_load_says_what_that_means_for_its_times(xpu, monkeypatch) -> None:
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.83)
    said = "83 % of the device was held by others: do not trust these times"
    assert xpu("bench", "toy", "4096", "--json").document["note"] == said
    assert xpu("bench", "toy", "4096").out.endswith(f"{said}\n")


def test_bench_checks_the_one_that_alone_can_run(xpu, config: Path) -> None:
    toy.write_family(config, {"plain": {"mode": toy.WRONG}, "coarse": {"mode": 0, "grain": 512}})
    document = xpu("bench", "toy", "256", "--json").document
    assert document["choice"] is None
    assert document["note"] == "no member can serve: plain is wrong"
    assert [one["status"] for one in document["members"]] == ["wrong", "pruned"]
    assert "winner" not in xpu("bench", "toy", "256").out
