"""Facts files: TOML with a device's facts at its top level."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts
from xpu.model.facts import ANY_BACKEND
from xpu.spec import Backend

_LARGEST_BYTES: Final = 2**20  # a device never ends, and would be read for ever


def read_facts(path: Path, further: Iterable[str]) -> DeviceFacts:
    """Read a facts file.

    Raises
    ------
    XpuConfigError
        It cannot be read, is no TOML, or holds an undeclared name or a wrong type.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise XpuConfigError(f"{path}: a facts file has at most {_LARGEST_BYTES} bytes")
        document = tomllib.loads(data.decode("utf-8-sig"))
    except OSError as cause:
        raise XpuConfigError(f"{path}: {cause.strerror or cause}") from cause
    except (ValueError, RecursionError) as cause:  # not UTF-8, not TOML, a huge number, too deep
        raise XpuConfigError(f"{path}: no TOML: {cause}") from cause
    tables = [name for name, value in document.items() if isinstance(value, dict)]
    if tables:
        raise XpuConfigError(
            f"{path}: a facts file holds one device's facts at its top level, "
            f"and no tables; given: [{tables[0]}]"
        )
    return DeviceFacts.from_mapping(document, further=further, where=str(path))


def check_backend(path: Path, facts: DeviceFacts, backend: str) -> None:
    """Refuse facts of a device of another backend; facts that name none are of any.

    Raises
    ------
    XpuConfigError
        The file names another one.
    """
    if _is_of_another(facts, backend):
        raise XpuConfigError(
            f"{path}: backend = {facts.backend!r}, and --backend says {backend!r}; leave "
            f"--backend out, or give --backend {facts.backend}"
        )


def check_target(path: Path, facts: DeviceFacts, backend: Backend, target: str) -> None:
    """Refuse facts of a device that does not run code for a target, which rules would judge by.

    A field that the file leaves out, and what the backend cannot say, contradict nothing.

    Raises
    ------
    XpuConfigError
        A field says that the device is another.
    """
    width = backend.wave_width(target)
    said = f"target {target} of backend {backend.name!r}"
    field = value = why = ""
    if _is_of_another(facts, backend.name):
        field, value, why = "backend", facts.backend, f"not that of {said}"
    elif facts.architecture and backend.runs_code(facts.architecture, target) is False:
        field, value, why = "architecture", facts.architecture, f"which runs no code for {said}"
    elif None not in (facts.wave_width, width) and facts.wave_width != width:
        field, value, why = "wave_width", str(facts.wave_width), f"and {said} has waves of {width}"
    if field:
        raise XpuConfigError(
            f"{path}: {field} = {value}, {why}; name a target that the device runs with --target, "
            f"or the facts of another device with --facts; without {field} any target is taken"
        )


def _is_of_another(facts: DeviceFacts, backend: str) -> bool:
    return facts.backend not in (ANY_BACKEND, backend)
