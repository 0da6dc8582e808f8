"""Layers put over one another: members and rules are added or replaced, keys replaced.

What comes out remembers the file of every key, so that a later check can name it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from xpu.model import nearest
from xpu.settings.kinds import Table
from xpu.settings.places import File, Place, shown
from xpu.settings.tables import FAMILY, POLICY, PROBE


@attrs.define
class Entry:
    """One table after merging: its values, and the file that gave each key.

    `files` holds sub-keys as well (``default.c``), and under the empty key the last file
    that spoke of the entry: lower ones were most likely right without it.
    """

    path: tuple[str, ...]
    values: dict[str, Any]
    files: dict[str, File]

    @classmethod
    def of(cls, path: tuple[str, ...], values: dict[str, Any], file: File) -> Entry:
        """Make an entry of one file's table."""
        entry = cls(path, {}, {"": file})
        entry.update(values, file)
        return entry

    def update(self, values: dict[str, Any], file: File) -> None:
        """Replace keys; a table's keys are replaced one by one."""
        self.files[""] = file
        for key, value in values.items():
            if isinstance(value, dict):
                self.values[key] = {**self.values.get(key, {}), **value}
                self.files |= {f"{key}.{below}": file for below in value}
            else:
                self.values[key] = value
            self.files[key] = file

    def place(self, *keys: str) -> Place:
        """Return the place of a key, or of the entry itself."""
        file = self.files.get(".".join(keys)) or self.files.get(keys[0] if keys else "")
        return Place(file or self.files[""]).below(*self.path, *keys)


@attrs.define
class FamilyEntry(Entry):
    """A family's table, with its members and its routes in order.

    `is_like` is the family that it takes from what no layer says of it; see `xpu.settings.like`.
    """

    members: dict[str, Entry] = attrs.field(factory=dict)
    is_like: FamilyEntry | None = None
    routes: dict[str, Entry] = attrs.field(factory=dict)

    @property
    def stated(self) -> set[str]:
        """The needed keys that stand elsewhere than in `values`, or that routes stand for."""
        return {"design", "members"} if self.routes else {"members"} if self.members else set()


@attrs.define
class Merged:
    """All layers as one."""

    families: dict[str, FamilyEntry] = attrs.field(factory=dict)
    rules: list[Entry] = attrs.field(factory=list)
    buckets: dict[str, Entry] = attrs.field(factory=dict)
    probes: dict[str, Entry] = attrs.field(factory=dict)

    def add(self, layer: Iterable[tuple[File, dict[str, Any]]]) -> None:
        """Put one layer's files over what is there.

        Raises
        ------
        XpuConfigError
            Two members of a family, two routes to one, or two rules of one id and title, in
            this layer.
        """
        seen: dict[tuple[str, ...], File] = {}
        for file, tables in layer:
            for name, values in tables.get("families", {}).items():
                self._add_family(name, values, file, seen)
            for values in tables.get("rules", ()):
                self._add_rule(values, file, seen)
            for name, values in tables.get("buckets", {}).items():
                # What belongs to one kind of policy means nothing to another.
                _add(self.buckets, ("buckets", name), values, file, is_whole="kind" in values)
            for name, values in tables.get("probes", {}).items():
                _add(self.probes, ("probes", name), values, file)

    def complete(self) -> None:
        """Check that every entry states what it needs, now that all layers are there.

        Raises
        ------
        XpuConfigError
            A key that is needed is in no layer.
        """
        for family in self.families.values():
            _complete(family, FAMILY, self.families, present=family.stated)
        for policy in self.buckets.values():
            _complete(policy, POLICY, self.buckets)
        for probe in self.probes.values():
            _complete(probe, PROBE, self.probes)

    def _add_family(
        self, name: str, values: dict[str, Any], file: File, seen: dict[tuple[str, ...], File]
    ) -> None:
        rest = {key: value for key, value in values.items() if key not in ("members", "routes")}
        family = self.families.get(name)
        if family is None:
            family = self.families[name] = FamilyEntry(("families", name), {}, {"": file})
        family.update(rest, file)
        lists = (("members", "name", family.members), ("routes", "family", family.routes))
        for key, identity, entries in lists:
            for each in values.get(key, ()):
                path = ("families", name, key, each[identity])
                _once(path, path, file, seen)
                entries[each[identity]] = Entry.of(path, each, file)

    def _add_rule(
        self, values: dict[str, Any], file: File, seen: dict[tuple[str, ...], File]
    ) -> None:
        identity = (values["id"], values["title"])
        rule = Entry.of(("rules", values["id"]), values, file)
        _once(("rules", *identity), rule.path, file, seen)
        ids = [(it.values["id"], it.values["title"]) for it in self.rules]
        if identity in ids:
            self.rules[ids.index(identity)] = rule
            return
        same = [number for number, (known, _) in enumerate(ids) if known == values["id"]]
        self.rules.insert(same[-1] + 1 if same else len(ids), rule)


def _add(
    entries: dict[str, Entry],
    path: tuple[str, ...],
    values: dict[str, Any],
    file: File,
    *,
    is_whole: bool = False,
) -> None:
    known = entries.get(path[-1])
    if known is None or is_whole:
        entries[path[-1]] = Entry.of(path, values, file)
    else:
        known.update(values, file)


def _once(
    identity: tuple[str, ...], path: tuple[str, ...], file: File, seen: dict[tuple[str, ...], File]
) -> None:
    if identity in seen:
        where = "" if seen[identity] == file else f", in {seen[identity].path} too"
        raise (
            Place(file)
            .below(*path)
            .error(
                f"found {shown(identity[-1])} twice{where}; allowed: once in a layer; rename one"
            )
        )
    seen[identity] = file


def _complete(
    entry: Entry, table: Table, siblings: Iterable[str], present: Iterable[str] = ()
) -> None:
    stated = {*entry.values, *present}
    lacking = [name for name, key in table.keys.items() if key.is_needed and name not in stated]
    if not lacking:
        return
    name = entry.path[-1]
    others = [other for other in siblings if other != name]
    message = f"found no {', no '.join(repr(key) for key in lacking)}, which it must state"
    if table is FAMILY and "design" in lacking:
        message += f"; no lower layer declares a family {name!r}: {nearest(name, others)}"
    raise entry.place().error(message)
