"""Host code read and folded, never run: what a function gives when its problem is not known.

`Folder` follows the functions of some packages; a value that it gives is known, unknown, or one
of several. It knows launches, and no kernel, target or family.
"""

from xpu.folding import host_code
from xpu.folding.folded import UNKNOWN, LaunchValue, Parameters, alternatives, is_known, joined
from xpu.folding.folder import Folder

__all__ = [
    "UNKNOWN",
    "Folder",
    "LaunchValue",
    "Parameters",
    "alternatives",
    "host_code",
    "is_known",
    "joined",
]
