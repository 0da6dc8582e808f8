"""Functions that stand for kernels, found again in another process by where they are defined."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any


def function_reference(function: Callable[..., Any] | None) -> dict[str, str]:
    """Say where another process finds a function."""
    if function is None:
        return {}
    name = getattr(function, "__qualname__", "")
    file = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    if not name or "<" in name or file is None:
        return {"nowhere": name or repr(type(function))}
    return {"module": function.__module__, "name": name, "file": file}


def found_function(reference: Mapping[str, str]) -> Any:
    """Return the function that a reference names; None for none.

    Raises
    ------
    ValueError
        It is a closure or a lambda, which no other process can find.
    ImportError, AttributeError
        It is not where it was.
    """
    if not reference:
        return None
    if "nowhere" in reference:
        raise ValueError(
            f"{reference['nowhere']} stands in no module, so that a worker process cannot run it; "
            "define it at the top level of one"
        )
    module = sys.modules.get(reference["module"]) or _imported(reference)
    function: Any = module
    for part in reference["name"].split("."):
        function = getattr(function, part)
    return function


def _imported(reference: Mapping[str, str]) -> Any:
    try:
        return importlib.import_module(reference["module"])
    except ImportError:
        # A test module is often known to its own process alone, under a name made for it.
        spec = importlib.util.spec_from_file_location(reference["module"], reference["file"])
        if spec is None or spec.loader is None:
            raise
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
