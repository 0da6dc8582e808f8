"""``xpu tune``: what it answers, what it leaves, and what its status says of that."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from xpu.cli.tune import duration
from xpu.orchestrator import Orchestrator
from xpu.store import Autotune

RESULT = {
    "family", "problem", "choice", "serving", "source", "stored", "margin_permille", "tie", "note",
    "memory", "members", "seconds",
}  # fmt: skip
KEYS = {"device", "results", "left", "stopped", "unplanned", "unasked", "left_out", "seconds"}


def sources(document) -> list[tuple[str, str]]:
    return [(one["problem"], one["source"]) for one in document["results"]]


def test_what_probes_look_at_is_answered_and_a_second_run_recalls_it(xpu) -> None:
    first = xpu("tune", "--json")
    assert (first.status, first.err) == (0, "")
    document = first.document
    assert set(document) == KEYS
    # At 256 rows the grain of 512 is pruned, which leaves one: it serves untimed.
    assert sources(document) == [("256", "only"), ("1000", "timed")]
    assert all(set(one) == RESULT for one in document["results"])
    assert [document[name] for name in ("left", "stopped", "unplanned", "left_out")] == [
        [], None, {}, {},
    ]  # fmt: skip
    second = xpu("tune", "--json").document
    assert sources(second) == [("256", "only"), ("1000", "stored")]
    shown = xpu("tune")
    assert (shown.status, shown.err) == (0, "")
    assert "toy (tune, warm)" in shown.out
    assert "2 results in" in shown.out


def test_named_problems_take_the_place_of_the_probes(xpu) -> None:
    document = xpu(
        "tune", "--problem", "toy:2000", "--problem", "toy:3000", "--memory", "cold", "--json"
    ).document
    assert sources(document) == [("2000", "timed"), ("3000", "timed")]
    assert {one["memory"] for one in document["results"]} == {"cold"}


def test_a_dry_run_tells_what_is_known_and_does_nothing(
    xpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "build"
    monkeypatch.setenv("XPU_BUILD_CACHE", str(cache))
    command = ("tune", "--problem", "toy:1000", "--problem", "toy:256", "--problem", "toy:9")

    def states() -> dict[str, str]:
        document = xpu(*command, "--dry-run", "--json").document
        assert set(document) == {
            "device", "problems", "stored", "to_time", "unplanned", "unasked", "left_out",
        }  # fmt: skip
        found = {one["problem"]: one["state"] for one in document["problems"]}
        assert document["stored"] == list(found.values()).count("stored")
        assert document["to_time"] == list(found.values()).count("to_time")
        return found

    # Nine rows are under every grain: who cannot run is known without building.
    assert states() == {"1000": "to_time", "256": "to_time", "9": "refused"}
    # What compilers say of themselves, and the workers' own code, are no kernels.
    assert {path.name for path in cache.glob("*")} <= {"cpu-runtime", "tools"}
    assert not (tmp_path / "store").exists()
    assert xpu(*command).status == 1
    assert states() == {"1000": "stored", "256": "only", "9": "refused"}
    shown = xpu(*command, "--dry-run")
    assert shown.status == 0
    assert "3 problems: 1 stored, 0 to time" in shown.out
    [row] = [line.split() for line in shown.out.splitlines() if line.split()[1:2] == ["1000"]]
    assert row[2:4] == ["warm", "stored"]


def test_a_dry_run_of_a_forced_family_says_so(xpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_SHAPE_TOY", "plain")
    document = xpu("tune", "--dry-run", "--json").document
    assert {(one["state"], one["choice"]) for one in document["problems"]} == {
        ("override", "plain")
    }


def test_a_spent_budget_leaves_the_rest_and_says_so(xpu) -> None:
    command = ("tune", "--problem", "toy:2000", "--problem", "toy:3000", "--budget", "1e-9")
    answer = xpu(*command, "--json")
    assert answer.status == 3
    assert answer.document["stopped"] == "budget"
    assert [one["problem"] for one in answer.document["left"]] == ["2000", "3000"]
    shown = xpu(*command)
    assert shown.status == 3
    assert "2000, 3000" in shown.out
    assert "2 of 2 problems are left, the budget is spent; run the same command again" in shown.out
    assert xpu(*command[:-1], "600", "--json").status == 0


def test_an_interrupted_run_reports_whole_answers_and_what_is_left(
    xpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose, calls = Orchestrator.choose, []

    def interrupted(self, *arguments, **more):
        calls.append(arguments)
        if len(calls) % 2 == 0:
            raise KeyboardInterrupt
        return choose(self, *arguments, **more)

    command = ("tune", "--problem", "toy:2000", "--problem", "toy:3000")
    with monkeypatch.context() as patch:
        patch.setattr(Orchestrator, "choose", interrupted)
        answer = xpu(*command, "--json")
        shown = xpu(*command)
    assert (answer.status, shown.status) == (130, 130)
    assert sources(answer.document) == [("2000", "timed")]
    assert answer.document["stopped"] == "interrupted"
    assert [one["problem"] for one in answer.document["left"]] == ["3000"]
    assert "1 of 2 problems are left, it was interrupted" in shown.out
    assert shown.err.endswith("xpu: interrupted; what was finished is kept\n")
    assert sources(xpu(*command, "--json").document) == [("2000", "stored"), ("3000", "timed")]


def test_answers_that_others_kept_from_being_kept_are_left(
    xpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("tune", "--problem", "toy:2000", "--problem", "toy:256")
    with monkeypatch.context() as patch:
        patch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.9)
        answer = xpu(*command)
        document = xpu(*command, "--json").document
    assert answer.status == 3
    assert "1 of 2 answers was not kept: others held 90 %" in answer.out
    assert "1 of 2 problems are left, others held the device; run the same command" in answer.out
    assert document["stopped"] == "contended"
    assert [one["problem"] for one in document["left"]] == ["2000"]
    plan = xpu(*command, "--dry-run", "--json").document
    assert [one["problem"] for one in plan["problems"] if one["state"] == "to_time"] == ["2000"]
    document = xpu(*command, "--json").document
    assert (document["left"], document["stopped"]) == ([], None)


def test_a_spent_budget_and_answers_that_were_not_kept_are_both_told_of(
    xpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.9)
    spent = property(lambda self: bool(self.answers))
    monkeypatch.setattr("xpu.orchestrator.Tuning.is_spent", spent)
    command = ("tune", "--problem", "toy:2000", "--problem", "toy:3000", "--budget", "60")
    document = xpu(*command, "--json").document
    assert document["stopped"] == "budget"
    assert [one["problem"] for one in document["left"]] == ["2000", "3000"]
    shown = xpu(*command)
    assert shown.status == 3
    assert (
        "2 of 2 problems are left, the budget is spent (for 1 of them others held the device); "
        "run the same command again" in shown.out
    )


def test_a_problem_that_nothing_serves_is_status_1_and_costs_no_other(xpu) -> None:
    answer = xpu("tune", "--problem", "toy:3", "--problem", "toy:2000", "--json")
    assert answer.status == 1
    assert sources(answer.document) == [("3", "refused"), ("2000", "timed")]
    assert xpu("tune", "--problem", "toy:3", "--budget", "1e-9").status == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--problem", "toy"), "FAMILY:SIZES"),
        (("--problem", "tor:1"), "did you mean 'toy'"),
        (("--batch", "0"), "batches are 1 to 1048576, a range ascending and of at most 4096"),
        (("--batch", "8,1-5000"), "given: '1-5000' of '8,1-5000'"),
        (("--batch", "2000000"), "batches are 1 to 1048576"),
        (("--budget", "0"), "x>0"),
        (("--budget", "nan"), "nan is no number of seconds; allowed: above 0"),
        (("--budget", "inf"), "inf is no number of seconds"),
        (("--model", "nothing.gguf"), "does not exist"),
        (("--memory", "hot"), "hot"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_timed(xpu, arguments, said) -> None:
    answer = xpu("tune", *arguments, "--json")
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err


def test_on_a_terminal_it_says_how_far_it_is_and_how_long_the_rest_takes(
    xpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("rich.progress.Progress.update", _seen_at_once)
    answer = xpu("tune", *(f"--problem=toy:{n}" for n in (2000, 3000, 4000)))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", answer.err)
    assert re.search(r"1/3 .*about \d+ s left +toy 2000 (plain|coarse)", shown)
    assert "building and timing" in shown


def _seen_at_once(self, task, **fields) -> None:
    """Draw each state: a quick run would be over before the next one is drawn by itself."""
    self.tasks[task].completed = fields.pop("completed")
    self.tasks[task].fields.update(fields)
    self.refresh()


def test_a_default_that_stands_in_for_another_processes_answer_is_none(
    xpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Autotune.tuning_turn

    @contextmanager
    def held(self, name: str, wait_s: float):
        with turn(self, name, 0.0) as is_ours:
            yield is_ours and not name.endswith("3000")

    monkeypatch.setattr(Autotune, "tuning_turn", held)
    command = ("tune", "--problem", "toy:2000", "--problem", "toy:3000")
    answer = xpu(*command, "--json")
    assert answer.status == 3
    assert sources(answer.document) == [("2000", "timed")]
    assert [one["problem"] for one in answer.document["left"]] == ["3000"]
    assert answer.document["stopped"] == "elsewhere"
    shown = xpu(*command)
    assert "1 of 2 problems are left, another process is timing them" in shown.out
    monkeypatch.setattr(Autotune, "tuning_turn", turn)
    assert sources(xpu(*command, "--json").document) == [("2000", "stored"), ("3000", "timed")]


@pytest.mark.parametrize("how", [[], ["--dry-run"]])
def test_a_named_problem_outside_the_buckets_is_named(xpu, config: Path, how) -> None:
    (config / "buckets.toml").write_text('[buckets.short]\nkind = "exact"\nmost = 2500\n')
    families = config / "families.toml"
    text = families.read_text()
    families.write_text(text.replace('["n"]', '["n"]\nbuckets = { n = "short" }', 1))
    command = ("tune", "--problem", "toy:2000", "--problem", "toy:3000", *how)
    assert list(xpu(*command, "--json").document["unasked"]) == ["toy:3000"]
    shown = xpu(*command)
    assert shown.status == 0
    assert "toy:3000 is no part of this: it is outside the family's buckets" in shown.out


def test_a_refusal_says_what_became_of_each_member(xpu) -> None:
    [refused] = xpu("tune", "--problem", "toy:9", "--json").document["results"]
    assert (refused["source"], refused["choice"]) == ("refused", None)
    found = {one["name"]: (one["status"], one["rule"], one["limit"]) for one in refused["members"]}
    assert found == dict.fromkeys(("plain", "coarse", "broken"), ("pruned", "R9", 9))
    shown = xpu("tune", "--problem", "toy:9").out
    assert "plain R9: 64 > 9" in shown
    assert shown.count("nothing can be launched") == 1


def test_without_a_store_it_says_that_nothing_is_kept(xpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_STORE", "")
    answer = xpu("tune", "--problem", "toy:2000")
    assert answer.status == 0
    assert "nothing is kept" in answer.out


def test_a_probe_that_cannot_be_foretold_is_named(xpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self, context):
        yield context.bind("toy", None)

    monkeypatch.setattr("toy_family.Each.run", run)
    answer = xpu("tune")
    assert answer.status == 0
    assert "probe each is no part of this: it binds a kernel" in answer.out
    assert "xpu probe run each" in answer.out
    assert list(xpu("tune", "--json").document["unplanned"]) == ["each"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (89, "1 min"), (3540, "59 min"), (3660, "1 h 1 min")],
)
def test_a_time_ahead_is_written_as_it_is_known(seconds, text) -> None:
    assert duration(seconds) == text
