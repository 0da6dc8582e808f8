"""What the tests of a backend stand on: the backend, its halves, and what it can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.spec import Backend, Device, KernelSource
from xpu.testing.surroundings import Suite, skip_for
from xpu.testing.workbench import Workbench

_MAKES: Final = "test_its_class_is_found_by_name_and_called_without_arguments"
_OPENS: Final = "test_an_available_backend_opens_its_device"


class BackendFixtures(Suite):
    """Fixtures, and what a backend's test module sets; see `BackendSuite`."""

    backend: ClassVar[type[Backend]]
    kernels: ClassVar[Sequence[KernelSource]] = ()
    target: ClassVar[str | None] = None

    def array_of(self, array: NDArray[Any]) -> Any:
        """Return an array as a caller of this backend has it: numpy's own, unless overridden."""
        return array

    def numpy_of(self, value: Any) -> NDArray[Any]:
        """Return what an array that `array_of` made holds now."""
        return np.asarray(value)

    @classmethod
    def made_bench(cls, directory: Path) -> Workbench:
        """Call the backend's class, and make what builds and runs the kit's kernels on it."""
        return Workbench(cls.backend(), tuple(cls.kernels), cls.target, directory)

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
        """Return what builds and runs the kit's kernels."""
        try:
            made = cls.made_bench(tmp_path_factory.mktemp("kit"))
        except Exception as error:
            skip_for(error, "the backend cannot be made", _MAKES)
        yield made
        made.close()

    @pytest.fixture(scope="class")
    @classmethod
    def device(cls, bench: Workbench) -> Iterator[Device]:
        """Open the first device once; tests that need it are skipped where there is none."""
        try:
            opened = opened_device(bench)
        except Exception as error:
            skip_for(error, "the device cannot be opened", _OPENS)
        yield opened
        opened.close()

    @pytest.fixture
    def rng(self) -> np.random.Generator:
        """Return fresh random numbers for each test."""
        return np.random.default_rng()


def opened_device(bench: Workbench) -> Device:
    """Open the first device; the test is skipped where the backend says that there is none."""
    state = bench.backend.availability()
    if not state.is_available:
        mended = f"; {state.fix}" if state.fix else ""
        pytest.skip(f"backend {bench.backend.name!r} has no device here: {state.reason}{mended}")
    return bench.backend.open(0)
