"""Where the command line keeps answers and finds its orchestrator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xpu.errors import XpuConfigError
from xpu.spec import expanded

if TYPE_CHECKING:
    from xpu.orchestrator import Orchestrator

BUNDLE_VARIABLE: Final = "XPU_BUNDLE"


def store_directory() -> Path | None:
    """Return ``$XPU_STORE``, None when that is set and empty, else the platform's place."""
    named = os.environ.get("XPU_STORE")
    if named == "":
        return None
    if named is not None:
        try:
            return expanded(named).absolute()
        except FileNotFoundError:
            raise XpuConfigError(
                f"XPU_STORE={named} is relative to the current directory, which is gone; "
                "name a whole path"
            ) from None
    import platformdirs

    return platformdirs.user_cache_path("xpu", appauthor=False) / "store"


def open_orchestrator(backend: str | None, device: int, *, with_store: bool = True) -> Orchestrator:
    """Return an orchestrator as the command line uses it; the caller closes it.

    Its members come from the bundle that ``$XPU_BUNDLE`` names, if it is set.
    """
    from xpu.orchestrator import Orchestrator

    return Orchestrator(
        store_directory() if with_store else None,
        backend=backend,
        device=device,
        tuning="off",
        bundle=os.environ.get(BUNDLE_VARIABLE) or None,
    )
