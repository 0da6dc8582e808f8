"""What an orchestrator may do on its own: the tuning policy, and what the environment asks."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final, Literal, cast

from xpu.errors import XpuConfigError
from xpu.model import nearest

Tuning = Literal["off", "stored", "first-use", "load"]
TUNINGS: Final = ("off", "stored", "first-use", "load")
MEMORY_MODES: Final = ("warm", "cold")
_FORCES: Final = "XPU_SHAPE_"
_log = logging.getLogger("xpu")


def tuning_policy(asked: str | None, environ: Mapping[str, str] = os.environ) -> Tuning:
    """Return the policy: the program's, else ``first-use`` under XPU_AUTOTUNE=1, else ``stored``.

    Raises
    ------
    XpuConfigError
        The policy or the variable's value is not known.
    """
    if asked is not None:
        if asked not in TUNINGS:
            raise XpuConfigError(f"tuning={asked!r}: {nearest(asked, TUNINGS)}")
        return cast("Tuning", asked)
    flag = environ.get("XPU_AUTOTUNE", "")
    if flag not in ("", "0", "1"):
        raise XpuConfigError(f"XPU_AUTOTUNE={flag!r}: allowed are 1 (tune at first use) and 0")
    return "first-use" if flag == "1" else "stored"


def memory_mode(asked: str | None, otherwise: str | None = None) -> str:
    """Return the memory mode when it is known; None asks for the other one, if there is one.

    Raises
    ------
    XpuConfigError
        It is not.
    """
    mode = otherwise if asked is None else asked
    if mode is None or mode not in MEMORY_MODES:
        raise XpuConfigError(f"memory={mode!r}: {nearest(str(mode), MEMORY_MODES)}")
    return mode


def forced_member(family: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the member that ``XPU_SHAPE_<FAMILY>`` forces, None when it is not set."""
    return environ.get(f"{_FORCES}{family.upper()}") or None


def warn_of_strangers(families: Collection[str], environ: Mapping[str, str] = os.environ) -> None:
    """Warn of each variable that would force a member of a family that there is not."""
    allowed = frozenset(f"{_FORCES}{name.upper()}" for name in families)
    for variable in sorted(environ):
        if variable.upper().startswith(_FORCES) and variable not in allowed:
            _warn_once(variable, nearest(variable, allowed))


@cache
def _warn_once(variable: str, hint: str) -> None:
    _log.warning("%s names no family and does nothing; %s", variable, hint)
