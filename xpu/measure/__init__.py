"""Time of a launch: brackets, rotation for cold memory, and the plain host clock.

The trial asks here for one number a bracket. Which launches are compared, how often and
what follows from it is the choice's business; a backend brings better clocks as tiers.
"""

from xpu.measure.host_clock import HostClock
from xpu.measure.host_load import host_load
from xpu.measure.kernel_timer import PROTOCOL, KernelTimer, Turn
from xpu.measure.rotation import rotation_count
from xpu.measure.scale import ClockScaleError, check_scale

__all__ = [
    "PROTOCOL",
    "ClockScaleError",
    "HostClock",
    "KernelTimer",
    "Turn",
    "check_scale",
    "host_load",
    "rotation_count",
]
