"""The entry point: what this distribution brings to XPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xpu.spec import ProblemSource, hookimpl
from xpu_source_gguf.source import GgufSource

XPU_SPEC_VERSION: Final = 1


@hookimpl
def xpu_problem_sources() -> Iterable[ProblemSource]:
    """Bring the GGUF reader."""
    return (GgufSource(),)
