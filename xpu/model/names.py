"""Hints for a name that was not found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Say which name was probably meant, and which are allowed."""
    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1)
    shown = ", ".join(names) if names else "nothing is declared"
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}allowed: {shown}"
