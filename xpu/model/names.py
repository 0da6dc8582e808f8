"""Hints for a name that was not found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Say which name was probably meant, and which are allowed."""
    names = sorted(allowed)
    shown = ", ".join(names) if names else "nothing is declared"
    return f"{probably(name, names)}allowed: {shown}"


def probably(name: str, allowed: Iterable[str]) -> str:
    """Ask whether a name was meant, where one is near; too many are allowed to name them."""
    close = difflib.get_close_matches(name, sorted(allowed), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
