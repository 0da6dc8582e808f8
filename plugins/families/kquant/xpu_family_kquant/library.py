"""The design that dequantises weights and has a library multiply them: prefill of many rows.

A library's product in bfloat16 outruns a kernel that decodes weights as it goes once enough
rows share them: decoding costs one pass over memory, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import Constant
from xpu.spec import GEMM_NT_BF16, KernelSource, Launch, Preparation
from xpu_family_kquant import simt
from xpu_family_kquant.design import BlocksToGroups, _QuantDesign

_THREADS: Final = 256
_BLOCKS_AT_ONCE: Final = 2
"""k blocks of a thread block. Source: ``kernels/simt/dequantise.cpp``."""

_AT_ONCE: Final = 8
"""Activations of a thread. Source: ``kernels/simt/stage_bf16.cpp``."""

_BFLOAT16_BYTES: Final = 2


class DequantisedWeights(Preparation):
    """Prepared weights in bfloat16, (N, K): ``kernels/simt/dequantise.cpp``."""

    argument = "weights"
    constants = ("format",)

    def source(self, dialect: str) -> KernelSource:
        """Return the dequantising kernel."""
        return simt.source("dequantise")

    def sizes(
        self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> tuple[int, ...]:
        """Return n and k."""
        return BlocksToGroups().sizes(raw_shape, constants)

    def prepared_bytes(self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]) -> int:
        """Return two bytes for each weight."""
        n, k = self.sizes(raw_shape, constants)
        return n * k * _BFLOAT16_BYTES

    def launch(
        self, dialect: str, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> Launch:
        """Return a block for two blocks of a group."""
        n, k = self.sizes(raw_shape, constants)
        pairs = -(-k // (simt.BLOCK_K * _BLOCKS_AT_ONCE))
        return Launch(
            grid=(-(-n // simt.GROUP), pairs, 1),
            block=(_THREADS, 1, 1),
            alignment_bytes=simt.WIDEST_LOAD_BYTES,
        )


class StagedBfloat16(Preparation):
    """Activations in bfloat16, (M, K): ``kernels/simt/stage_bf16.cpp``."""

    argument = "x"
    constants = ("format", "x")

    def source(self, dialect: str) -> KernelSource:
        """Return the converting kernel."""
        return simt.source("stage_bf16")

    def sizes(
        self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> tuple[int, ...]:
        """Return m and k."""
        return raw_shape

    def prepared_bytes(self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]) -> int:
        """Return two bytes for each activation."""
        m, k = raw_shape
        return m * k * _BFLOAT16_BYTES

    def launch(
        self, dialect: str, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> Launch:
        """Return a thread for every eight activations."""
        m, k = raw_shape
        return Launch(
            grid=(-(-m * k // (_THREADS * _AT_ONCE)), 1, 1),
            block=(_THREADS, 1, 1),
            alignment_bytes=simt.WIDEST_LOAD_BYTES,
        )


class QGemmLibrary(_QuantDesign):
    """Product by a library in bfloat16, summed in float32. Its one member has no parameters.

    Weights and activations are rounded to bfloat16: the error stays under the limit of the
    other designs. Activations below 2^-126 lose bits, or vanish, as they do there.
    """

    name = "qgemm_library"
    parameters = ()

    def dialects(self) -> tuple[str, ...]:
        """Name the one dialect that it has kernels in."""
        return (simt.DIALECT,)

    def source(self, dialect: str) -> KernelSource:
        """Name the routine that is called."""
        if dialect != simt.DIALECT:
            raise XpuConfigError(
                f"design {self.name!r} has no source in dialect {dialect!r}, only in "
                f"{simt.DIALECT!r}"
            )
        return KernelSource(dialect, routine=GEMM_NT_BF16)

    def check_constants(self, constants: Mapping[str, Constant]) -> str:
        """Accept what the other designs do, but for results other than the routine's own."""
        if constants.get("y", "float32") != "float32":
            return f"y = {constants['y']!r} is not float32, in which a library gives its results"
        return super().check_constants(constants)

    def staging(self, dialect: str, member: Mapping[str, int]) -> Sequence[Preparation]:
        """Return what brings both operands to bfloat16."""
        return (DequantisedWeights(), StagedBfloat16())
