"""The kernels of this distribution: another plugin's design in the dialect ``opencl_c``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from xpu.model import Problem
from xpu.spec import KernelSource, Launch

DIALECT: Final = "opencl_c"


def qmatvec() -> KernelSource:
    """Return the matrix-vector product, with its own weight preparation and launch."""
    header = {"kquant.h": _text("kquant.h")}
    return KernelSource(
        DIALECT,
        _text("qmatvec.cl"),
        header,
        design="qmatvec",
        preparation=KernelSource(DIALECT, _text("prepare.cl"), header),
        launch=_launch,
    )


def _launch(member: Mapping[str, int], problem: Problem) -> Launch:
    columns = member["threads"] * member["rows"]  # of y, per work-group
    return Launch(grid=(-(-problem.n // columns), problem.m, 1), block=(member["threads"], 1, 1))


def _text(name: str) -> str:
    return (resources.files("xpu_backend_opencl") / "kernels" / name).read_text("utf-8")
