"""The model file that a command takes its problems from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpu.cli.output import Command
from xpu.errors import XpuConfigError

if TYPE_CHECKING:
    from xpu.probes import ModelProblems
    from xpu.registry import Registry

DEFAULT_BATCHES = "1,8,64"


def model_option(command: Command) -> Command:
    """Add ``--model``."""
    return click.option(
        "--model",
        "model_path",
        type=click.Path(path_type=Path),
        help="Take problems and weights from a model file.",
    )(command)


@contextmanager
def opened_model(
    registry: Registry, path: Path | None, batches: tuple[int, ...]
) -> Iterator[ModelProblems | None]:
    """Open a model file with whichever reader understands it; None where no path is given.

    Raises
    ------
    XpuConfigError
        There is no such file, or no reader understands it.
    """
    from xpu.probes import ModelProblems

    if path is None:
        yield None
        return
    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises on a name that is too long
        found = "is no regular file" if os.path.lexists(path) else "does not exist"
        raise XpuConfigError(f"--model {path} {found}; give the path of a model file")
    for source in registry.problem_sources.values():
        if source.accepts(path):
            model = source.open(path)
            try:
                yield ModelProblems(model, batches)
            finally:
                model.close()
            return
    kinds = ", ".join(registry.problem_sources) or "none installed"
    raise XpuConfigError(f"--model {path}: no reader understands it; readers: {kinds}")
