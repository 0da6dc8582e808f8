"""``build`` and ``store``: what they leave on disk and what they say of it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import toy_family as toy

from xpu.building import Building
from xpu.cli.facts_file import check_target
from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts
from xpu.spec import Availability, KernelSource, Preparation
from xpu.testing import NullBackend


class Copied(Preparation):
    argument = "x"

    def source(self, dialect):
        copy = "for (int64_t i; (i = xpu_take(team, 1)) < sizes[0];) to[i] = from[i];"
        text = f"float *to = buffers[1]; const float *from = buffers[0]; {copy}"
        return KernelSource(dialect, f'#include "xpu_c.h"\nXPU_KERNEL {{ {text} }}')

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4 * raw_shape[0]


def test_build_tries_every_member_and_makes_no_bundle_of_what_failed(xpu, tmp_path: Path) -> None:
    answer = xpu("build", "toy", "--out", tmp_path / "out", "--json")
    assert answer.status == 1  # one of them does not compile
    rows = {row["member"]: row for row in answer.document}
    assert list(rows) == ["plain", "coarse", "broken"]
    assert "this member does not compile" in rows["broken"]["error"]
    assert [rows[name]["error"] for name in ("plain", "coarse")] == ["", ""]
    assert f"{tmp_path / 'out'} was not written" in answer.err
    assert not (tmp_path / "out").exists()
    assert {row["status"] for row in xpu("build", "toy", "--json").document[:2]} == {"cached"}


def test_a_bundle_serves_the_other_commands(xpu, config: Path, tmp_path: Path, monkeypatch) -> None:
    toy.write_family(config, {"plain": {"mode": toy.RIGHT}}, default='{ c = "plain" }')
    answer = xpu("build", "toy", "--target", "cpu", "--out", tmp_path / "out", "--json")
    assert (answer.status, [row["member"] for row in answer.document]) == (0, ["plain"])
    toy.write_family(config, {"later": {"mode": toy.RIGHT}})
    monkeypatch.setenv("XPU_BUNDLE", str(tmp_path / "out"))
    monkeypatch.setattr("xpu_backend_cpu.backend.CpuBackend.compiler", lambda _: 1 / 0)
    bench = xpu("bench", "toy", "1000", "--json").document
    assert [member["name"] for member in bench["members"]] == ["plain"]
    explained = xpu("explain", "toy", "1000", "--json").document
    assert [member["name"] for member in explained["survivors"]] == ["plain"]
    monkeypatch.setenv("XPU_BUNDLE", str(tmp_path / "none"))
    refused = xpu("bench", "toy", "1000")
    assert (refused.status, "there is no bundle in" in refused.err) == (2, True)


def test_what_runs_before_a_member_is_shown_once(xpu, monkeypatch) -> None:
    monkeypatch.setattr(toy.Toy, "staging", lambda *_: (Copied(),))
    rows = xpu("build", "toy", "--json").document
    assert [row["member"] for row in rows] == ["plain", "plain.stage_x", "coarse", "broken"]


def test_a_weight_preparation_is_built_and_shown(xpu, monkeypatch) -> None:
    monkeypatch.setattr(toy.Toy, "preparation", Copied())
    rows = xpu("build", "toy", "--json").document
    assert [row["member"] for row in rows] == ["plain", "coarse", "broken", "prepare"]
    assert rows[-1]["status"] in ("built", "cached")
    monkeypatch.setattr(Copied, "source", lambda *_: KernelSource("c", "#error no"))
    answer = xpu("build", "toy", "--json")
    assert (answer.status, "toy.prepare" in answer.document[-1]["error"]) == (1, True)


def test_several_targets_are_built_each_by_whose_compiler_knows_it(xpu) -> None:
    answer = xpu("build", "toy", "--target", "cpu", "--target", "x86-64-v3", "--json")
    targets = [row["target"] for row in answer.document]
    assert targets == ["native"] * 3 + ["x86-64-v3"] * 3
    refused = xpu("build", "toy", "--target", "sm_90")
    assert refused.status == 2
    assert "--target sm_90: no compiler knows it; allowed: " in refused.err
    assert "which stands for this machine's device: cpu" in refused.err


def test_a_target_that_a_named_family_has_nothing_for_is_refused(xpu, config, tmp_path) -> None:
    file = config / "families.toml"
    text = file.read_text()
    other = text.replace("families.toy", "families.other").replace('default = { c = "coarse" }', "")
    other = other.replace("mode = ", 'dialects = ["simt"]\nmode = ')
    file.write_text(text + other)
    answer = xpu("build", "toy", "other", "--target", "cpu", "--out", tmp_path / "out")
    assert answer.status == 2
    assert "family 'other' has no members for target native of backend 'cpu', whose" in answer.err
    assert "dialect is 'c'; allowed: targets of dialect" in answer.err
    assert list(tmp_path.glob("*out*")) == []
    assert {row["family"] for row in xpu("build", "--json").document} == {"toy"}  # none is named
    file.write_text(other)
    (config / "probes.toml").write_text("")
    answer = xpu("build", "--target", "cpu")
    assert answer.status == 2
    assert "the families have no members for target native" in answer.err


FACTS = 'backend = "cpu"\nmultiprocessors = 32\n'


def test_a_facts_file_leaves_out_what_cannot_run_before_the_cap(
    xpu, config: Path, tmp_path: Path
) -> None:
    members = {name: {"mode": toy.RIGHT, "grain": grain} for name, grain in GRAINS.items()}
    toy.write_family(config, members, default='{ c = "small" }', cap=2)
    (config / "rules.toml").write_text(
        '[[rules]]\nid = "R9"\ntitle = "grains"\nneed = "member.grain"\n'
        'limit = "device.multiprocessors"\nprune_when = "need > limit"\n'
    )
    facts = tmp_path / "facts.toml"
    facts.write_text(FACTS)
    rows = {row["member"]: row for row in xpu("build", "toy", "--json").document}
    assert [rows[name]["status"] for name in ("large", "two")] == ["capped at 2"] * 2
    answer = xpu("build", "toy", "--facts", facts, "--json")
    assert answer.status == 0
    status = {row["member"]: row["status"] for row in answer.document}
    assert status["huge"] == status["large"] == "pruned by R9 grains: 4096 > 32"
    assert {status["two"], status["small"]} <= {"built", "cached"}
    facts.write_text("multiprocessor = 2\n")
    assert xpu("build", "toy", "--facts", facts).status == 2


@pytest.mark.parametrize("command", [["build", "toy"], ["manifest", "show", "toy.plain"]])
@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("backend", "part", "not that of target native of backend 'cpu'"),
        ("architecture", "vax", "which runs no code for target native of backend 'cpu'"),
    ],
)
def test_facts_of_another_device_than_the_targets_are_refused(
    xpu, tmp_path: Path, command, field, value, why
) -> None:
    facts = tmp_path / "facts.toml"
    facts.write_text(f'{field} = "{value}"\n')
    answer = xpu(*command, "--facts", facts)
    assert answer.status == 2
    assert answer.err.startswith(f"xpu: {facts}: {field} = {value}, {why}; name a target that ")
    facts.write_text(f'backend = "any"\narchitecture = "{platform.machine()}"\nwave_width = 64\n')
    assert xpu(*command, "--facts", facts).status == 0


def test_facts_of_another_wave_than_the_targets_are_refused() -> None:
    class Waves(NullBackend):
        def wave_width(self, target):
            return {"narrow": 32}.get(target)

    backend = Waves("simt", print, name="waves")
    for target, width in (("narrow", 32), ("narrow", None), ("unknown", 64)):
        check_target(Path("facts.toml"), DeviceFacts(wave_width=width), backend, target)
    with pytest.raises(XpuConfigError) as caught:
        check_target(Path("facts.toml"), DeviceFacts(wave_width=64), backend, "narrow")
    told = "facts.toml: wave_width = 64, and target narrow of backend 'waves' has waves of 32; "
    assert str(caught.value).startswith(told)


def test_an_interrupt_says_which_builds_are_kept(xpu, config: Path, monkeypatch) -> None:
    own = (config / "families.toml").read_text()
    (config / "families.toml").write_text(f'{own}\n[families.more]\nlike = "toy"\n')
    build = Building._family

    def interrupted(self, adaptor, family, target):
        if family.name == "more":
            raise KeyboardInterrupt
        return build(self, adaptor, family, target)

    with monkeypatch.context() as patch:
        patch.setattr(Building, "_family", interrupted)
        answer = xpu("build")
    told = "interrupted; 1 of 2 builds of a family for a target are finished and kept in the build"
    assert (answer.status, answer.out) == (130, "")
    assert f"xpu: {told} cache; nothing is kept of the one that was under way\n" in answer.err
    assert {row["status"] for row in xpu("build", "toy", "--json").document[:2]} == {"cached"}


GRAINS = {"huge": 4096, "large": 4096, "two": 32, "small": 16}


def test_a_library_that_is_not_here_fails_no_build(xpu, monkeypatch) -> None:
    monkeypatch.setattr(toy.Toy, "source", lambda *_: KernelSource("c", routine="gemm"))
    answer = xpu("build", "toy", "--json")
    assert answer.status == 0
    row = answer.document[0]
    assert (row["status"], row["library"]) == ("calls gemm", None)
    assert "offers no routine 'gemm'" in row["note"]
    refused = xpu("bench", "toy", "1000")
    assert refused.status == 1
    assert "failed (backend 'cpu' offers no routine 'gemm' of a library)" in refused.err


def test_a_failed_build_is_a_row_and_a_message(xpu) -> None:
    answer = xpu("build")
    assert answer.status == 1
    assert "failed" in answer.out
    assert answer.err.startswith("xpu: no-code: toy.broken: ")


def test_a_backend_that_is_named_compiles_without_a_device(xpu, monkeypatch) -> None:
    target = xpu("build", "toy", "--json").document[0]["target"]
    missing = Availability(False, "no device")
    monkeypatch.setattr("xpu_backend_cpu.backend.CpuBackend.availability", lambda _: missing)
    answer = xpu("build", "toy", "--backend", "cpu", "--target", target, "--json")
    assert [row["error"] for row in answer.document[:2]] == ["", ""]
    assert xpu("build", "toy", "--target", target).status == 1  # of a member, not of a device
    answer = xpu("build", "toy")
    assert (answer.status, "no device" in answer.err) == (1, True)


def test_a_target_that_the_named_backend_does_not_know_is_one_error(xpu, tmp_path: Path) -> None:
    answer = xpu("build", "--backend", "cpu", "--target", "zork", "--out", tmp_path / "out")
    assert (answer.status, answer.out) == (2, "")
    [line] = answer.err.splitlines()
    start = "xpu: --target zork: the compiler of backend 'cpu' makes no code for it: toy."
    assert line.startswith(start)
    assert "target 'zork' is none of " in line
    assert "allowed: " in line
    assert not (tmp_path / "out").exists()


def test_an_output_directory_that_cannot_be_one(xpu, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = xpu("build", "toy", "--out", tmp_path / "file")
    assert answer.status == 2
    assert f"--out {tmp_path / 'file'} is there and is no bundle" in answer.err
    answer = xpu("build", "toy", "--out", tmp_path / "file/below")
    assert answer.status == 1
    assert f"--out {tmp_path / 'file/below'} cannot be written" in answer.err


def test_an_output_directory_without_a_name_loses_nothing(xpu, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, told in (("", "--out is empty"), (".", "is the working directory")):
        answer = xpu("build", "toy", "--out", name)
        assert (answer.status, told in answer.err) == (2, True)
    assert (tmp_path / "here").is_dir()


@pytest.fixture
def answers(xpu) -> list[str]:
    assert xpu("probe", "run").status == 0
    return ["shape.toy.1000"]


def test_list_and_show(xpu, answers, tmp_path: Path) -> None:
    [entry] = xpu("store", "list", "--json").document
    assert entry["name"] == answers[0]
    assert {"device_key", "part", "name", "value", "build_id", "margin", "tie"} <= set(entry)
    assert xpu("store", "show", answers[0], "--json").document == [entry]
    for text in (entry["name"], entry["value"], entry["build_id"]):
        assert text in xpu("store", "list").out
        assert text in xpu("store", "show", answers[0]).out
    assert xpu("store", "path", "--json").document == {"store": str(tmp_path / "store")}
    assert xpu("store", "path").out == f"{tmp_path / 'store'}\n"


def test_a_torn_entry_is_named_and_the_others_are_listed(xpu, answers, tmp_path: Path) -> None:
    [path] = tmp_path.glob("store/*/*/*")
    torn = path.with_name(path.name.replace("1000", "77"))
    torn.write_bytes(path.read_bytes()[:-5])
    answer = xpu("store", "list", "--json")
    assert answer.status == 0
    assert [entry["name"] for entry in answer.document] == answers
    assert str(torn) in answer.err


@pytest.mark.parametrize("command", ["show", "remove"])
def test_an_empty_store_is_called_empty(command, xpu) -> None:
    answer = xpu("store", command, "x")
    assert (answer.status, answer.out) == (1, "")
    assert "no answer is called 'x'; the store is empty" in answer.err


def test_remove(xpu, answers) -> None:
    answer = xpu("store", "remove", "shape.toy.100")
    assert answer.status == 1
    assert f"did you mean '{answers[0]}'?" in answer.err
    assert xpu("store", "remove", answers[0], "--json").document == {"removed": answers}
    assert xpu("store", "list", "--json").document == []
    assert xpu("store", "remove", "--all", "--json").document == {"removed": []}


@pytest.mark.parametrize("command", ["path", "list", "show x", "remove x", "remove --all"])
def test_without_a_store_there_is_nothing_to_look_at(command, xpu, monkeypatch) -> None:
    monkeypatch.setenv("XPU_STORE", "")
    answer = xpu("store", *command.split(), "--json")
    assert (answer.status, answer.out) == (2, "")
    assert "XPU_STORE is set and empty" in answer.err


def test_a_store_that_is_a_file_costs_memory_only(xpu, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XPU_STORE", str(tmp_path / "config/families.toml"))
    assert xpu("store", "list").status == 1
    answer = xpu("probe", "run", "--json")
    assert answer.status == 0
    assert not any(result["stored"] for result in answer.document["results"])


@pytest.mark.parametrize("name", ["~nobody-of-that-name/store", "relative/store"])
def test_a_store_of_an_odd_name_is_a_place(name, xpu, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XPU_STORE", name)
    assert xpu("store", "path").out == f"{tmp_path / name}\n"


def declared(config: Path, **lists: str) -> None:
    """Add declarations to the toy family's table."""
    file = config / "families.toml"
    lines = "".join(f"{key} = [{value}]\n" for key, value in lists.items())
    file.write_text(file.read_text().replace("[families.toy]\n", f"[families.toy]\n{lines}"))


def test_what_is_tracked_fails_no_build_and_what_is_stale_does(xpu, config: Path) -> None:
    bare = '{ item = "issue 7", backend = "cpu", members = ["broken"] }'
    declared(config, unlowered=bare)
    answer = xpu("build", "toy", "--json")
    assert (answer.status, answer.err) == (0, "")
    row = {row["member"]: row for row in answer.document}["broken"]
    assert (row["status"], row["error"]) == ("tracked", "")
    [gate] = row["gates"]
    assert (gate["gate"], gate["item"]) == ("no-code", "issue 7")
    assert "this member does not compile" in gate["figure"]
    shown = xpu("build", "toy")
    assert shown.status == 0
    assert "issue 7" in shown.out
    toy.write_family(config, {"plain": {"mode": toy.RIGHT}, "broken": {"mode": toy.RIGHT}})
    declared(config, unlowered=bare)
    answer = xpu("build", "toy", "--json")
    assert answer.status == 1
    assert "xpu: stale: toy.broken for native: unlowered 'issue 7'" in answer.err
    assert [row["gates"][0]["gate"] for row in answer.document if row["gates"]] == ["stale"]


def test_every_gate_is_reported_before_the_build_fails(xpu, config: Path) -> None:
    members = {"slow": {"mode": toy.SLOW, "grain": 1}, "broken": {"mode": toy.NO_COMPILE}}
    toy.write_family(config, members)
    gone = '{ item = "gone", backend = "cpu", gate = "spill" }'
    declared(config, unlowered=gone)
    answer = xpu("build", "toy", "--json")
    assert answer.status == 1
    told = [line.split(": ")[1] for line in answer.err.splitlines()]
    assert told == ["scalar-loop", "no-code", "stale"]
    assert answer.document[-1]["status"] == "stale"


def test_a_compiler_that_passes_its_deadline_is_a_gate_of_its_own(
    xpu, config: Path, monkeypatch
) -> None:
    toy.write_family(config, {"plain": {"mode": toy.RIGHT, "grain": 4711}})  # in no cache
    monkeypatch.setenv("XPU_COMPILE_DEADLINE_S", "0.000001")
    answer = xpu("build", "toy", "--json")
    assert answer.status == 1
    assert {row["gates"][0]["gate"] for row in answer.document} == {"deadline"}
    assert "xpu: deadline: toy.plain: " in answer.err
