"""Asks the kernel for the tile registers of AMX, once per process.

Linux gives them only to a process that asks, and a thread inherits the answer when it is
made: so the question is put before any code is compiled for this machine, and before the
worker threads are started.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from typing import Final

# Source: arch/x86/include/uapi/asm/prctl.h and asm/unistd_64.h of the Linux kernel.
_SYS_ARCH_PRCTL: Final = 158
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_XFEATURE_XTILEDATA: Final = 18


@functools.cache
def is_permitted() -> bool:
    """Whether this process may use the tile registers."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    system = ctypes.CDLL(None, use_errno=True)
    answer = system.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return bool(answer == 0)
