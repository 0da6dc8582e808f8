"""The kinds of value that configuration holds.

Each kind checks a value as TOML gives it and describes itself as JSON Schema, so that
one declaration (`xpu.settings.tables`) serves the validator and editors alike.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model import nearest
from xpu.settings.places import Place, shown

LARGEST: Final = 2**40
"""The largest whole number anywhere in configuration; the same as a problem's largest size."""


class Kind(ABC):
    """What a value must be."""

    wanted: str

    @abstractmethod
    def check(self, value: Any, place: Place) -> None:
        """Raise `XpuConfigError` at its place when a value is not of this kind."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""

    def refused(self, value: object, place: Place) -> XpuConfigError:
        """Make the error for a value of another kind."""
        return place.error(f"found {shown(value)}; allowed: {self.wanted}")


@attrs.frozen
class Text(Kind):
    """A text that is not empty; of a pattern, or one of a few, where that is given."""

    pattern: str | None = None
    choices: tuple[str, ...] = ()
    wanted: str = "a text that is not empty"

    def check(self, value: Any, place: Place) -> None:
        """Check type, pattern and choices."""
        if not isinstance(value, str) or not value:
            raise self.refused(value, place)
        if self.choices and value not in self.choices:
            raise place.error(f"found {shown(value)}; {nearest(value, self.choices)}")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise self.refused(value, place)

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        made: dict[str, Any] = {"type": "string", "minLength": 1}
        if self.pattern:
            made["pattern"] = f"^(?:{self.pattern})$"
        if self.choices:
            made["enum"] = list(self.choices)
        return made


@attrs.frozen
class Whole(Kind):
    """A whole number of at least `least`; true and false are none."""

    least: int = 0

    @property
    def wanted(self) -> str:  # type: ignore[override]  # derived here, a field there
        """What is allowed, in words."""
        return f"a whole number from {self.least} to {LARGEST}"

    def check(self, value: Any, place: Place) -> None:
        """Check type and range."""
        if type(value) is not int or not self.least <= value <= LARGEST:
            raise self.refused(value, place)

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {"type": "integer", "minimum": self.least, "maximum": LARGEST}


@attrs.frozen
class Constant(Kind):
    """A whole number or a text."""

    wanted: str = "a text or a whole number"

    def check(self, value: Any, place: Place) -> None:
        """Check type and range."""
        if type(value) not in (int, str) or (isinstance(value, int) and abs(value) > LARGEST):
            raise self.refused(value, place)

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {"type": ["string", "integer"]}


@attrs.frozen
class Flag(Kind):
    """True or false."""

    wanted: str = "true or false"

    def check(self, value: Any, place: Place) -> None:
        """Check the type."""
        if not isinstance(value, bool):
            raise self.refused(value, place)

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {"type": "boolean"}


@attrs.frozen
class Count(Kind):
    """A whole number of 1 or more, or an expression that is one for each member."""

    wanted: str = "a whole number of 1 or more, or an expression over member.* in quotes"

    def check(self, value: Any, place: Place) -> None:
        """Check type and range; what an expression may name is checked once all is read."""
        is_count = type(value) is int and 1 <= value <= LARGEST
        if not is_count and (not isinstance(value, str) or not value):
            raise self.refused(value, place)

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {"type": ["integer", "string"], "minimum": 1, "maximum": LARGEST, "minLength": 1}


@attrs.frozen
class Formula(Kind):
    """An expression; a number is one too. What it may name is checked once all is read."""

    wanted: str = "an expression in quotes, or a number"

    def check(self, value: Any, place: Place) -> None:
        """Check the type, and that a number is finite."""
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            raise self.refused(value, place)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refused(value, place)

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {"type": ["string", "number"], "minLength": 1}


@attrs.frozen
class ListOf(Kind):
    """A list of values of one kind, none of them twice."""

    item: Kind
    least: int = 0

    @property
    def wanted(self) -> str:  # type: ignore[override]  # derived here, a field there
        """What is allowed, in words."""
        return f"a list, each item {self.item.wanted}" + (", at least one" if self.least else "")

    def check(self, value: Any, place: Place) -> None:
        """Check type, length, every item, and that none stands there twice."""
        if not isinstance(value, list) or len(value) < self.least:
            raise self.refused(value, place)
        for number, item in enumerate(value):
            self.item.check(item, place)
            if item in value[:number]:
                raise place.error(f"found {shown(item)} twice; allowed: once")

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        made = {"type": "array", "items": self.item.schema(), "uniqueItems": True}
        return made | ({"minItems": self.least} if self.least else {})


@attrs.frozen
class MapOf(Kind):
    """A table of entries with free names, each of one kind."""

    item: Kind
    names: Text
    wanted: str = "a table"

    def check(self, value: Any, place: Place) -> None:
        """Check type, names and entries."""
        if not isinstance(value, dict):
            raise self.refused(value, place)
        for name, item in value.items():
            if not re.fullmatch(self.names.pattern or ".+", name):
                raise place.below(name).error(
                    f"found the name {name!r}; allowed: {self.names.wanted}"
                )
            self.item.check(item, place.below(name))

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {
            "type": "object",
            "propertyNames": self.names.schema(),
            "additionalProperties": self.item.schema(),
        }


@attrs.frozen
class Key:
    """A key of a table: its kind and one line on it.

    `is_required`: every table states it. `is_needed`: some layer must have stated it once
    all layers are read.
    """

    kind: Kind
    summary: str
    is_required: bool = False
    is_needed: bool = False


@attrs.frozen
class Table(Kind):
    """A table of known keys; where `others` is given, further keys are of that kind."""

    keys: Mapping[str, Key]
    others: Kind | None = None
    wanted: str = "a table"

    def check(self, value: Any, place: Place) -> None:
        """Check type, keys, values, and that nothing required is missing."""
        if not isinstance(value, dict):
            raise self.refused(value, place)
        for name, item in value.items():
            if name in self.keys:
                self.keys[name].kind.check(item, place.below(name))
            else:
                self._check_other(name, item, place.below(name))
        for name, key in self.keys.items():
            if key.is_required and name not in value:
                raise place.below(name).error(f"found nothing; it must be {key.kind.wanted}")

    def _check_other(self, name: str, item: Any, place: Place) -> None:
        if self.others is None:
            raise place.error(f"found the unknown key {name!r}; {nearest(name, self.keys)}")
        try:
            self.others.check(item, place)
        except XpuConfigError as error:
            # A misspelt key of the table lands here, so say the keys as well.
            raise XpuConfigError(f"{error}; keys besides: {nearest(name, self.keys)}") from None

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        required = [name for name, key in self.keys.items() if key.is_required]
        made: dict[str, Any] = {
            "type": "object",
            "properties": {
                name: {"description": key.summary} | key.kind.schema()
                for name, key in self.keys.items()
            },
            "additionalProperties": self.others.schema() if self.others else False,
        }
        return made | ({"required": required} if required else {})


@attrs.frozen
class Entries(Kind):
    """A list of tables, each known by the text under `identity`."""

    table: Table
    identity: str
    wanted: str = "a list of tables, each under its key in [[ ]]"

    def check(self, value: Any, place: Place) -> None:
        """Check type and every entry."""
        if not isinstance(value, list):
            raise self.refused(value, place)
        for number, item in enumerate(value, start=1):
            name = item.get(self.identity) if isinstance(item, dict) else None
            where = name if isinstance(name, str) and name else f"#{number}"
            self.table.check(item, place.below(where))

    def schema(self) -> dict[str, Any]:
        """Return the kind as JSON Schema."""
        return {"type": "array", "items": self.table.schema()}
