"""The problem source: a mapped GGUF file, its matrices and their rows.

It never copies weights and never decodes them: a family's kernels do.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpu.errors import XpuConfigError
from xpu.spec import ModelMatrix, OpenModel, ProblemSource
from xpu_source_gguf.layout import MAGIC, TensorInfo, read_layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class GgufModel(OpenModel):
    """An open GGUF file.

    Raises
    ------
    XpuConfigError
        The file cannot be read, or is not a whole GGUF file of version 2 or 3.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data: mmap.mmap | None = _mapped(path)
        self._tensors = {info.name: info for info in read_layout(path, self._data)}

    def matrices(self) -> Sequence[ModelMatrix]:
        """Return every tensor of two dimensions, in the order of the file.

        GGUF states the fastest dimension first: the sizes (k, n) are n rows of k.
        """
        return tuple(_matrix(info) for info in self._tensors.values() if len(info.sizes) == 2)

    def rows(self, matrix: ModelMatrix) -> NDArray[np.uint8]:
        """Return the raw rows of a matrix, uint8 (n, bytes per row), mapped and read-only.

        Raises
        ------
        XpuConfigError
            The model is closed, has no such matrix, or the size of its type is unknown.
        """
        import numpy as np

        info = self._tensors.get(matrix.name)
        if self._data is None:
            raise XpuConfigError(f"{self.path} is closed; open it again to read {matrix.name!r}")
        if info is None or len(info.sizes) != 2 or _matrix(info) != matrix:
            raise XpuConfigError(f"{self.path} holds no matrix {matrix.name!r} as described")
        if info.nbytes is None:
            raise XpuConfigError(
                f"{self.path}: matrix {matrix.name!r} is of {info.kind.name}, whose size is "
                "not known; a newer xpu-source-gguf may know it"
            )
        flat = np.frombuffer(self._data, dtype=np.uint8, count=info.nbytes, offset=info.begin)
        return flat.reshape(matrix.n, -1)

    def close(self) -> None:
        """Let go of the file. It stays mapped for as long as an array that was handed out."""
        self._data = None


class GgufSource(ProblemSource):
    """Reads GGUF files, versions 2 and 3, little-endian."""

    name = "gguf"

    def accepts(self, path: Path) -> bool:
        """Whether a file begins as GGUF does."""
        try:
            # Asked first: opening a pipe would wait for its writer.
            if not path.is_file():
                return False
            with path.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
        except OSError:
            return False

    def open(self, path: Path) -> GgufModel:
        """Open a file.

        Raises
        ------
        XpuConfigError
            The file is truncated or not of this kind; the message says what and where.
        """
        return GgufModel(path)


def _matrix(info: TensorInfo) -> ModelMatrix:
    k, n = info.sizes
    return ModelMatrix(info.name, {"format": info.kind.name}, n=n, k=k)


def _mapped(path: Path) -> mmap.mmap:
    try:
        if not path.is_file():
            found = "is not a file" if path.exists() else "does not exist"
            raise XpuConfigError(f"{path} {found}; give the path of a GGUF file")
        if path.stat().st_size == 0:
            raise XpuConfigError(f"{path}, byte 0: the file is empty; copy or download it again")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise XpuConfigError(f"{path} cannot be read: {error.strerror or error}") from error
