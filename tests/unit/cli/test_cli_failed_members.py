"""A member that does not compile: a person reads the first error, a program the whole text."""

from __future__ import annotations

from pathlib import Path

import pytest

HINT = 'member broken sets no "grain"'


@pytest.fixture(autouse=True)
def without_a_parameter(config: Path) -> Path:
    """Take from one member a parameter that the source needs."""
    families = config / "families.toml"
    head, _, tail = families.read_text().replace("mode = 5", "mode = 0").rpartition("grain = 64\n")
    families.write_text(head + tail)
    return families


def _notes(command: str, document: dict) -> list[str]:
    if command.startswith("explain"):
        members = document["aside"]
    elif command.startswith("bench"):
        members = document["members"]
    else:
        members = document["results"][0]["members"]
    return [one["note"] for one in members if one["name"] == "broken"]


@pytest.mark.parametrize("command", ["bench toy 4096", "explain toy 4096", "probe run"])
def test_the_first_error_is_in_the_table_and_all_of_it_in_json(command, xpu) -> None:
    [whole] = _notes(command, xpu(*command.split(), "--json").document)
    first, *rest = whole.split(" | ")
    assert whole.startswith(f"{HINT}: toy.broken: ")
    assert "XPU_GRAIN" in first
    assert rest
    out = xpu(*command.split()).out
    assert f"{first} …" in out
    assert " | " not in out
    assert out.count("xpu build FAMILY") == 1


@pytest.mark.parametrize("command", ["bench toy 4096", "explain toy 4096", "probe run"])
def test_where_nothing_is_cut_nothing_is_said_of_it(command, xpu, config, without_a_parameter):
    families = without_a_parameter
    families.write_text(families.read_text().rpartition("[[families.toy.members]]")[0])
    assert "…" not in xpu(*command.split()).out


def test_where_all_fail_the_refusal_has_the_first_error_of_each(xpu, without_a_parameter) -> None:
    families = without_a_parameter
    text = families.read_text().replace("grain = 64\n", "").replace("grain = 512\n", "")
    families.write_text(text)
    for command in ("bench toy 4096", "probe run"):
        answer = xpu(*command.split())
        assert answer.status == 1
        said = answer.out + answer.err
        assert 'plain: failed (member plain sets no "grain": toy.plain: ' in said
        assert " | " not in said
    whole = xpu("build", "toy").err
    assert " | " in whole
    assert HINT in whole
