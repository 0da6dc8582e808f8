"""The generated code of two builds side by side, as a tool or the compiler itself writes it."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from xpu.errors import XpuBuildError

if TYPE_CHECKING:
    from xpu.cli.manifest_at import Found

_AROUND: Final = 3
"""Lines shown on either side of what differs."""
_NARROWEST: Final = 40
_IN_A_PIPE: Final = 160
_TAB: Final = 8


@attrs.frozen
class Compared:
    """Two texts of code, and from what both come."""

    form: str
    first: list[str]
    second: list[str]

    def document(self) -> dict[str, Any]:
        """Return what a program reads: the form, and a unified diff's lines."""
        lines = difflib.unified_diff(self.first, self.second, "first", "second", lineterm="")
        return {"form": self.form, "diff": list(lines)}


def compared(first: Found, second: Found) -> Compared:
    """Return the code of two kernels in one form: disassembled, else as the compiler left it.

    Raises
    ------
    XpuBuildError
        Of one of them there is neither; the message says what to install or to build.
    """
    try:
        return Compared("disassembly", _disassembled(first), _disassembled(second))
    except XpuBuildError as missing:
        texts = [each.listed() for each in (first, second)]
        if all(texts):
            left, right = (_lines(text) for text in texts)
            return Compared("text that the compiler made the code of", left, right)
        whose = first if not texts[0] else second
        raise XpuBuildError(
            f"{whose.where}: {missing}; nor is the compiler's own text of it here"
            + (
                ": name the kernel in place of the file, so that it is built here"
                if whose.is_file
                else ", for its backend keeps none"
            )
        ) from missing


def _disassembled(found: Found) -> list[str]:
    if found.code is None:
        raise XpuBuildError(f"beside the manifest there is no code object {found.manifest.kernel}")
    if found.backend is None:
        raise XpuBuildError(
            f"no backend here compiles for {found.manifest.target!r}; name one with --backend"
        )
    return _lines(found.backend.compiler().disassembly(found.code, found.manifest.entry))


def _lines(text: str) -> list[str]:
    """Return lines without what differs and says nothing: blanks, and comments of a line alone."""
    lines = (re.sub(r"\s+$", "", line).expandtabs(_TAB) for line in text.splitlines())
    return [line for line in lines if line and not line.lstrip().startswith(("//", "#", ";"))]


def print_code(both: Compared) -> None:
    """Print two texts in two columns, a ``|`` between lines that differ."""
    click.echo(f"\ncode ({both.form})")
    rows = list(_rows(both.first, both.second))
    if not rows:
        click.echo("the same")
        return
    wide = shutil.get_terminal_size((_IN_A_PIPE, 0)).columns
    column = max((wide - 3) // 2, _NARROWEST)
    for left, sign, right in rows:
        click.echo(f"{_cut(left, column):<{column}} {sign} {_cut(right, column)}".rstrip())


def _rows(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield lines of both in pairs with a sign: those that differ, and some around them."""
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if number:
            yield "…", " ", "…"
        for kind, i, i_end, j, j_end in group:
            left, right = first[i:i_end], second[j:j_end]
            for at in range(max(len(left), len(right))):
                a = left[at] if at < len(left) else None
                b = right[at] if at < len(right) else None
                sign = " " if kind == "equal" else ">" if a is None else "<" if b is None else "|"
                yield a or "", sign, b or ""


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"
