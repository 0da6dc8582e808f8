"""The device half's calls against the real bindings, which can be looked at without a driver."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xpu_backend_cuda
from xpu_backend_cuda.backend import CudaBackend
from xpu_backend_cuda.facts import _ATTRIBUTES, FURTHER


@pytest.fixture
def bindings() -> Any:
    return pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


def _trees() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(Path(xpu_backend_cuda.__file__).parent.glob("*.py")):
        yield path.name, ast.parse(path.read_text("utf-8"))


def _is_driver(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text in ("cu", "self.cu", "bindings()") or text.endswith("context.cu")


def test_every_function_is_there_and_takes_as_many_arguments(bindings) -> None:
    seen = 0
    for name, tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if not node.func.attr.startswith("cu") or not _is_driver(node.func.value):
                continue
            function = getattr(bindings, node.func.attr, None)
            assert function is not None, f"{name}:{node.lineno}: {node.func.attr}"
            if any(isinstance(each, ast.Starred) for each in node.args):
                continue
            signature = re.match(r"\w+\((.*?)\)", function.__doc__ or "", re.S)
            assert signature, node.func.attr
            taken = [each for each in signature[1].split(",") if each.strip()]
            least = len([each for each in taken if "=" not in each])
            assert least <= len(node.args) <= len(taken), f"{name}:{node.lineno}: {taken}"
            seen += 1
    assert seen > 60


def test_every_constant_is_there(bindings) -> None:
    seen = 0
    for name, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("CU_"):
                kind = getattr(node.value, "attr", getattr(node.value, "id", ""))
                kind = "CUpointer_attribute" if kind == "kinds" else kind
                where = f"{name}:{node.lineno}: {kind}.{node.attr}"
                assert hasattr(getattr(bindings, kind), node.attr), where
                seen += 1
    assert seen >= 6
    names = [
        *_ATTRIBUTES.values(),
        *FURTHER.values(),
        "COMPUTE_CAPABILITY_MAJOR",
        "COMPUTE_CAPABILITY_MINOR",
    ]
    for attribute in names:
        assert hasattr(bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")


def test_the_backend_declares_the_facts_that_only_it_has() -> None:
    assert CudaBackend.further_facts == tuple(FURTHER)


def test_numbers_that_are_written_out_are_the_headers(bindings) -> None:
    from xpu_backend_cuda import arrays, device, stall, timer, ways

    assert bindings.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT == device._CAPTURE_IMPLICIT
    assert bindings.CUmemorytype.CU_MEMORYTYPE_HOST == arrays._HOST_MEMORY
    assert bindings.CUstream_flags.CU_STREAM_NON_BLOCKING == timer._NON_BLOCKING
    assert bindings.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL == ways._EXTERNAL
    mapped = bindings.CU_MEMHOSTALLOC_PORTABLE | bindings.CU_MEMHOSTALLOC_DEVICEMAP
    assert mapped == stall._MAPPED


def test_every_error_that_is_named_exists(bindings) -> None:
    from xpu_backend_cuda.errors import _ADVICE, _STICKY

    for name in (*_ADVICE, *_STICKY):
        assert hasattr(bindings.CUresult, name), name
