"""The pages of what compilers make of every member: nobody left out, in the form of the command."""

from __future__ import annotations

import importlib
import importlib.util
import re
import types
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

from xpu.errors import XpuBuildError
from xpu.model import Operation
from xpu.orchestrator import settings_for
from xpu.registry import default_registry

AGAIN = "run: python docs/kernels_by_target.py"


@pytest.fixture(scope="module")
def script(root: Path) -> types.ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "docs"))  # it imports its neighbour
        path = root / "docs/kernels_by_target.py"
        spec = importlib.util.spec_from_file_location("kernels_by_target", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.pages = importlib.import_module("kernel_pages")
    return module


@pytest.fixture(scope="module")
def settings() -> Any:
    settings = settings_for(default_registry())
    if settings.dormant:
        pytest.skip(f"designs of {', '.join(settings.dormant)} are not installed")
    return settings


def tables(text: str) -> dict[str, list[list[str]]]:
    """Return the rows of each family's table on a page, heads first."""
    found = re.findall(r"<summary>(\w+): \d+ members</summary>\n\n(.*?)\n\n</details>", text, re.S)
    return {
        family: [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.split("\n")]
        for family, rows in found
    }


@pytest.mark.parametrize("backend", ["cuda", "hip", "cpu"])
def test_every_member_stands_there_once_for_every_target(
    script: types.ModuleType, settings: Any, backend: str
) -> None:
    registry = default_registry()
    if backend not in registry.backends:
        pytest.skip(f"backend {backend} is not installed")
    dialect = registry.backend(backend).dialect
    text = (script.PAGES / f"{backend}.md").read_text("utf-8")
    shown = Counter(
        (family, row[0], row[1]) for family, rows in tables(text).items() for row in rows[2:]
    )
    expected = Counter(
        (family.name, member.name, target)
        for family in settings.families.values()
        for member in script.members_of(registry, family, dialect)
        for target in script.TARGETS[backend]
    )
    assert shown == expected, AGAIN
    heads = {tuple(rows[0]) for rows in tables(text).values()}
    assert heads == {("member", *script.pages.COLUMNS[backend])}, AGAIN
    assert "fails:" not in text


@pytest.mark.parametrize(
    ("backend", "target"), [("cuda", "sm_89"), ("hip", "gfx1151"), ("cpu", "sapphirerapids")]
)
def test_a_row_is_what_the_command_writes(
    script: types.ModuleType, settings: Any, backend: str, target: str
) -> None:
    registry = default_registry()
    if backend not in registry.backends:
        pytest.skip(f"backend {backend} is not installed")
    family = settings.family("q4k_matvec")
    try:
        registry.backend(backend).compiler()
    except XpuBuildError as missing:
        pytest.skip(str(missing))
    first = script.members_of(registry, family, registry.backend(backend).dialect)[0]
    one = attrs.evolve(family, members=(first,), default={})
    (line,) = script.lines(registry, settings, backend, [target], [one])
    assert line.error == ""
    written = next(
        row
        for row in tables((script.PAGES / f"{backend}.md").read_text("utf-8"))["q4k_matvec"]
        if row[:2] == [first.name, target]
    )
    fresh = list(script.pages.cells(line, script.pages.COLUMNS[backend]))
    assert len(fresh) == len(written)
    # Registers and the like are one compiler's; what the member states is everyone's.
    for name in {"target", "block", "dynamic B"} & set(script.pages.COLUMNS[backend]):
        at = 1 + script.pages.COLUMNS[backend].index(name)
        assert fresh[at] == written[at], AGAIN
    if line.said is not None:
        assert line.said.resident_groups is not None


def test_the_big_member_serves_one_part_and_a_small_one_the_other(script: types.ModuleType) -> None:
    text = (script.PAGES / "README.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.partition("## One source, two parts")[2].splitlines()
        if line.startswith("| ") and not line.startswith("| member")
    ]
    big = [row for row in rows if row[2] == "survives" and row[4].startswith("R3: ")]
    small = [row for row in rows if row[2] == row[4] == "survives"]
    assert big
    assert small
    for row in big:
        need, limit = map(int, row[4].removeprefix("R3: ").split(" > "))
        assert row[3] == f"{need} of {limit}"
        assert need > limit
        assert limit == 65536
    for row in rows:
        assert row[1].endswith(" of 101376")


def test_an_operation_is_written_short(script: types.ModuleType) -> None:
    long = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
    assert script.pages.short(Operation(long)) == "mma m16n8k32 s8"
    assert script.pages.short(Operation("dp4a.s32.s32")) == "dp4a"
    assert script.pages.short(Operation("v_dot4_i32_iu8")) == "v_dot4_i32_iu8"


def test_tiers_are_written_by_matrix_else_by_instruction(script: types.ModuleType) -> None:
    native, software = (
        Operation("int8->int32:8x16x32"),
        Operation("int8->int32:16x16x16", "software"),
    )
    dot = Operation("dp4a.s32.s32")
    said = script.pages.tiers
    assert said([native, software, dot]) == "native: int8 8x16x32; software: int8 16x16x16"
    assert said([dot]) == "native"
    assert said([]) == "-"
