"""The entry point: what this distribution brings to XPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xpu.spec import Probe, hookimpl
from xpu_probe_pays.cols import Cols
from xpu_probe_pays.once import MatrixCoresPay, TileBeatsDequant

XPU_SPEC_VERSION: Final = 1


@hookimpl
def xpu_probes() -> Iterable[Probe]:
    """Bring the probes."""
    return (Cols(), MatrixCoresPay(), TileBeatsDequant())
