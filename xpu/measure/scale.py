"""Whether a device's event clock can be believed beside the host's."""

from __future__ import annotations

from typing import Final

from xpu.errors import XpuError

LEAST: Final = 0.5
MOST: Final = 2.0
"""Allowed host seconds per event second.

Source: seeds, "The discipline": an event clock was seen to run 4.6 percent fast; one that
is off by a factor of two counts something else than time.
"""


class ClockScaleError(XpuError):
    """An event clock disagrees with the host clock so much that it is not used."""


def check_scale(scale: float, *, clock: str = "the event clock") -> float:
    """Return a calibration scale that may be used.

    Parameters
    ----------
    scale
        Host time over event time of one and the same stretch of work, no unit.
    clock
        What to call the clock in the message.

    Raises
    ------
    ClockScaleError
        The scale is outside [0.5, 2], or not a number.
    """
    if not LEAST <= scale <= MOST:
        raise ClockScaleError(
            f"{clock} runs at {scale:g} of the host clock; allowed: {LEAST:g} to {MOST:g}; "
            "time with the host clock instead, or look for a driver that reports true times"
        )
    return scale
