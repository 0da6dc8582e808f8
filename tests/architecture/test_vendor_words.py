"""The core knows no vendor: no name and no text in it speaks of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

WORD = re.compile(
    r"(?:cuda|cudnn|cublas|nvidia|nvrtc|nvcc|nvml|rocm)\w*|hip(?:rtc|cc|blas)?|amd(?:gpu)?"
)
TARGET = re.compile(r"(?<![a-z0-9])(?:sm_?\d{2,3}[af]?|gfx[0-9a-f]{3,4})(?![a-z0-9])")
# Where a name's parts meet: underscores and other marks, digits, and changes of case.
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def vendor_words(text: str) -> list[str]:
    parts = [part.lower() for part in PART.findall(text)]
    return [part for part in parts if WORD.fullmatch(part)] + TARGET.findall(text.lower())


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every name and text of a module with its line; a text that stands alone explains."""
    explaining = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) in explaining:
            continue
        for _, value in ast.iter_fields(node):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, bytes):
                    item = item.decode("latin-1")
                if isinstance(item, str):
                    yield getattr(node, "lineno", 0), item


def found(source: str) -> list[str]:
    return [word for _, text in texts(ast.parse(source)) for word in vendor_words(text)]


def test_the_core_has_none(root: Path) -> None:
    offenders = []
    for path in sorted((root / "xpu").rglob("*.py")):
        named = path.relative_to(root).as_posix()
        offenders += [f"{named}: {word} in its name" for word in vendor_words(named)]
        for line, text in texts(ast.parse(path.read_text("utf-8"))):
            offenders += [f"{named}:{line}: {word}" for word in vendor_words(text)]
    assert not offenders


@pytest.mark.parametrize(
    "source",
    [
        "import cuda",
        "from a.hip import b",
        "import x as rocm_bindings",
        "hip_device = 1",
        "class HIPDevice: pass",
        "def hipMalloc(): pass",
        "def f(amd): pass",
        "f(nvidia_index=1)",
        "x.nvrtcCompile",
        "def f():\n    global cublas_handle",
        "name = 'the CUDA driver'",
        "name = f'{x}-amdgpu'",
        "name = b'hiprtc'",
        "target = 'sm_90a'",
        "target = 'sm120'",
        "sm_75 = 1",
        "targets = ['gfx1151']",
        "x = {'gfx90a': 1}",
    ],
)
def test_a_planted_word_is_found(source: str) -> None:
    assert found(source)


@pytest.mark.parametrize(
    "source",
    [
        "ship = chip = whip = hippo = 1",
        "def ship_it(chips): pass",
        "'''The cuda driver.'''",
        "def f():\n    '''Like hip.'''",
        "x = 1\n'''What gfx1151 has.'''",
        "x = 1  # nvidia",
        "damd = prism_9 = sm_count = gfx = asm_90 = 1",
        "simt = 'c'",
    ],
)
def test_a_word_that_only_looks_like_one_is_not(source: str) -> None:
    assert not found(source)
