"""The syntax tree of a design's host code: the node of a function, and where a line stands.

Files are read and parsed once for each process. Called by the folding of launches; runs nothing.
"""

from __future__ import annotations

import ast
import functools
import inspect
from pathlib import Path
from types import FunctionType

Function = ast.FunctionDef | ast.Lambda


def node_of(function: FunctionType) -> Function | None:
    """Return a function's node; None where its text is not at hand or not the only one there."""
    code = function.__code__
    found = _functions(code.co_filename).get((code.co_name, code.co_firstlineno), ())
    return found[0] if len(found) == 1 else None


def arguments_of(function: FunctionType) -> tuple[str, ...]:
    """Return the names of a function's arguments, those by name alone last."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def is_resumed(function: FunctionType) -> bool:
    """Whether a call makes a generator or a coroutine, whose code runs later."""
    kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return bool(function.__code__.co_flags & kinds)


def rebound(function: FunctionType) -> frozenset[str]:
    """Return the names that some function of the same file declares global or nonlocal."""
    return _rebound(function.__code__.co_filename)


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
def _tree(filename: str) -> ast.Module:
    try:
        return ast.parse(Path(filename).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
        return ast.Module([], [])


@functools.cache
def _rebound(filename: str) -> frozenset[str]:
    declared = (
        each for each in ast.walk(_tree(filename)) if isinstance(each, ast.Global | ast.Nonlocal)
    )
    return frozenset(name for each in declared for name in each.names)


@functools.cache
def _functions(filename: str) -> dict[tuple[str, int], tuple[Function, ...]]:
    tree = _tree(filename)
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
