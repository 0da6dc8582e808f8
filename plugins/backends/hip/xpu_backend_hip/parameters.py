"""What a kernel takes, from the metadata of its code object: the runtime cannot be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xpu.errors import XpuBuildError

_HIDDEN: Final = "hidden_"
"""How the kinds begin of what the runtime adds to a launch. Source: LLVM, User Guide for AMDGPU
Backend, code object metadata, ``.value_kind``."""


def parameter_bytes(code: bytes, entry: str) -> Sequence[int] | None:
    """Return the sizes in bytes of a kernel's parameters; None where nothing can read them."""
    try:
        from xpu_backend_hip.code_object import kernels

        found = next((one for one in kernels(code) if one.get(".name") == entry), None)
    except (ImportError, XpuBuildError):
        # The readers come with the extras. Code that is none is the runtime's to refuse.
        return None
    if found is None:
        return None
    arguments = found.get(".args", ())
    return [
        int(one[".size"])
        for one in arguments
        if not str(one.get(".value_kind", "")).startswith(_HIDDEN)
    ]
