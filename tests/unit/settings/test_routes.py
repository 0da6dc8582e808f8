"""Families of routes: what they are made of, layers over them, and everything that is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest

from xpu.errors import XpuConfigError
from xpu.settings import Settings, Vocabulary
from xpu.settings.schema import schemas
from xpu.spec import Argument, Preparation

Load = Callable[..., Settings]
WIDE = """
[families.wide]
design    = "gemm"
problem   = ["m", "n"]
constants = { format = "a" }

[[families.wide.members]]
name   = "only"
tile_m = 8
"""
BOTH = """
[families.both]
problem = ["m", "n"]
buckets = { m = "pow2_up" }

[[families.both.routes]]
family = "q"
when   = "problem.m <= 8"

[[families.both.routes]]
family = "wide"
"""


@pytest.fixture
def routed(base: Path) -> Path:
    """The base with two families that stand for one another, and one of routes to both."""
    file = base / "families.toml"
    file.write_text(file.read_text() + WIDE + BOTH)
    return file


@pytest.fixture
def wrong(routed: Path, load: Load) -> Callable[[str, str], str]:
    """Change the file and return the message with which loading fails, without the file's name."""

    def message(old: str, new: str) -> str:
        assert old in routed.read_text(), "the test changes nothing"
        routed.write_text(routed.read_text().replace(old, new, 1))
        with pytest.raises(XpuConfigError) as raised:
            load()
        said = str(raised.value)
        assert said.startswith(f"{routed}: families.both")
        assert "\n" not in said
        return said.removeprefix(f"{routed}: families.both")

    return message


def test_a_family_of_routes_stands_for_its_families(routed: Path, load: Load) -> None:
    settings = load()
    both = settings.family("both")
    assert [(it.family.name, it.when) for it in both.routes] == [
        ("q", "problem.m <= 8"),
        ("wide", None),
    ]
    assert both.routes[0].family is settings.family("q")
    assert (both.design, both.constants) == ("gemm", {"format": "a"})
    assert both.buckets == {"m": "pow2_up"}
    assert [member.name for member in both.members] == ["q", "wide"]
    assert both.cap == 2
    assert settings.family("wide").routes == ()


def test_a_layer_adds_routes_and_replaces_one_in_its_place(
    routed: Path, load: Load, tmp_path: Path
) -> None:
    over = tmp_path / "over.toml"
    more = WIDE.replace("families.wide", "families.more")
    over.write_text(
        f'{more}\n[[families.both.routes]]\nfamily = "q"\nwhen = "problem.n > 4"\n'
        '[[families.both.routes]]\nfamily = "more"\n'
    )
    routes = load(over).family("both").routes
    assert [(it.family.name, it.when) for it in routes] == [
        ("q", "problem.n > 4"),
        ("wide", None),
        ("more", None),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('family = "wide"', 'family = "wid"', ".routes.wid.family: found 'wid'; did you mean"),
        (
            'family = "wide"',
            'family = "both"',
            ".routes.both.family: found 'both', which has routes itself; allowed: a family with a "
            "design: q, v, wide",
        ),
        ('family = "wide"', 'family = "q"', ".routes.q: found 'q' twice"),
        (
            "problem.m <= 8",
            "problem.rows <= 8",
            ".routes.q.when: expression 'problem.rows <= 8': no fact is called 'problem.rows'",
        ),
        ("problem.m <= 8", "member.tile_m <= 8", ".routes.q.when: expression 'member.tile_m"),
        ("problem.m <= 8", "device.multiprocessors > 8", ".routes.q.when: expression 'device."),
        (
            "problem.m <= 8",
            "launch.threads > 8",
            ".routes.q.when: expression 'launch.threads > 8': 'launch.threads': no fact of "
            "'launch' is known here; allowed: problem.m, problem.n",
        ),
        (
            "problem.m <= 8",
            "problem.m - 8",
            ".routes.q.when: found 'problem.m - 8', which is a figure; allowed: a condition, for "
            "instance problem.m <= 16",
        ),
        (
            "problem.m <= 8",
            "problem.m > 1 and problem.n",
            ".routes.q.when: found 'problem.m > 1 and problem.n', which is a figure",
        ),
        ("problem.m <= 8", "problem.m <= ", ".routes.q.when: expression 'problem.m <="),
        (
            '[families.both]\nproblem = ["m", "n"]',
            '[families.both]\nproblem = ["n", "m"]',
            ".problem: family 'both' takes n, m; its route 'q' takes m, n; routes take the same",
        ),
        ('[families.both]\nproblem = ["m", "n"]', "[families.both]", ": found no 'problem'"),
        ("[families.both]", '[families.both]\ndesign = "gemm"', ".design: found 'design' beside"),
        ("[families.both]", "[families.both]\ncap = 3", ".cap: found 'cap' beside 'routes'; a"),
        (
            "[families.both]",
            '[families.both]\nconstants = { format = "a" }',
            ".constants: found 'constants' beside 'routes'",
        ),
        (
            "[[families.both.routes]]",
            '[[families.both.members]]\nname = "x"\n[[families.both.routes]]',
            ".members: found 'members' beside 'routes'; a family has routes or a design with "
            "members: remove one of the two",
        ),
        (
            'constants = { format = "a" }\n\n[[families.wide',
            'constants = { format = "b" }\n\n[[families.wide',
            ".routes.wide.family: 'wide' is a route of 'both' beside 'q', and its constants are "
            "format = b, those of the other format = a; routes take the same arrays",
        ),
        ('family = "wide"', 'family = "wide"\nwhile = "x"', ".routes.wide.while: found the unkno"),
        ('family = "wide"', 'when = "problem.m > 1"', ".routes.#2.family: found nothing; it must"),
        ('pow2_up" }\n\n[[', 'pow2_up", k = "exact" }\n\n[[', ".buckets.k: found 'k'"),
    ],
)  # fmt: skip
def test_what_is_refused(
    wrong: Callable[[str, str], str], old: str, new: str, message: str
) -> None:
    assert wrong(old, new).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[families.q]\nconstants = { format = "b" }',
            "families.q.constants: 'wide' is a route of 'both' beside 'q', and its constants are "
            "format = a, those of the other format = b; routes take the same arrays: to change one "
            "of them, declare a family of another name that is like it",
        ),
        (
            '[families.q]\nproblem = ["n", "m"]',
            "families.q.problem: family 'both' takes m, n; its route 'q' takes n, m; routes take",
        ),
        (
            '[[families.q.routes]]\nfamily = "wide"',
            "families.q.routes.wide: found a route of a family whose 'design' stands in {base}; a "
            "family has routes or a design with members: declare a family of another name",
        ),
    ],
)
def test_who_breaks_routes_from_above_is_told_of_their_own_file(
    routed: Path, load: Load, tmp_path: Path, text: str, message: str
) -> None:
    over = tmp_path / "over.toml"
    over.write_text(text)
    with pytest.raises(XpuConfigError) as raised:
        load(over)
    assert str(raised.value).startswith(f"{over}: {message.format(base=routed)}")


def test_a_constant_left_out_is_what_its_design_says(
    routed: Path, load: Load, vocabulary: Vocabulary
) -> None:
    routed.write_text(routed.read_text().replace('constants = { format = "a" }\n', "", 1))
    gemm, refused = vocabulary.designs["gemm"], "are format = a, those of the other none; routes"
    with pytest.raises(XpuConfigError, match=refused):
        load()
    gemm.default_constants = {"format": "a"}
    assert load().family("both").routes
    gemm.default_constants = {"format": "b"}
    with pytest.raises(XpuConfigError, match=refused):
        load()


def test_no_family_is_like_one_of_routes(routed: Path, load: Load) -> None:
    routed.write_text(routed.read_text() + '\n[families.more]\nlike = "both"\n')
    said = r"families.more.like: found 'both', which has routes and no design; allowed: a family"
    with pytest.raises(XpuConfigError, match=said):
        load()


class Repacked(Preparation):
    argument = "y"

    def __init__(self, width: int) -> None:
        self.width = width

    def source(self, dialect: str) -> Any: ...

    def sizes(self, raw_shape: Any, constants: Any) -> Any: ...

    def prepared_bytes(self, raw_shape: Any, constants: Any) -> Any: ...


def twins(vocabulary: Vocabulary, here: Any, there: Any, **more: Any) -> Vocabulary:
    """Give designs of two names, whose weights are prepared by `here` and by `there`."""
    gemm, twin = (type("Twin", (type(vocabulary.designs["gemm"]),), {})() for _ in range(2))
    gemm.preparation, twin.preparation, twin.name = here, there, "twin"
    for name, value in more.items():
        setattr(twin, name, value)
    return attrs.evolve(vocabulary, designs={**vocabulary.designs, "gemm": gemm, "twin": twin})


@pytest.fixture
def twinned(routed: Path) -> None:
    text = routed.read_text()
    routed.write_text(text.replace('wide]\ndesign    = "gemm"', 'wide]\ndesign    = "twin"'))


@pytest.mark.parametrize("pair", [(None, None), (Repacked(4), Repacked(4))])
def test_weights_prepared_alike_serve_either(
    twinned: None, vocabulary: Vocabulary, load: Load, pair: tuple[Any, Any]
) -> None:
    assert load(vocabulary=twins(vocabulary, *pair)).family("both").routes


@pytest.mark.parametrize("pair", [(Repacked(4), Repacked(8)), (Repacked(4), None)])
def test_weights_prepared_otherwise_do_not(
    twinned: None, vocabulary: Vocabulary, load: Load, pair: tuple[Any, Any]
) -> None:
    with pytest.raises(XpuConfigError, match=r"its weights are prepared .*, those of the other "):
        load(vocabulary=twins(vocabulary, *pair))


def test_other_arguments_are_refused_with_both(
    twinned: None, vocabulary: Vocabulary, load: Load
) -> None:
    other = (Argument("y", "float16", "write"),)
    differ = r"y \(float16, write\), those of the other y \(float32, write\); routes"
    with pytest.raises(XpuConfigError, match=differ):
        load(vocabulary=twins(vocabulary, None, None, arguments=other))


def test_a_route_to_a_dormant_family_is_left_out(
    twinned: None, vocabulary: Vocabulary, load: Load
) -> None:
    settings = load(vocabulary=attrs.evolve(vocabulary, missing=("twins (failed)",)))
    assert set(settings.dormant) == {"wide"}
    assert [route.family.name for route in settings.family("both").routes] == ["q"]
    bare = load(vocabulary=Vocabulary())
    assert set(bare.dormant) == {"q", "v", "wide", "both"}
    with pytest.raises(
        XpuConfigError, match=r"'both' cannot serve: none of its routes can serve; q"
    ):
        bare.family("both")


def test_the_schema_takes_routes_and_refuses_what_the_validator_does() -> None:
    schema = schemas()["families.schema.json"]
    jsonschema.validate({"families": {"f": {"routes": [{"family": "q", "when": "1 < 2"}]}}}, schema)
    for route in ({"when": "1 < 2"}, {"family": "q", "wen": "1 < 2"}, {"family": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"families": {"f": {"routes": [route]}}}, schema)
