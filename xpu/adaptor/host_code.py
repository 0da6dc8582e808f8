"""The syntax tree of a design's host code: the node of a function, and where a line stands.

Files are read and parsed once for each process. Called by the folding of launches; runs nothing.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from types import FunctionType

Function = ast.FunctionDef | ast.Lambda


def node_of(function: FunctionType) -> Function | None:
    """Return a function's node; None where its text is not at hand or not the only one there."""
    code = function.__code__
    found = _functions(code.co_filename).get((code.co_name, code.co_firstlineno), ())
    return found[0] if len(found) == 1 else None


def where(function: FunctionType, line: int | None = None) -> str:
    """Return file and line of a function, the file from its package on: ``package/file.py:3``."""
    path = Path(function.__code__.co_filename)
    package = (function.__module__ or "").partition(".")[0]
    parts = path.parts
    shown = path.name
    if package in parts[:-1]:
        last = len(parts) - 1 - parts[::-1].index(package)
        shown = "/".join(parts[last:])
    return f"{shown}:{function.__code__.co_firstlineno if line is None else line}"


@functools.cache
def _functions(filename: str) -> dict[tuple[str, int], tuple[Function, ...]]:
    try:
        tree = ast.parse(Path(filename).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
        return {}
    found: dict[tuple[str, int], tuple[Function, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            # A code object begins at its first decorator.
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            key = (node.name, first)
        elif isinstance(node, ast.Lambda):
            key = ("<lambda>", node.lineno)
        else:
            continue
        found[key] = (*found.get(key, ()), node)
    return found
