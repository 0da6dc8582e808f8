"""The TOML of the page is read, does what the page says, and its errors are those shown."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import jsonschema
import pytest

from xpu import DeviceFacts, KernelFacts, Problem, ShapeCandidate, ShapeFilter
from xpu.buckets import bucket_problem
from xpu.errors import XpuConfigError
from xpu.orchestrator import settings_for
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.settings.files import shipped_directory
from xpu.settings.tables import FAMILY, MEMBER, POLICY, PROBE, ROUTE, RULE, UNLOWERED


@pytest.fixture
def load(page, tmp_path: Path, monkeypatch, shipped_plugins):
    """Load the settings with one folder of the page's files as the user's directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    page("configuration.md").write_files(tmp_path)
    registry = Registry.from_plugins(shipped_plugins)

    def loaded(folder: str) -> Settings:
        shutil.copytree(tmp_path / folder, tmp_path / "home" / "xpu", dirs_exist_ok=True)
        return settings_for(registry)

    return loaded


def test_a_member_is_added_at_the_end(load) -> None:
    members = load("member").family("q4k_tile").members
    assert members[-1].name == "i32x128"
    assert members[-1].parameters["tile_n"] == 128
    assert len(members) > 2


def test_a_family_is_added_and_shares_answers_between_batches(load) -> None:
    settings = load("family")
    family = settings.family("q4k_prompt")
    assert family.default_for("c") == "w256"
    bucketed = bucket_problem(Problem(m=100, n=96, k=256), family.buckets, settings.buckets)
    assert bucketed == Problem(m=128, n=96, k=256)


def test_a_family_is_like_another_but_for_its_activations(load) -> None:
    families = load("like").families
    made, other = families["q4k_tile_mixed"], families["q4k_tile"]
    assert made.constants == {"format": "q4_k", "x": "bfloat16"}
    assert (made.members, made.default, made.cap) == (other.members, other.default, other.cap)


def test_a_family_of_routes_is_added(load) -> None:
    family = load("routes").family("q4k_any")
    assert [(route.family.name, route.when) for route in family.routes] == [
        ("q4k_tile", "problem.m >= 4"),
        ("q4k_matvec", None),
    ]
    assert family.buckets == {"m": "decode_rows"}


def test_a_rule_is_added_and_prunes_where_its_fact_is_there(load) -> None:
    rules = load("rule").rules
    assert rules[-1].id == "R7"
    for further, pruned in (({"l2_bytes": 4096}, 1), ({}, 0)):
        shapes = ShapeFilter("f", DeviceFacts(further=further), Problem(m=1), rules=rules)
        shapes.consider(ShapeCandidate("big", tile_n=64, tile_k=64))
        shapes.consider(ShapeCandidate("small", tile_n=32, tile_k=32))
        assert len(shapes.pruned) == pruned
        assert shapes.verdicts[0].records["panel_bytes"] == 16384


def test_a_shipped_rule_is_switched_off(load) -> None:
    rules = load("switch").rules
    shapes = ShapeFilter("f", DeviceFacts(), Problem(m=1), rules=rules)
    assert shapes.consider(ShapeCandidate("spills"), KernelFacts(spill_bytes=64)).is_survivor
    assert [rule.id for rule in rules].index("R1") < [rule.id for rule in rules].index("R2")


def test_a_policy_is_added_and_used(load) -> None:
    settings = load("policy")
    family = settings.family("q4k_tile")

    def bucket(m: int) -> Problem | None:
        return bucket_problem(Problem(m=m, n=96, k=256), family.buckets, settings.buckets)

    assert bucket(100) == Problem(m=256, n=96, k=256)
    assert bucket(5000) is None


def test_a_plan_is_replaced(load) -> None:
    plan = load("plan").probes["tile_prewarm"]
    assert (plan.families, plan.memory) == (("q4k_tile", "q6k_tile"), "cold")
    assert plan.problems == ("8x3072x2048", "512x3072x2048")


def test_every_error_of_the_page_is_the_one_shown(load, page, tmp_path: Path) -> None:
    messages = page("configuration.md").of("message")
    assert len(messages) > 6
    for block in messages:
        folder = Path(block.argument).parent
        with pytest.raises(XpuConfigError) as error:
            load(str(folder))
        shown = str(error.value).replace(str(tmp_path / "home"), "~/.config")
        shown = shown.replace(str(shipped_directory()), "SHIPPED")
        assert f"{shown}\n" == block.text, folder
        shutil.rmtree(tmp_path / "home" / "xpu")


def test_the_schemas_for_editors_agree(page, root: Path) -> None:
    wrong = {"errors/key/families.toml", "errors/value/families.toml"}
    for name, text in page("configuration.md").files.items():
        if "syntax" in name:
            continue
        kind = Path(name).stem
        schema = json.loads((root / f"config/schema/{kind}.schema.json").read_text("utf-8"))
        errors = list(jsonschema.Draft202012Validator(schema).iter_errors(tomllib.loads(text)))
        assert bool(errors) == (name in wrong), (name, errors)


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("families.toml", {*FAMILY.keys, *MEMBER.keys, *ROUTE.keys, *UNLOWERED.keys}),
        ("rules.toml", set(RULE.keys)),
        ("buckets.toml", set(POLICY.keys)),
        ("probes.toml", set(PROBE.keys)),
    ],
)
def test_the_tables_name_every_key(page, heading, keys) -> None:
    section = page("configuration.md").text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", section, flags=re.MULTILINE)
    assert {key for cell in cells for key in re.findall(r"`(\w+)`", cell)} == keys
