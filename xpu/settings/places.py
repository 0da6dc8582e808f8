"""Where a value of the configuration stands, for messages that can be acted on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from xpu.errors import XpuConfigError

_BARE: Final = re.compile(r"[A-Za-z0-9_#-]+")


@attrs.frozen
class File:
    """One TOML file that is read.

    `plugin` is the plugin that ships it, if one does. `is_users` holds for what a person
    wrote here: their directory, ``$XPU_CONFIG_DIR`` and ``config=``.
    """

    path: Path
    plugin: str = ""
    is_users: bool = False

    def __str__(self) -> str:
        if not self.plugin:
            return str(self.path)
        return f"{self.path} (of plugin {self.plugin!r}; XPU_PLUGINS=-{self.plugin} blocks it)"


@attrs.frozen
class Place:
    """A file and the keys that lead to a value, shown as ``families.q4k_tile.cap``."""

    file: File
    keys: tuple[str, ...] = ()

    def below(self, *keys: str) -> Place:
        """Return the place of a key within this one."""
        return Place(self.file, self.keys + keys)

    def error(self, said: str) -> XpuConfigError:
        """Make the error that says what is wrong here."""
        path = ".".join(key if _BARE.fullmatch(key) else repr(key) for key in self.keys)
        return XpuConfigError(": ".join(part for part in (str(self.file), path, said) if part))


def shown(value: object) -> str:
    """Return a value as a message shows it: as TOML has it, and not at length."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else _text(value)
    return f"{text[:77]}..." if len(text) > 80 else text


def _text(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to print a whole number of thousands of digits
        return "a number of thousands of digits"
