"""Writes into `config/families.toml` which shipped kernels spill, as they are compiled here.

    python docs/tracked_spills.py sm_90 gfx1151 …

All members are built for the targets, those past a cap too. What is found for a target and a
compiler takes the place of what stood there of them; of others nothing is changed. When spills
come or go, `xpu build` fails until this has been run or the kernel is mended.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from xpu.adaptor import BatchAdaptor, BuildCache
from xpu.adaptor.gates import Subject, findings
from xpu.errors import XpuBuildError
from xpu.model import Declarations
from xpu.orchestrator import settings_for, targets_of
from xpu.registry import default_registry, speaks

ITEM: Final = "wide tiles"
"""The plan item: see ``decisions/0018-declarations-track-one-gate-each.md``."""

CONFIG: Final = Path(__file__).parents[1] / "config" / "families.toml"

Key = tuple[str, str, str]
"""Backend, target and compiler."""

Spills = dict[Key, set[str]]
"""Members that spill."""


def found(targets: Sequence[str]) -> tuple[dict[str, Spills], set[tuple[str, str]]]:
    """Return the spills of each family, and the targets with the compilers that were looked at.

    Raises
    ------
    XpuConfigError
        No compiler knows a target.
    """
    registry = default_registry()
    families = [each for each in settings_for(registry).families.values() if not each.routes]
    spills: dict[str, Spills] = {}
    seen: set[tuple[str, str]] = set()
    for target in targets_of(registry, targets, None):
        adaptor = BatchAdaptor(target.backend, registry, BuildCache())
        dialect, backend = target.backend.dialect, target.backend.name
        seen.add((target.name, adaptor.identity))
        for family in families:
            if not speaks(registry, family, dialect):
                continue
            results = adaptor.build(family, family.for_dialect(dialect), target.name)
            try:
                preparation = adaptor.preparation(family, target.name)
            except XpuBuildError:
                preparation = None
            where = (family.name, backend, target.name, adaptor.identity)
            for one in findings(Subject(*where, Declarations(), results, preparation)):
                if one.gate == "spill":
                    names = spills.setdefault(family.name, {})
                    names.setdefault((backend, target.name, adaptor.identity), set())
                    names[backend, target.name, adaptor.identity].add(one.member)
    return spills, seen


def stated(families: Mapping[str, Mapping[str, Any]]) -> dict[str, Spills]:
    """Return what a configuration says, each family's own and what it has of another."""
    spills: dict[str, Spills] = {}
    for name, family in families.items():
        source = family if "unlowered" in family else families.get(family.get("like", name), {})
        for entry in source.get("unlowered", ()):
            for target in entry["targets"]:
                for compiler in entry["compilers"]:
                    key = (entry["backend"], target, compiler)
                    spills.setdefault(name, {})[key] = set(entry["members"])
    return spills


def together(
    before: Mapping[str, Spills], now: Mapping[str, Spills], seen: set[tuple[str, str]]
) -> dict[str, Spills]:
    """Return what was stated and not looked at, and what was found."""
    kept = {
        family: {key: names for key, names in spills.items() if key[1:] not in seen}
        for family, spills in before.items()
    }
    for family, spills in now.items():
        kept.setdefault(family, {}).update(spills)
    return kept


def rewritten(text: str, spills: Mapping[str, Spills]) -> str:
    """Return a ``families.toml`` with these entries and no others."""
    text = re.sub(r"\[\[families\.[\w.+-]+\.unlowered\]\]\n(?:[^\[\n][^\n]*\n)*\n?", "", text)
    text = re.sub(r"^unlowered *= *\[\]\n", "", text, flags=re.MULTILINE)
    families = tomllib.loads(text)["families"]
    for name, family in families.items():
        own = spills.get(name, {})
        other = family.get("like")
        if own == (spills.get(other, {}) if other else {}):
            continue
        head = re.search(rf"\[families\.{re.escape(name)}\]\n(?:[^\[\n][^\n]*\n)*", text)
        if head is None:
            raise SystemExit(f"{CONFIG} has no table [families.{name}] to write below")
        added = _entries(name, own) if own else "unlowered = []\n"
        glue = "\n" if own else ""
        text = text[: head.end()] + glue + added + text[head.end() :]
    return text


def _entries(family: str, spills: Spills) -> str:
    """Write a family's entries: one for all targets of a compiler where the same members spill."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (backend, target, compiler), names in spills.items():
        if names:
            groups.setdefault((backend, compiler, tuple(sorted(names))), []).append(target)
    texts = []
    for (backend, compiler, names), targets in sorted(groups.items()):
        lines = {
            "item": json.dumps(ITEM),
            "backend": json.dumps(backend),
            "gate": '"spill"',
            "compilers": json.dumps([compiler]),
            "targets": json.dumps(sorted(targets)),
            "members": json.dumps(list(names)),
        }
        body = "".join(f"{key:9} = {value}\n" for key, value in lines.items())
        texts.append(f"[[families.{family}.unlowered]]\n{body}")
    return "\n".join(texts)


def main(targets: Sequence[str], config: Path) -> None:
    """Rewrite a configuration by what compilers make here."""
    text = config.read_text("utf-8")
    before = stated(tomllib.loads(text)["families"])
    config.write_text(rewritten(text, together(before, *found(targets))), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write down which shipped kernels spill.")
    parser.add_argument("targets", nargs="+", help="targets to compile for")
    parser.add_argument("--config", type=Path, default=CONFIG)
    given = parser.parse_args()
    main(given.targets, given.config)
