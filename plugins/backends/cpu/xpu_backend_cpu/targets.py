"""Names of targets: which the compiler knows, and which a processor runs."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from collections.abc import Collection
from typing import Final

from xpu_backend_cpu import amx
from xpu_backend_cpu.flags import NATIVE
from xpu_backend_cpu.machine import cpu_signature, processor_flags
from xpu_backend_cpu.process import Processes
from xpu_backend_cpu.toolchain import Toolchain, asked

_ANSWER_DEADLINE_S: Final = 30.0
_NO_TARGET: Final = "xpu-no-such-target"
# Source: x86-64 psABI 1.0, table 3.1, under the names that Linux gives the features.
_LEVELS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("x86-64", frozenset()),
    ("x86-64-v2", frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})),
    (
        "x86-64-v3",
        frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ),
    ("x86-64-v4", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})),
)


@functools.cache
def known_targets(toolchain: Toolchain) -> frozenset[str]:
    """Return what the compiler's ``-march`` takes, as it says itself to whoever asks for more.

    One that does not say so is not known to take anything but native.
    """
    options = (f"-march={_NO_TARGET}", "-E", "-x", "c", os.devnull)
    text = asked(toolchain.command, options, _refusal)
    # gcc: "valid arguments to -march= switch are: …"; clang: "valid target CPU values are: …";
    # zig: a name on each line below "available CPUs".
    _, _, below = text.partition("available CPUs")
    lists = [line.partition("are:")[2] for line in text.splitlines() if "are:" in line]
    words = " ".join([*lists, *below.partition("\n")[2].replace("_", "-").splitlines()]).split()
    return frozenset(word.strip(",;") for word in words)


def _refusal(command: tuple[str, ...]) -> str:
    try:
        return Processes().run(command, deadline_s=_ANSWER_DEADLINE_S).errors
    except OSError:
        return ""


def knows(toolchain: Toolchain, target: str) -> bool:
    """Whether the compiler makes code for a target; ``+`` may add extensions to its name."""
    return target == NATIVE or target.partition("+")[0] in known_targets(toolchain)


def own_name() -> str:
    """Return the name of this very processor: that of native code carried elsewhere."""
    text = f"{cpu_signature()} {amx.is_permitted()}"
    return f"{NATIVE}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def runs() -> tuple[str, ...]:
    """Name the targets whose code this machine runs, the best first."""
    return (own_name(), *levels(processor_flags(), platform.machine()))


def levels(flags: Collection[str], architecture: str) -> tuple[str, ...]:
    """Name the levels of x86-64 that a processor with these flags has, the highest first."""
    if architecture not in {"x86_64", "AMD64"}:
        return ()
    had: list[str] = []
    for name, wanted in _LEVELS:
        if not wanted <= set(flags):
            break
        had.insert(0, name)
    return tuple(had)
