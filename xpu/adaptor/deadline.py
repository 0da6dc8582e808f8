"""How long one unit may take to compile."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Final

from xpu.errors import XpuConfigError

COMPILE_DEADLINE_S: Final = 60.0
"""Seconds that one unit may take to compile. Source: the slowest shipped unit takes 3 s on
two shared cores; twenty times that is a compiler that hangs."""

DEADLINE_VARIABLE: Final = "XPU_COMPILE_DEADLINE_S"


def compile_deadline_s(environ: Mapping[str, str] = os.environ) -> float:
    """Return the seconds that one unit may take: what the environment says, else 60.

    Raises
    ------
    XpuConfigError
        The variable's value is no number above 0.
    """
    text = environ.get(DEADLINE_VARIABLE, "")
    if not text:
        return COMPILE_DEADLINE_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise XpuConfigError(
            f"{DEADLINE_VARIABLE}={text!r}: allowed are seconds above 0, for instance 10; "
            f"unset, it is {COMPILE_DEADLINE_S:g}"
        )
    return seconds
