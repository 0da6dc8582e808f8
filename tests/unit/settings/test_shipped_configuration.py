"""The files that ship: right, and described by the schemas beside them."""

from __future__ import annotations

import json
import runpy
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import first_party
import jsonschema
import pytest

from xpu.expressions import Expression
from xpu.model import DEVICE_FACT_NAMES, Problem
from xpu.settings import Vocabulary, load_settings
from xpu.settings.files import shipped_directory
from xpu.settings.schema import schemas

CONFIG = shipped_directory()
NAMES = ("families", "rules", "buckets", "probes")
PROBED = {f"q{bits}k_{shape}" for bits in (4, 5, 6) for shape in ("tile", "matvec")}
STATED = PROBED | {f"q{bits}k_cols" for bits in (4, 5, 6)}
FAMILIES = STATED | {f"{name}_{kind}" for name in STATED for kind in ("f16", "bf16")}
FAMILIES |= {f"q{bits}k_library" for bits in (4, 5, 6)}
ROUTED = {f"linear_q{bits}k{kind}" for bits in (4, 5, 6) for kind in ("", "_f16", "_bf16")}


def _schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CONFIG / "schema" / f"{name}.schema.json").read_text())
    return loaded


@pytest.fixture
def kquant() -> Vocabulary:
    plugin = first_party.plugin("kquant")
    return Vocabulary(designs={design.name: design for design in plugin.xpu_designs()})


def test_every_shipped_family_serves_with_its_plugin(kquant: Vocabulary, user: Path) -> None:
    settings = load_settings(vocabulary=kquant, environ={})
    assert set(settings.families) == FAMILIES | ROUTED
    assert not settings.dormant
    for family in (settings.families[name] for name in FAMILIES):
        assert family.problem == ("m", "n", "k")
        for dialect in kquant.designs[family.design].dialects():
            members = {member.name for member in family.for_dialect(dialect)}
            assert family.default_for(dialect) in members
            # A member more than the shipped ones must still be built.
            assert len(members) < family.cap
    assert set(settings.probes) == {
        *("tile_prewarm", "matvec_variant"),
        *("cols", "matrix_cores_pay", "tile_beats_dequant"),
    }
    assert {name for plan in settings.probes.values() for name in plan.families} == {
        *PROBED,
        *(f"q{bits}k_cols" for bits in (4, 5, 6)),
        "q4k_library",
    }
    # Families in pairs, whose places a reader of the plan goes by.
    pairs = settings.probes["cols"].families
    assert [name.partition("_")[2] for name in pairs] == ["matvec", "cols"] * (len(pairs) // 2)


@pytest.mark.parametrize("name", sorted(ROUTED))
def test_any_number_of_rows_has_a_route_in_every_dialect(
    name: str, kquant: Vocabulary, user: Path
) -> None:
    family = load_settings(vocabulary=kquant, environ={}).families[name]
    short, _, kind = name.removeprefix("linear_").partition("_")
    for dialect, first in (("c", {1: "matvec", 2: "tile"}), ("simt", {1: "matvec", 2: "cols"})):
        for rows in (1, 2, 8, 9, 16, 17, 4096):
            admitted = [
                route.family.name.removeprefix(f"{short}_").removesuffix(f"_{kind}")
                for route in family.routes
                if family.member(route.family.name).speaks(dialect)  # type: ignore[union-attr]
                and Expression(route.when or "1 < 2").evaluate({"problem.m": rows})
            ]
            assert admitted
            assert admitted[0] == first.get(rows, admitted[0])
            assert ("cols" in admitted) == (dialect == "simt" and 2 <= rows <= 16)
            assert ("matvec" in admitted) == (rows <= 8)
            has_library = dialect == "simt" and rows >= 64 and not kind
            assert ("library" in admitted) == has_library


def test_a_member_is_added_by_a_table_at_the_end_of_the_file(
    kquant: Vocabulary, user: Path, tmp_path: Path
) -> None:
    before = load_settings(vocabulary=kquant, environ={})
    added = '\n[[families.q4k_tile.members]]\nname = "mine"\n' + "".join(
        f"{key} = {value}\n"
        for key, value in before.families["q4k_tile"].members[0].parameters.items()
    )
    (tmp_path / "families.toml").write_text((CONFIG / "families.toml").read_text() + added)
    after = load_settings(vocabulary=kquant, environ={"XPU_CONFIG_DIR": str(tmp_path)})
    assert after.families["q4k_tile"].members[-1].name == "mine"
    assert after.families["q4k_tile"].members[:-1] == before.families["q4k_tile"].members
    changed = {"q4k_tile", "q4k_tile_f16", "q4k_tile_bf16"}
    for name in changed:
        assert after.families[name].members == after.families["q4k_tile"].members
    for name in FAMILIES - changed:
        assert after.families[name] == before.families[name]


def test_every_default_problem_is_one_that_its_families_serve(
    kquant: Vocabulary, user: Path
) -> None:
    settings = load_settings(vocabulary=kquant, environ={})
    for plan in settings.probes.values():
        for family in (settings.families[name] for name in plan.families):
            design = kquant.designs[family.design]
            for key in plan.problems:
                problem = Problem.parse(family.problem, key)
                assert design.check_problem(problem, family.constants) == ""


def test_without_any_plugin_all_is_read_and_all_families_are_dormant(user: Path) -> None:
    settings = load_settings(environ={})
    assert set(settings.dormant) == FAMILIES | ROUTED
    assert {rule.id for rule in settings.rules} == {f"R{number}" for number in range(7)}
    assert all(plan.families == () for plan in settings.probes.values())


def test_shipped_rules_name_core_facts_only(user: Path) -> None:
    # A base that named a backend's fact would stop every command where that backend is absent.
    load_settings(environ={}, vocabulary=Vocabulary(device_facts=DEVICE_FACT_NAMES))


def test_the_shipped_schemas_are_those_that_are_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["schema", str(tmp_path / "out")])
    monkeypatch.delitem(sys.modules, "xpu.settings.schema", raising=False)
    runpy.run_module("xpu.settings.schema", run_name="__main__")
    made = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    shipped = {path.name: path.read_text() for path in (CONFIG / "schema").iterdir()}
    assert made == shipped, "run: python -m xpu.settings.schema config/schema"
    assert set(made) == {f"{name}.schema.json" for name in NAMES} == set(schemas())


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_file_is_valid_by_its_schema(name: str) -> None:
    schema = _schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads((CONFIG / f"{name}.toml").read_text()), schema)


BROKEN = [
    ("families", '[familys.q]\ndesign = "d"'),
    ("families", "[families.q]\ncap = true"),
    ("families", "[families.q]\ncap = 0"),
    ("families", '[families.q]\ndesing = "d"'),
    ("families", "[families.q]\nmembers = [{ tile_m = 8 }]"),
    ("families", '[families.q]\nmembers = [{ name = "a", tile_m = "8" }]'),
    ("families", '[families.q]\nmembers = [{ name = "a", dialects = [] }]'),
    ("families", '[families."a/b"]\ndesign = "d"'),
    ("families", '[families.q]\nproblem = ["m", "m"]'),
    ("rules", '[[rules]]\nid = "R1"'),
    ("rules", '[[rules]]\nid = "R1"\ntitle = "t"\nlimit = true'),
    ("rules", '[[rules]]\nid = "R1"\ntitle = "t"\nprune_when = 1'),
    ("rules", '[rules]\nid = "R1"'),
    ("buckets", '[buckets.b]\nkind = "pow3"'),
    ("buckets", "[buckets.b]\nvalues = [1.5]"),
    ("probes", '[probes.p]\nmemory = "hot"'),
    ("probes", '[probes.p]\nfamilies = "q"'),
]


@pytest.mark.parametrize(("name", "text"), BROKEN)
def test_schema_and_validator_refuse_the_same(
    name: str, text: str, refused: Callable[..., str]
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), _schema(name))
    refused(f"{name}.toml", text)


def test_schema_accepts_what_the_tests_configuration_holds(base: Path) -> None:
    for name in NAMES:
        jsonschema.validate(tomllib.loads((base / f"{name}.toml").read_text()), _schema(name))
