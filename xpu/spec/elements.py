"""Element types by name, and what holds those in host memory that numpy has not.

An argument names its type as numpy does, or ``bfloat16``. numpy has none of that, so on the
host such elements are uint16, the bits of the upper half of a float32. Called by the core, by
backends and by families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

BFLOAT16: Final = "bfloat16"


def host_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy type that holds elements of a type in host memory: of bfloat16 uint16.

    Raises
    ------
    TypeError
        numpy knows no such type.
    """
    import numpy as np

    return np.dtype("uint16" if name == BFLOAT16 else name)


def is_float(name: str) -> bool:
    """Whether elements of a type are floating-point numbers, so that all bits set are a NaN."""
    return name == BFLOAT16 or host_dtype(name).kind == "f"
