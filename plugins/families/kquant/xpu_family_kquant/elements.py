"""The element types of activations and results: what arrays of them hold, and what rounding costs.

Called by the designs' `data` and `verify`, and by tests. Shares nothing with the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from xpu.model import Constant
from xpu.spec import Argument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]


@attrs.frozen
class Element:
    """An element type.

    Attributes
    ----------
    name
        As an argument names it.
    unit
        The largest error of rounding a number to it, over that number; 0 where results are
        sums of the type and never rounded to it.
    least
        The largest error of rounding a number too small for that.
    most
        What has this magnitude or more becomes infinite.
    """

    name: str
    unit: float
    least: float
    most: float

    def rounded(self, values: Floats) -> NDArray[Any]:
        """Return float32 values as elements, each the nearest, ties to even.

        What is rounded to nothing else is the given array itself.
        """
        import numpy as np

        if self.name != "bfloat16":
            with np.errstate(over="ignore"):
                return values.astype(self.name, copy=False)
        # Half a step is added, and what is below a step cut off. A tie goes to the even one.
        bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
        made = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(values), 0x7FC0, made).astype(np.uint16)

    def widened(self, array: NDArray[Any]) -> Floats:
        """Return elements as float32, exactly."""
        import numpy as np

        if self.name != "bfloat16":
            return np.asarray(array, np.float32)
        bits = np.ascontiguousarray(array).view(np.uint16)
        return (bits.astype(np.uint32) << 16).view(np.float32)

    def allowed(self, results: Doubles) -> Doubles:
        """Return by how much rounding to the type may have moved each of some results."""
        import numpy as np

        return self.unit * np.abs(results) + self.least


ELEMENTS: Final[Mapping[str, Element]] = {
    each.name: each
    for each in (
        Element("float32", 0.0, 0.0, math.inf),
        # Source: IEEE 754 binary16: 11 bits, steps of 2^-24 below 2^-14, largest 65504.
        Element("float16", 2.0**-11, 2.0**-25, 65520.0),
        # The upper half of a binary32: 8 bits, steps of 2^-133 below 2^-126.
        Element("bfloat16", 2.0**-8, 2.0**-134, 2.0**128 - 2.0**119),
    )
}


DEFAULTS: Final[Mapping[str, Constant]] = {"x": "float32", "y": "float32"}
"""What a constant stands for that a family leaves out."""


def element_of(constants: Mapping[str, Constant], argument: str) -> Element:
    """Return the type of ``x`` or ``y``: what the constant of that name says, else its default."""
    return ELEMENTS[str({**DEFAULTS, **constants}[argument])]


def arguments_of(constants: Mapping[str, Constant]) -> tuple[Argument, ...]:
    """Return the arguments of every design: weights, x and y."""
    return (
        Argument("weights", "uint8", "read"),
        Argument("x", element_of(constants, "x").name, "read"),
        Argument("y", element_of(constants, "y").name, "write"),
    )
