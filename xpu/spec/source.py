"""What turns a model file into problems and data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from xpu.model import Constant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class ModelMatrix:
    """One weight matrix of a model: `n` rows of `k` columns.

    `constants` says how it is stored, in the words that families use, for instance
    ``{"format": "q4_k"}``. A family serves the matrix when its constants are the same.
    """

    name: str
    constants: Mapping[str, Constant]
    n: int
    k: int


class OpenModel(ABC):
    """An open model file."""

    path: Path

    @abstractmethod
    def matrices(self) -> Sequence[ModelMatrix]:
        """Return every weight matrix, in the order of the file."""

    @abstractmethod
    def rows(self, matrix: ModelMatrix) -> NDArray[np.uint8]:
        """Return the raw rows of a matrix, uint8 (n, bytes per row), mapped and read-only."""

    @abstractmethod
    def close(self) -> None:
        """Unmap the file. Arrays that were handed out stay valid."""


class ProblemSource(ABC):
    """A reader of one kind of model file."""

    name: str

    @abstractmethod
    def accepts(self, path: Path) -> bool:
        """Whether this reader understands the file, judged by its content."""

    @abstractmethod
    def open(self, path: Path) -> OpenModel:
        """Open a file.

        Raises
        ------
        XpuConfigError
            The file is truncated or not of this kind; the message says what and where.
        """
