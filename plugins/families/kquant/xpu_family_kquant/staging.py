"""What runs before a launch in the dialect `simt`: activations in the form that kernels read.

A kernel for many rows would convert each activation once for every tile that reads it; a launch
of its own does it once. Called by the designs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xpu.model import Constant
from xpu.spec import KernelSource, Launch, Preparation
from xpu_family_kquant import simt

_FACTOR_BYTES: Final = 4
"""A power of two for each row, behind all of them."""


class _Staged(Preparation):
    """x (M, K) of any type, row by row."""

    argument = "x"
    constants = ("format", "x")
    kernel: str
    threads: int

    def source(self, dialect: str) -> KernelSource:
        """Return the converting kernel."""
        return simt.source(self.kernel)

    def sizes(
        self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> tuple[int, ...]:
        """Return m and k."""
        return raw_shape

    def launch(
        self, dialect: str, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> Launch:
        """Return a block for each row."""
        return Launch(
            grid=(raw_shape[0], 1, 1),
            block=(self.threads, 1, 1),
            alignment_bytes=simt.WIDEST_LOAD_BYTES,
        )


class StagedBytes(_Staged):
    """Activations in 8 bits: ``kernels/simt/stage_bytes.cpp``."""

    kernel = "stage_bytes"
    threads = 1024

    def prepared_bytes(self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]) -> int:
        """Return the bytes of all records and factors."""
        m, k = raw_shape
        return m * (k // 256 * simt.record_bytes(str(constants["format"])) + _FACTOR_BYTES)


class StagedHalves(_Staged):
    """Activations in half: ``kernels/simt/stage_halves.cpp``."""

    kernel = "stage_halves"
    threads = 256

    def prepared_bytes(self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]) -> int:
        """Return the bytes of all rows and factors."""
        m, k = raw_shape
        return m * (k * 2 + _FACTOR_BYTES)


class StagedLines(StagedHalves):
    """Activations in half as the lines that a block shares: ``kernels/simt/stage_lines.cpp``."""

    kernel = "stage_lines"
