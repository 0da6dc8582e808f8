"""Where the vendor's libraries are: in a package, else where the system's loader looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xpu.errors import XpuBuildError

_T = TypeVar("_T")


def opened(name: str, title: str, fix: str, make: Callable[[str], _T]) -> _T:
    """Return what is made of a library's path.

    Parameters
    ----------
    name, title
        The library as `cuda.pathfinder` knows it, and as messages call it.
    fix
        What to type where it is not here.

    Raises
    ------
    XpuBuildError
        It is not there, or cannot be loaded.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError as error:
        raise XpuBuildError(f"there is no {title}: {error}; {fix}") from error
    try:
        path = load_nvidia_dynamic_lib(name).abs_path
        if path is None:
            raise OSError(f"lib{name} is loaded, and nobody says from where")
        return make(path)
    except (OSError, RuntimeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise XpuBuildError(f"there is no {title}: {first}; {fix}") from error
