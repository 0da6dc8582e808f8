"""Prepared weights: whose kernels may read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import broken_families
import numpy as np
import pytest

from xpu import Orchestrator, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.testing import NullBackend, registry_of
from xpu.testing.null_device import NullDevice

FAMILY = """
[families.scaled]
design = "scaled"
problem = ["m", "n"]
[[families.scaled.members]]
name = "one"
mode = 0
step = 1
"""


class Two(NullBackend):
    """Two equal parts, which only their UUIDs tell apart."""

    def __init__(self) -> None:
        super().__init__(broken_families.DIALECT, broken_families.run)

    def open(self, index: int = 0) -> NullDevice:
        facts = DeviceFacts(backend="null", name="a part", uuid=f"part {index}", multiprocessors=1)
        return NullDevice(attrs.evolve(facts, memory_bytes=1 << 30), self._function)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[int], Orchestrator]]:
    config = tmp_path / "families.toml"
    config.write_text(FAMILY)
    made: list[Orchestrator] = []

    def on(device: int) -> Orchestrator:
        registry = registry_of(Two(), broken_families.Right, config)
        one = Orchestrator(
            None, tuning="off", device=device, registry=registry, build_cache=tmp_path / "build"
        )
        made.append(one)
        return one

    yield on
    for one in made:
        one.close()


def test_weights_of_another_device_are_refused_by_name(opened) -> None:
    rng = np.random.default_rng()
    w, x = rng.standard_normal(9, np.float32), rng.standard_normal((5, 9), np.float32)
    y = np.full((5, 9), np.nan, np.float32)
    kernel = opened(1).bind("scaled", m=5, n=9)
    elsewhere = opened(0).prepare("scaled", w)
    with pytest.raises(
        XpuLaunchException,
        match=r"scaled 5x9: .*prepared on a part, part 0, .*runs on a part, part 1; use .*prepare",
    ):
        kernel(elsewhere, x, out=y)
    assert np.isnan(y).all()
    # Another orchestrator on the same device shares its memory.
    kernel(opened(1).prepare("scaled", w), x, out=y)
    np.testing.assert_array_equal(y, x * w + np.float32(1))


def test_masked_weights_are_refused_by_name(opened) -> None:
    with pytest.raises(XpuLaunchException, match=r"scaled: argument 'w': .* has a mask"):
        opened(0).prepare("scaled", np.ma.MaskedArray(np.ones((4, 4), np.float32)))
