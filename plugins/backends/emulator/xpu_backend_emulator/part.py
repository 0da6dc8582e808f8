"""Which part is emulated: its facts from a file, and the width of its waves."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts
from xpu.spec import expanded

FACTS_VARIABLE: Final = "XPU_EMULATOR_FACTS"
WAVE_VARIABLE: Final = "XPU_EMULATOR_WAVE"
WIDTHS: Final = (32, 64)
_GENERIC: Final = Path(__file__).parent / "generic.toml"


def emulated_facts(
    wave_width: int | None = None, environ: Mapping[str, str] = os.environ
) -> DeviceFacts:
    """Return the facts of the emulated part.

    Parameters
    ----------
    wave_width
        Lanes of a wave; None for ``$XPU_EMULATOR_WAVE``, else what the facts say.

    Raises
    ------
    XpuConfigError
        The facts file or a width cannot be used.
    """
    named = environ.get(FACTS_VARIABLE, "").strip()
    path = expanded(named) if named else _GENERIC
    where = f"${FACTS_VARIABLE} ({path})" if named else str(path)
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise XpuConfigError(
            f"{where} cannot be read: {error}; it is TOML with the facts of one part, "
            "for instance wave_width = 64"
        ) from error
    facts = DeviceFacts.from_mapping(values, where=where)
    return attrs.evolve(
        facts,
        backend="emulator",
        name=f"emulated {facts.name or 'part'}",
        driver_version="emulator",
        wave_width=_width(wave_width, facts.wave_width, where, environ),
    )


def _width(given: int | None, of_facts: int | None, where: str, environ: Mapping[str, str]) -> int:
    named = environ.get(WAVE_VARIABLE, "").strip()
    allowed = " or ".join(map(str, WIDTHS))
    if given is not None:
        width, source = given, "wave_width"
    elif named:
        width, source = int(named) if named.isdecimal() else 0, f"${WAVE_VARIABLE} ({named!r})"
    else:
        width, source = of_facts or WIDTHS[0], f"wave_width of {where}"
    if width not in WIDTHS:
        raise XpuConfigError(
            f"{source} is not a width that can be emulated; allowed: {allowed} "
            f"(set {WAVE_VARIABLE})"
        )
    return width
