"""Every way in which a table can be wrong, with file, key path, found and allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from xpu.errors import XpuConfigError
from xpu.settings import Vocabulary

Refused = Callable[..., str]
F, R, B, P = "families.toml", "rules.toml", "buckets.toml", "probes.toml"
Q, LARGE = "families.q", "families.q.members.large"

KEYS = [
    # unknown and missing keys
    (F, ('design    = "gemm"', 'desing = "gemm"'), f"{Q}.desing", "did you mean 'design'?"),
    (F, ('design    = "gemm"', ""), Q, "found no 'design', which it must state"),
    (F, ('[[families.q.members]]\nname   = "small"\ntile_m = 8', ""), f"{Q}.default.c", "'small'"),
    (F, "[families.x]\ndesign = 'gemm'\nproblem = ['m']", "families.x", "found no 'members'"),
    (F, ('name   = "small"', ""), f"{Q}.members.#1.name", "found nothing"),
    (R, ('title = "tiles"', ""), "rules.R2.title", "found nothing"),
    (R, ('id    = "R2"', ""), "rules.#2.id", "found nothing"),
    (R, ('need  = "kernel', 'needs = "kernel'), "rules.R1.needs", "did you mean 'need'?"),
    (B, ('kind  = "pow2"', ""), "buckets.pow2_up", "found no 'kind'"),
    (B, ("most  = 4096", "max = 4096"), "buckets.pow2_up.max", "found the unknown key 'max'"),
    (P, ('families = ["q"]', ""), "probes.look", "found no 'families'"),
    (P, ("problems", "problem"), "probes.look.problem", "did you mean 'problems'?"),
]
TYPES = [
    (F, ("cap       = 3", "cap = true"), f"{Q}.cap", "found true; allowed: a whole number"),
    (F, ("cap       = 3", "cap = 3.0"), f"{Q}.cap", "found 3.0; allowed: a whole number"),
    (F, ("cap       = 3", "cap = 0"), f"{Q}.cap", "found 0; allowed: a whole number from 1"),
    (F, ("cap       = 3", "cap = '3'"), f"{Q}.cap", "found '3'"),
    (F, ("tile_m   = 64", "tile_m = '64'"), f"{LARGE}.tile_m", "found '64'"),
    (F, ("tile_m   = 64", "tile_m = -64"), f"{LARGE}.tile_m", "found -64"),
    (F, ("tile_m   = 64", f"tile_m = {2**63}"), f"{LARGE}.tile_m", f"found {2**63}"),
    (F, ("tile_m   = 64", "tile_m = false"), f"{LARGE}.tile_m", "found false"),
    (F, ("dialects =", "dialect ="), f"{LARGE}.dialect", "did you mean 'dialects'?"),
    (F, ('dialects = ["c"]', 'dialects = "c"'), f"{LARGE}.dialects", "found 'c'; allowed: a list"),
    (F, ('dialects = ["c"]', "dialects = []"), f"{LARGE}.dialects", "at least one"),
    (F, ('["m", "n"]', '["m", "m"]'), f"{Q}.problem", "found 'm' twice"),
    (F, ('["m", "n"]', "[1]"), f"{Q}.problem", "found 1; allowed: a word"),
    (F, ('{ c = "small" }', '"small"'), f"{Q}.default", "found 'small'; allowed: a table"),
    (F, ('format = "a"', "format = 1.5"), f"{Q}.constants.format", "found 1.5"),
    (F, ('["member.tile_m % 8 == 0"]', "[8]"), f"{Q}.requires", "found 8; allowed: an expression"),
    (F, ('"large"', '"../large"'), f"{Q}.members.'../large'.name", "allowed: a name"),
    (F, ("families.v]", 'families."a/b"]'), "families.'a/b'", "allowed: a name"),
    (F, "families = 3", "families", "found 3; allowed: a table"),
    (R, "[rules]", "rules", "allowed: a list of tables"),
    (R, ("limit = 0", "limit = true"), "rules.R1.limit", "found true; allowed: an expression"),
    (R, ("limit = 0", "limit = nan"), "rules.R1.limit", "found nan"),
    (R, ("limit = 0", "limit = ''"), "rules.R1.limit", "found ''"),
    (R, ('"need > limit"', "1"), "rules.R1.prune_when", "found 1; allowed: an expression"),
    (B, ('round = "up"', 'round = "upp"'), "buckets.pow2_up.round", "did you mean 'up'?"),
    (B, ('"list"', '"lst"'), "buckets.some.kind", "did you mean 'list'?"),
    (B, ("values = [1, 2, 8]", "values = [1, true]"), "buckets.some.values", "found true"),
    (P, ("problems =", "memory = 'hot'\nproblems ="), "probes.look.memory", "allowed: cold, warm"),
    (P, ('["q"]', '"q"'), "probes.look.families", "found 'q'; allowed: a list"),
]
NAMES = [
    (F, ('"gemm"', '"gem"'), f"{Q}.design", "found 'gem'; did you mean 'gemm'?"),
    (F, ('"gemm"', '"nothing_like_it"'), f"{Q}.design", "allowed: gemm, vec"),
    (F, ('m = "pow2_up"', 'm = "pow2_u"'), f"{Q}.buckets.m", "did you mean 'pow2_up'?"),
    (F, ('m = "pow2_up"', 'k = "pow2_up"'), f"{Q}.buckets.k", "found 'k'; allowed: m, n"),
    (F, ('["m", "n"]', '["m", "k"]'), f"{Q}.problem", "found 'k'; allowed: m, n"),
    (F, ('["m", "n"]', '["m"]'), f"{Q}.problem", "design 'gemm' takes m, n"),
    (F, ('c = "small"', 'c = "smal"'), f"{Q}.default.c", "did you mean 'small'?"),
    (F, ('c = "small"', 'C = "small"'), f"{Q}.default", "found 'C'"),
    (F, ('{ c = "small" }', '{ simt = "large" }'), f"{Q}.default.simt", "whose dialects are c"),
    (F, ('["c"]', '["c", "sim"]'), f"{LARGE}.dialects", "found 'sim'; did you mean 'simt'?"),
    (F, ("tile_m   = 64", "tile_n = 64"), f"{LARGE}.tile_n", "did you mean 'tile_m'?"),
    (F, ("threads ", "thread "), f"{LARGE}.thread", "did you mean 'threads'?"),
    (F, ('"a" }', '"a", fmt = 1 }'), f"{Q}.constants", "fmt is no constant of gemm"),
    (R, ("kernel.spill", "kernel.spil"), "rules.R1.need", "did you mean 'kernel.spill_bytes'?"),
    (R, ("member.tile_m", "member.tile_x"), "rules.R2.need", "no fact is called 'member.tile_x'"),
    (R, ("problem.m", "problem.mm"), "rules.R2.need", "'problem.mm'"),
    (R, ("device.multi", "device.mult"), "rules.R2.limit", "did you mean 'device.multiprocessors'"),
    (R, ('"need < limit"', '"nead < limit"'), "rules.R2.records.short", "did you mean 'need'?"),
    (R, ("limit = 0", 'limit = "need"'), "rules.R1.limit", "'need' is not allowed"),
    (R, ("limit = 0\n", ""), "rules.R1.prune_when", "'limit' is not allowed"),
    (P, ('["q"]', '["qq"]'), "probes.look.families", "found 'qq'; did you mean 'q'?"),
    (P, ('"8x64"', '"8x64x2"'), "probes.look.problems", "found '8x64x2' for family 'q'"),
    (P, ('"8x64"', '"8 by 64"'), "probes.look.problems", "for instance 4096x4096"),
    (P, ('"8x64"', f'"8x{2**50}"'), "probes.look.problems", "allowed: 0 to"),
]
SENSE = [
    (R, ('records = { short = "need < limit" }', ""), "rules.R2", "neither 'prune_when' nor"),
    (B, ("values = [1, 2, 8]", "step = 8"), "buckets.some", "kind 'list' needs values"),
    (B, ("values = [1, 2, 8]", "values = [8, 2]"), "buckets.some", "values ascend"),
    (F, ("tile_m   = 64", "tile_m = 60"), LARGE, "'member.tile_m % 8 == 0' is not met"),
    (F, ("tile_m   = 64", "depth = 8"), LARGE, "the member has depth = 8, threads = 128"),
    (F, ("tile_m   = 64", "depth = 8"), LARGE, "reads what this member does not set"),
    (F, ("member.tile_m % 8", "device.cores % 8"), f"{Q}.requires", "device.cores"),
    (F, ("member.tile_m % 8", "member.tile_n % 8"), f"{Q}.requires", "'member.tile_m'"),
    (F, ("member.tile_m % 8", "launch.threads % 8"), f"{Q}.members.small", "does not set"),
    (F, ('"large"', '"small"'), f"{Q}.members.small", "found 'small' twice"),
    (
        R,
        ('"R2"\ntitle = "tiles"', '"R1"\ntitle = "spill bytes"'),
        "rules.R1",
        "'spill bytes' twice",
    ),
]
HOSTILE = [
    "__import__('os').system('true')",
    "member.__class__",
    "9 ** 9 ** 9",
    "lambda: 1",
    "max(1, " * 60 + "1" + ")" * 60,
    "1 + " * 5000 + "1",
    "kernel.registers.real",
    "exec('1')",
    "1 if",
    "'text'",
]


@pytest.mark.parametrize(("file", "change", "path", "said"), [*KEYS, *TYPES, *NAMES, *SENSE])
def test_what_is_wrong_is_named(
    refused: Refused, file: str, change: Any, path: str, said: str
) -> None:
    assert said in refused(file, change, path)


@pytest.mark.parametrize("expression", HOSTILE)
@pytest.mark.parametrize("key", ["need", "records.note", "prune_when"])
def test_a_hostile_expression_is_refused_where_it_stands(
    refused: Refused, expression: str, key: str
) -> None:
    rule = f'[[rules]]\nid = "R9"\ntitle = "t"\nprune_when = "1 > 2"\n{key} = "{expression}"\n'
    if key == "prune_when":
        rule = rule.replace('prune_when = "1 > 2"\n', "")
    assert len(refused("rules.toml", rule, f"rules.R9.{key}")) < 700


def test_a_misspelt_family_of_a_higher_layer_is_told_the_nearest(
    load: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[families.qq.members]]\nname = "t"\n')
    with pytest.raises(XpuConfigError) as raised:
        load(config=path)
    assert str(raised.value).startswith(f"{path}: families.qq: found no 'design', no 'problem'")
    assert "no lower layer declares a family 'qq': did you mean 'q'?" in str(raised.value)


def test_an_error_names_the_file_of_the_layer_that_is_wrong(
    load: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    for text, where in (
        ('[families.q]\ndefault = { simt = "medium" }', "families.q.default.simt"),
        ("[[families.q.members]]\nname = 'odd'\ntile_m = 9", "families.q.members.odd"),
        ("[probes.look]\nproblems = ['1']", "probes.look.problems"),
        ("[buckets.pow2_up]\nleast = 5000", "buckets.pow2_up"),
    ):
        path.write_text(text)
        with pytest.raises(XpuConfigError) as raised:
            load(config=path)
        assert str(raised.value).startswith(f"{path}: {where}: ")


def test_a_member_that_fails_what_a_higher_layer_requires_names_both_files(
    load: Callable[..., Any], base: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[families.q]\nrequires = ['member.tile_m > 8']")
    with pytest.raises(XpuConfigError) as raised:
        load(config=path)
    said = str(raised.value)
    assert said.startswith(f"{base / F}: families.q.members.small: requires 'member.tile_m > 8'")
    assert said.endswith(f"the member has tile_m = 8; {path} requires it")


def test_a_design_that_raises_on_constants_is_a_named_error(
    load: Callable[..., Any], vocabulary: Vocabulary, base: Path
) -> None:
    def fails(_self: object, _constants: object) -> str:
        raise KeyError("format")

    design = vocabulary.designs["gemm"]
    type(design).check_constants = fails  # type: ignore[method-assign,assignment]
    with pytest.raises(XpuConfigError) as raised:
        load(vocabulary=attrs.evolve(vocabulary, designs={"gemm": design}, missing=("x",)))
    said = str(raised.value)
    assert said.startswith(
        f"{base / F}: families.q.constants: design 'gemm' failed on them: KeyErr"
    )
