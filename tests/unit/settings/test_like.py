"""Families that are like another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from xpu.errors import XpuConfigError
from xpu.settings import Settings

Load = Callable[..., Settings]


def added(base: Path, text: str) -> None:
    file = base / "families.toml"
    file.write_text(file.read_text() + text)


def layer(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "families.toml").write_text(text)
    return path


def test_what_is_not_stated_is_the_others(load: Load, base: Path) -> None:
    added(base, '[families.like_q]\nlike = "q"\n')
    families = load().families
    assert families["like_q"] == attrs.evolve(families["q"], name="like_q")


def test_what_is_stated_is_put_over_it(load: Load, base: Path) -> None:
    added(
        base,
        """
[families.like_q]
like = "q"
cap = 5
default = { simt = "small" }
constants = { format = "b" }
buckets = { n = "exact" }

[[families.like_q.members]]
name = "small"
tile_m = 16

[[families.like_q.members]]
name = "medium"
tile_m = 32
""",
    )
    families = load().families
    made, other = families["like_q"], families["q"]
    assert [(it.name, it.parameters["tile_m"]) for it in made.members] == [
        ("small", 16),
        ("large", 64),
        ("medium", 32),
    ]
    assert made.cap == 5
    assert made.default == {"c": "small", "simt": "small"}
    assert made.constants == {"format": "b"}
    assert made.buckets == {"m": "pow2_up", "n": "exact"}
    assert (made.design, made.problem, made.requires) == (
        other.design,
        other.problem,
        other.requires,
    )
    assert [it.name for it in other.members] == ["small", "large"]
    assert (other.cap, other.default) == (3, {"c": "small"})


def test_the_other_may_stand_below(load: Load, base: Path) -> None:
    text = (base / "families.toml").read_text()
    (base / "families.toml").write_text('[families.like_q]\nlike = "q"\n' + text)
    assert load().families["like_q"].design == "gemm"


MORE = """
[[families.q.members]]
name     = "theirs"
tile_m   = 24
dialects = ["c"]
"""


def test_a_member_of_a_later_layer_is_the_others_alone(
    load: Load, base: Path, tmp_path: Path
) -> None:
    added(base, '[families.like_q]\nlike = "q"\n')
    families = load(layer(tmp_path / "over", MORE)).families
    assert families["q"].member("theirs") is not None
    assert families["like_q"].member("theirs") is None


def test_a_layer_that_says_it_again_takes_the_other_as_it_is_there(
    load: Load, base: Path, tmp_path: Path
) -> None:
    added(base, '[families.like_q]\nlike = "q"\ncap = 7\n')
    again = MORE + '[families.like_q]\nlike = "q"\n'
    made = load(layer(tmp_path / "over", again)).families["like_q"]
    assert made.member("theirs") is not None
    assert made.cap == 7


def test_with_the_others_design_gone_it_is_dormant_too(load: Load, tmp_path: Path) -> None:
    family = '[families.w]\ndesign = "gone"\nproblem = ["n"]\nmembers = [{ name = "a" }]\n'
    shipped = layer(tmp_path / "acme", family + '[families.like_w]\nlike = "w"\n')
    settings = load(plugin_files=[("acme", shipped / "families.toml")])
    assert settings.dormant["like_w"] == settings.dormant["w"]
    assert "gone" in settings.dormant["w"]


LIKE = '[families.like_q]\nlike = "q"\n'


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ('[families.a]\nlike = "qq"', "families.a.like", "found 'qq'; did you mean 'q'?"),
        ('[families.a]\nlike = "a"', "families.a.like", "found 'a'; "),
        (LIKE + '[families.a]\nlike = "like_q"', "families.a.like", "like another family itself"),
        (
            '[families.a]\nlike = "b"\n[families.b]\nlike = "a"',
            "families.a.like",
            "found 'b', which is like another family itself; allowed: a family that states its",
        ),
        ("[families.a]\nlike = 3", "families.a.like", "found 3"),
        (LIKE + 'constants = { x = "y" }', "families.like_q.constants", "x is no constant"),
        (LIKE + 'default = { c = "lrge" }', "families.like_q.default.c", "found 'lrge'"),
        (LIKE + 'requires = ["member.tile_m > 8"]', "families.q.members.small", "is not met"),
    ],
)
def test_what_is_wrong_is_named(
    base: Path, refused: Callable[..., str], text: str, path: str, said: str
) -> None:
    whole = (base / "families.toml").read_text() + text
    assert said in refused("families.toml", whole, path)


def test_a_chain_over_two_layers_is_refused(load: Load, base: Path, tmp_path: Path) -> None:
    added(base, LIKE)
    over = layer(tmp_path / "over", '[families.a]\nlike = "like_q"\n')
    with pytest.raises(XpuConfigError, match="found 'like_q', which is like another family itself"):
        load(over)
