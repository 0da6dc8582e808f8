"""Files under 300 lines, functions under 40, docstrings of functions apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

MOST_FILE_LINES = 299
MOST_FUNCTION_LINES = 39


def modules(root: Path) -> Iterator[Path]:
    for room in ("xpu", "plugins"):
        for path in sorted((root / room).rglob("*.py")):
            if "tests" not in path.relative_to(root).parts:
                yield path


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count from ``def`` to the last line, without the docstring."""
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def functions(source: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, function_lines(node)


def test_files(root: Path) -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in modules(root)}
    long = {str(path.relative_to(root)): n for path, n in lengths.items() if n > MOST_FILE_LINES}
    assert len(lengths) > 20
    assert not long


def test_functions(root: Path) -> None:
    long = [
        f"{path.relative_to(root)}: {name} has {lines} lines"
        for path in modules(root)
        for name, lines in functions(path.read_text("utf-8"))
        if lines > MOST_FUNCTION_LINES
    ]
    assert not long


def test_a_docstring_does_not_count_and_everything_else_does() -> None:
    source = 'def f(\n    a,\n):\n    """One.\n\n    Two.\n    """\n    x = 1\n\n    return x\n'
    assert list(functions(source)) == [("f", 6)]
