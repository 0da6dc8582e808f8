"""The entry point: what this distribution brings to XPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xpu.spec import Design, hookimpl
from xpu_probe_calibration.arithmetic import Float32, HalfMatrix, Int8Dot, Int8Matrix
from xpu_probe_calibration.memory import Copy, Latency, Read

XPU_SPEC_VERSION: Final = 1


@hookimpl
def xpu_designs() -> Iterable[Design]:
    """Bring the kernels that measure a device."""
    return (Float32(), HalfMatrix(), Int8Matrix(), Int8Dot(), Read(), Copy(), Latency())
