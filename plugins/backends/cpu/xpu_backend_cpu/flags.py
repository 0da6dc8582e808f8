"""The compiler flags for a target, and the text that says what code for it rests on."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path
from typing import Final

from xpu.errors import XpuBuildError
from xpu_backend_cpu import amx
from xpu_backend_cpu.machine import cpu_signature
from xpu_backend_cpu.toolchain import Toolchain

NATIVE: Final = "native"
PRELUDE: Final = Path(__file__).parent / "runtime" / "xpu_c.h"
# -g0: zig writes debug information unasked, and with it the directory's name.
_COMMON: Final = ("-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-g0")

_TARGET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


def target_flags(toolchain: Toolchain, target: str) -> tuple[str, ...]:
    """Return the flags that make code for a target.

    Raises
    ------
    XpuBuildError
        The target is not a name.
    """
    if _TARGET.fullmatch(target) is None:
        raise XpuBuildError(
            f"target {target!r} is not {NATIVE!r} or an architecture that the compiler's "
            "-march takes, for instance x86-64-v3"
        )
    # zig writes the names of processors with underscores.
    name = target.replace("-", "_") if toolchain.family == "zig" else target
    return (*_COMMON, f"-march={name}", *_without_refused_tiles(toolchain, target))


def _without_refused_tiles(toolchain: Toolchain, target: str) -> tuple[str, ...]:
    # The processor has the tiles, so the compiler would use them, but touching one would
    # end the process when the operating system does not give them out.
    if target != NATIVE or platform.machine() not in {"x86_64", "AMD64"} or amx.is_permitted():
        return ()
    macros = toolchain.macros("-march=native")
    features = sorted(
        macro.strip("_").lower().replace("_", "-") for macro in macros if macro[:6] == "__AMX_"
    )
    return tuple(f"-mno-{feature}" for feature in features)


def fingerprint(flags: tuple[str, ...], target: str) -> str:
    """Say what code for a target rests on beside its source and compiler.

    Native code also rests on the processor: a cache that moves to another machine must
    not serve instructions that this one lacks.
    """
    prelude = hashlib.sha256(PRELUDE.read_bytes()).hexdigest()[:16]
    parts = [" ".join(flags), f"prelude {prelude}", platform.machine()]
    if target == NATIVE:
        parts.append(f"cpu {cpu_signature()[:16]}")
    return "; ".join(parts)
