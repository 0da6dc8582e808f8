"""What families declare in TOML, and what a design's decorators add to its families."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from xpu.errors import XpuConfigError
from xpu.model import Declarations, Member, Unbounded, Unlowered
from xpu.settings import Settings, Vocabulary, written

Load = Callable[..., Settings]

DECLARED = """
[families.q]
occupancy = { max_threads = "2 * member.threads" }
wave      = 32
fast_math = true
unbounded = [{ item = "issue 1" }]
unlowered = [
    { item = "issue 2", backend = "far", gate = "spill", targets = ["t1"], members = ["small"] },
    { item = "issue 3", backend = "near", members = ["prepare"] },
]
"""


def layer(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "families.toml").write_text(text)
    return path


def test_a_family_declares_what_a_decorator_does(load: Load, tmp_path: Path) -> None:
    family = load(layer(tmp_path / "over", DECLARED)).families["q"]
    assert family.declared == Declarations(
        max_threads="2 * member.threads",
        wave=32,
        fast_math=True,
        unlowered=(
            Unlowered("issue 2", "far", "spill", ("t1",), ("small",)),
            Unlowered("issue 3", "near", members=("prepare",)),
        ),
        unbounded=(Unbounded("issue 1"),),
    )
    assert load().families["q"].declared == Declarations()


def test_a_higher_layer_replaces_a_list_and_a_family_that_is_like_it_has_it(
    load: Load, tmp_path: Path
) -> None:
    over = layer(tmp_path / "over", DECLARED)
    more = layer(
        tmp_path / "more",
        "[families.q]\nunlowered = []\nfast_math = false\n"
        '[families.other]\nlike = "q"\nwave = 64\n',
    )
    families = load([over, more]).families
    assert families["q"].declared.unlowered == ()
    assert families["other"].declared == attrs.evolve(families["q"].declared, wave=64)
    assert families["other"].declared.max_threads == "2 * member.threads"


def test_what_is_declared_is_written_back(load: Load, tmp_path: Path) -> None:
    settings = load(layer(tmp_path / "over", DECLARED))
    texts = written(settings, ["q"])
    again = tmp_path / "again"
    again.mkdir()
    (again / "families.toml").write_text(texts["families.toml"])
    assert load(again).families["q"] == settings.families["q"]


def with_declared(vocabulary: Vocabulary, declared: Declarations) -> Vocabulary:
    gemm = vocabulary.designs["gemm"]
    gemm.declared = declared
    return vocabulary


def test_a_designs_shapes_are_the_lowest_layer(
    load: Load, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    shapes = (Member("own", {"tile_m": 16}, ("c",)), Member("small", {"tile_m": 24}))
    over = layer(tmp_path / "over", '[families.bare]\ndesign = "gemm"\nproblem = ["m", "n"]\n')
    settings = load(over, vocabulary=with_declared(vocabulary, Declarations(members=shapes)))
    assert settings.families["bare"].members == shapes
    named = {member.name: member.parameters for member in settings.families["q"].members}
    assert list(named) == ["own", "small", "large"]
    assert named["small"] == {"tile_m": 8}
    with pytest.raises(XpuConfigError, match=r"families\.bare: found no 'members'"):
        load(over, vocabulary=with_declared(vocabulary, Declarations()))


def test_no_member_has_the_name_of_the_weight_preparation(
    load: Load, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    over = layer(tmp_path / "over", '[[families.q.members]]\nname = "prepare"\ntile_m = 8\n')
    with pytest.raises(XpuConfigError, match="another name") as caught:
        load(over)
    assert f"{over / 'families.toml'}: families.q.members.prepare" in str(caught.value)
    shapes = Declarations(members=(Member("prepare", {"tile_m": 8}),))
    with pytest.raises(XpuConfigError, match=r"design 'gemm'.*members\.prepare.*another name"):
        load(vocabulary=with_declared(vocabulary, shapes))


def test_a_designs_requirements_hold_for_every_member(load: Load, vocabulary: Vocabulary) -> None:
    fits = Declarations(requires=("member.tile_m >= 8",))
    settings = load(vocabulary=with_declared(vocabulary, fits))
    assert settings.families["q"].requires == ("member.tile_m >= 8", "member.tile_m % 8 == 0")
    wants = Declarations(requires=("member.tile_m >= 16",))
    with pytest.raises(XpuConfigError) as caught:
        load(vocabulary=with_declared(vocabulary, wants))
    assert "families.q.members.small: requires 'member.tile_m >= 16' is not met" in str(
        caught.value
    )
    assert "design 'gemm' requires it" in str(caught.value)
    shape = Declarations(members=(Member("odd", {"tile_m": 9}),))
    with pytest.raises(XpuConfigError, match=r"design 'gemm': families\.q\.members\.odd: requires"):
        load(vocabulary=with_declared(vocabulary, shape))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("occupancy = { max_threads = 0 }", "q.occupancy.max_threads: found 0; allowed: a whole"),
        ("occupancy = { max_threads = 1.5 }", "q.occupancy.max_threads: found 1.5"),
        ("occupancy = {}", "q.occupancy: found nothing; allowed: max_threads or max_waves"),
        ("occupancy = { max_threads = 1, max_waves = 1 }", "found max_threads, max_waves"),
        (
            'occupancy = { max_waves = "problem.m" }',
            "max_waves: 'problem.m' is not constant",
        ),
        ('occupancy = { max_waves = "member.tile" }', "did you mean 'member.tile_m'"),
        ('wave = "device.wave_width"', "q.wave: 'device.wave_width' is not constant"),
        ("fast_math = 1", "q.fast_math: found 1; allowed: true or false"),
        ('unlowered = [{ backend = "b" }]', "unlowered.#1.item: found nothing"),
        ('unlowered = [{ item = "i" }]', "unlowered.i.backend: found nothing"),
        (
            'unlowered = [{ item = "i", backend = "b", gate = "spills" }]',
            "unlowered.i.gate: found 'spills'; did you mean 'spill'",
        ),
        (
            'unlowered = [{ item = "i", backend = "b", gate = "unbounded-launch" }]',
            "unlowered.i.gate: found 'unbounded-launch'",
        ),
        (
            'unlowered = [{ item = "i", backend = "b", members = ["smal"] }]',
            "unlowered.i.members: found 'smal'; did you mean 'small'",
        ),
        (
            'unbounded = [{ item = "i", backend = "b" }]',
            "i.backend: found the unknown key",
        ),
    ],
)
def test_what_is_no_declaration_is_refused(
    load: Load, tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(XpuConfigError) as caught:
        load(layer(tmp_path / "over", f"[families.q]\n{text}\n"))
    assert str(tmp_path / "over") in str(caught.value)
    assert says in str(caught.value)
