"""Configuration written back and read again says the same."""

from __future__ import annotations

from pathlib import Path

import first_party

from xpu.model import Family
from xpu.registry import Registry
from xpu.settings import Settings, Vocabulary, load_settings, written
from xpu.settings.tables import FAMILY, MEMBER, ROUTE


def vocabulary(registry: Registry) -> Vocabulary:
    return Vocabulary(registry.designs, registry.device_facts, registry.dialects)


def again(settings: Settings, families, registry: Registry, directory: Path) -> Settings:
    for name, text in written(settings, families).items():
        (directory / name).write_text(text)
    return load_settings(resolved=directory, vocabulary=vocabulary(registry))


def test_the_shipped_configuration_comes_back_as_it_was(tmp_path):
    registry = first_party.registry("cpu", "kquant", "cuda")
    settings = load_settings(vocabulary=vocabulary(registry))
    back = again(settings, settings.families, registry, tmp_path)
    assert len(back.families) > 30
    assert (back.families, back.rules) == (settings.families, settings.rules)
    assert (back.buckets, back.probes) == (settings.buckets, settings.probes)


def test_of_some_families_what_looks_at_them_comes_along(tmp_path):
    registry = first_party.registry("cpu", "kquant")
    settings = load_settings(vocabulary=vocabulary(registry))
    back = again(settings, ["q4k_matvec", "q5k_tile"], registry, tmp_path)
    assert list(back.families) == ["q5k_tile", "q4k_matvec"]
    assert back.probes["tile_prewarm"].families == ("q5k_tile",)
    assert back.probes["matvec_variant"].families == ("q4k_matvec",)


def stated(name: str, family: Family) -> str:
    return written(Settings(families={name: family}), [name])["families.toml"]


def test_every_key_of_a_family_is_written(tmp_path):
    """A key that is added to families.toml is carried by bundles, or this fails."""
    text = """
    [families.one]
    design = "qmatvec"
    problem = ["m", "n", "k"]
    constants = { format = "q4_k" }
    buckets = { m = "pow2_up" }
    default = { c = "second" }
    cap = 3
    requires = ["member.rows >= 1"]
    DECLARED
    [[families.one.members]]
    name = "first"
    rows = 1
    [[families.one.members]]
    name = "second"
    rows = 2
    dialects = ["c"]
    [families.two]
    problem = ["m", "n", "k"]
    buckets = { n = "exact" }
    [[families.two.routes]]
    family = "one"
    when = "problem.m > 1"
    """
    registry = first_party.registry("cpu", "kquant")
    declared = "\n".join(DECLARED.values())
    (tmp_path / "own.toml").write_text(text.replace("DECLARED", declared))
    settings = load_settings(config=tmp_path / "own.toml", vocabulary=vocabulary(registry))
    back = again(settings, ["one", "two"], registry, tmp_path)
    assert back.families == {name: settings.families[name] for name in ("one", "two")}
    keys = {line.split()[0].split(".")[0] for line in text.splitlines() if " = " in line}
    known = {*FAMILY.keys, *MEMBER.keys, *ROUTE.keys}
    # `like` is resolved; what it stands for is written.
    assert known - {"like", "members", "routes"} == (keys | DECLARED.keys()) - {"rows"}


DECLARED = {
    "occupancy": "occupancy = { max_threads = 256 }",
    "wave": "wave = 32",
    "fast_math": "fast_math = true",
    "unlowered": 'unlowered = [{ item = "issue 1", backend = "cpu", members = ["first"] }]',
    "unbounded": 'unbounded = [{ item = "issue 2", members = ["second"] }]',
}
