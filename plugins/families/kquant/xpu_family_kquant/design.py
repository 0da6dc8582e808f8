"""Two designs on K-quant weights, and the weight preparation that all of them share.

Both compute y (M, N) = x (M, K) times the transpose of W (N, K), W in GGUF blocks, x and y
float32, float16 or bfloat16 as a family's constants say. `qgemm_tile` decodes weights once for
many rows of x; `qmatvec` streams them for one.
One prepared weight serves both; each dialect has its own layout of it.
Called by the core through `xpu.spec`; names no backend.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final

from xpu.errors import XpuConfigError
from xpu.model import Constant, Problem
from xpu.spec import Design, KernelSource, Launch, Preparation
from xpu_family_kquant import formats, simt
from xpu_family_kquant.elements import DEFAULTS, ELEMENTS, arguments_of, element_of
from xpu_family_kquant.staging import StagedBytes, StagedHalves, StagedLines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


GROUP: Final = 16
"""Weight rows that are interleaved in prepared weights. Source: ``kernels/blocks.h``."""

_HOST: Final = "c"
_STAGED: Final = (StagedBytes(), StagedHalves(), StagedLines())
"""What brings x into the form that a member in `simt` multiplies, by its `widen`."""


@functools.cache
def _source(dialect: str, name: str) -> KernelSource:
    """Read one kernel and the headers that any of its dialect may include."""
    if dialect == simt.DIALECT:
        return simt.source(name)
    if dialect != _HOST:
        raise XpuConfigError(
            f"the K-quant designs have no source in dialect {dialect!r}, only in {_HOST!r} and "
            f"{simt.DIALECT!r}"
        )
    folder = resources.files("xpu_family_kquant") / "kernels"
    headers = {
        file.name: file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".h")
    }
    return KernelSource(dialect, (folder / f"{name}.c").read_text("utf-8"), headers)


def _format(constants: Mapping[str, Constant]) -> str:
    return str(constants["format"])


def _allowed_rms(results: int, blocks: int) -> float:
    """Return the rms error that a right kernel stays under, whatever the sample.

    The limit is one of the mean. A sample of N errors scatters about it by 1 / sqrt(2 N) of
    its size, and counts for no more than the blocks of x whose quantisation it shows; four
    times that keeps a right kernel from ever being called wrong. The largest error needs no
    such room.
    """
    return float(formats.ERROR_RMS * (1 + 4 / math.sqrt(2 * max(1, min(results, blocks)))))


class BlocksToGroups(Preparation):
    """Repacking of GGUF blocks into groups of 16 interleaved weight rows."""

    argument = "weights"
    constants = ("format",)

    def source(self, dialect: str) -> KernelSource:
        """Return the repacking kernel."""
        return _source(dialect, "prepare")

    def sizes(
        self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> tuple[int, ...]:
        """Return n and k.

        Raises
        ------
        ValueError
            The rows are no whole number of blocks.
        """
        n, row_bytes = raw_shape
        block_bytes = formats.BLOCK_BYTES[_format(constants)]
        if row_bytes == 0 or row_bytes % block_bytes:
            raise ValueError(
                f"rows of {row_bytes} bytes are no whole number of {block_bytes}-byte "
                f"{_format(constants)} blocks"
            )
        return n, row_bytes // block_bytes * formats.BLOCK_K

    def prepared_bytes(self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]) -> int:
        """Return the raw size with n rounded up to the group, and 4 bytes for each column.

        Those are a factor that kernels in half need (``kernels/simt/stored.h``).
        """
        n, row_bytes = raw_shape
        return -(-n // GROUP) * GROUP * (row_bytes + 4)

    def launch(
        self, dialect: str, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> Launch:
        """Return how the repacking is launched: in `simt` as many blocks as pay."""
        if dialect != simt.DIALECT:
            return Launch()
        return simt.prepare_launch(self.prepared_bytes(raw_shape, constants))


class _QuantDesign(Design):
    """What both designs share: all but the kernel and its parameters."""

    problem = ("m", "n", "k")
    arguments = arguments_of({})
    preparation = BlocksToGroups()
    default_constants = DEFAULTS

    def for_constants(self, constants: Mapping[str, Constant]) -> Design:
        """Return the design with x and y of the types that the constants say."""
        made = copy.copy(self)
        made.arguments = arguments_of(constants)
        return made

    def dialects(self) -> tuple[str, ...]:
        """Name the dialects: C for the host, `simt` for parts with waves."""
        return (_HOST, simt.DIALECT)

    def source(self, dialect: str) -> KernelSource:
        """Return the kernel and its headers."""
        return _source(dialect, self.name)

    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of weights (N, bytes per row), x (M, K) and y (M, N)."""
        m, n, k = problem.m, problem.n, problem.k
        width = formats.row_bytes(_format(constants), k)
        return {"weights": (n, width), "x": (m, k), "y": (m, n)}

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept any m and n, and every k that is a positive multiple of the block."""
        if problem.k <= 0 or problem.k % formats.BLOCK_K:
            return f"k = {problem.k} is not a positive multiple of {formats.BLOCK_K}"
        return ""

    def check_constants(self, constants: Mapping[str, Constant]) -> str:
        """Accept ``format``, and for ``x`` and ``y`` a type, float32 when absent."""
        allowed = {"format": formats.BLOCK_BYTES, "x": ELEMENTS, "y": ELEMENTS}
        if "format" not in constants or not set(constants) <= set(allowed):
            return (
                f"the constants are {', '.join(constants) or 'none'}; needed: format "
                f"({', '.join(formats.BLOCK_BYTES)}); allowed besides: x, y "
                f"({', '.join(ELEMENTS)})"
            )
        for name, value in constants.items():
            if value not in allowed[name]:
                return f"{name} = {value!r} is none of {', '.join(allowed[name])}"
        return ""

    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Make random blocks and normally distributed activations, rounded to their type."""
        from xpu_family_kquant import reference

        blocks = reference.random_blocks(_format(constants), problem.n, problem.k, rng)
        x = reference.random_activations(problem.m, problem.k, rng)
        return {"weights": blocks, "x": element_of(constants, "x").rounded(x)}

    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        rng: np.random.Generator,
    ) -> str:
        """Compare a sample of y with the float64 product; every y of a finite row is finite.

        A float16 may be infinite where the product is too large for it.
        """
        import numpy as np

        from xpu_family_kquant import reference

        of_y = element_of(constants, "y")
        x = element_of(constants, "x").widened(inputs["x"])
        y = of_y.widened(outputs["y"])
        sound = np.isfinite(x).all(axis=1)
        if not sound.all():  # a copy of either would take longer than all that follows
            x, y = x[sound], y[sound]
        if y.size == 0:
            return ""
        is_bad = np.isnan(y) if of_y.name == "float16" else ~np.isfinite(y)
        bad = int(np.count_nonzero(is_bad))
        if bad:
            return f"{bad} of {y.size} results are not finite, although their x is"
        weights = np.asarray(inputs["weights"], np.uint8)
        errors = reference.sampled_errors(_format(constants), weights, x, y, rng, of_y)
        allowed = _allowed_rms(errors.size, x.size // formats.BLOCK_K)
        rms, largest = float(np.sqrt(np.mean(errors**2))), float(errors.max())
        if rms > allowed or largest > formats.ERROR_MAX:
            return (
                f"error of {errors.size} results: rms {rms:.3g} (allowed {allowed:.3g}), "
                f"largest {largest:.3g} (allowed {formats.ERROR_MAX:g})"
            )
        return ""

    def operations(self, problem: Problem) -> int:
        """Count a multiplication and an addition for each weight and row."""
        return 2 * problem.m * problem.n * problem.k


class QGemmTile(_QuantDesign):
    """Product in tiles, for prefill and for batches: ``qgemm_tile.c`` and ``.cpp``.

    Parameters of a member: `tile_m` rows and `tile_n` columns of y per task (`tile_n` a multiple
    of 16), `tile_k` of a decoded panel (a multiple of 256), `unroll` rows (`simt`: matrices of
    8 or 16 rows) in registers at once, `widen`: 0 multiplies 8-bit integers, 1 a wide
    floating-point type; in `simt` 2 one that a block's waves multiply together. There also
    the `threads` of a block, the `stages` of x that are in shared memory and, with 2, the
    `slots`: blocks of weights that are.
    """

    name = "qgemm_tile"
    parameters = ("tile_m", "tile_n", "tile_k", "unroll", "widen", "threads", "stages", "slots")

    def staging(self, dialect: str, member: Mapping[str, int]) -> Sequence[Preparation]:
        """Return what brings x into the form that a member in `simt` multiplies."""
        if dialect != simt.DIALECT:
            return ()
        return (_STAGED[member["widen"]],)

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return grid, block and dynamic shared memory of a member in `simt`.

        Parts of k are added up in y: where that is not float32 there is one part.
        """
        if dialect != simt.DIALECT:
            return Launch()
        if self.arguments[-1].dtype != "float32":
            member = {**member, "splits": 1, "resident_splits": 1}
        return simt.tile_launch(member, problem)

    def arithmetic(self, dialect: str, member: Mapping[str, int]) -> str | None:
        """Return 8-bit or half-precision arithmetic; on a host wide members take what it has."""
        if dialect == simt.DIALECT:
            return "half_matrix" if member["widen"] else "int8_matrix"
        return None if member["widen"] else "int8_dot"


class QMatVec(_QuantDesign):
    """Matrix-vector product, for decode: ``qmatvec.c`` and ``.cpp``.

    Parameters of a member: `rows` groups of 16 weight rows read side by side, `prefetch` bytes
    asked for ahead in each (0: none; in `simt` blocks on their way), in C
    `chunk` groups handed to a worker at a time, in `simt` the `threads` of a block.
    """

    name = "qmatvec"
    parameters = ("rows", "prefetch", "chunk", "threads")

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return grid and block of a member in `simt`."""
        return simt.vector_launch(member, problem) if dialect == simt.DIALECT else Launch()

    def arithmetic(self, dialect: str, member: Mapping[str, int]) -> str | None:
        """Return 8-bit dot products, which the host's kernel is made of."""
        return "int8_dot" if dialect == _HOST else None
