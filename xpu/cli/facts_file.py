"""Facts files: TOML with a device's facts at its top level."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts


def read_facts(path: Path, further: Iterable[str]) -> DeviceFacts:
    """Read a facts file.

    Raises
    ------
    XpuConfigError
        It cannot be read, is no TOML, or holds an undeclared name or a wrong type.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as cause:
        raise XpuConfigError(f"{path}: {cause.strerror or cause}") from cause
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise XpuConfigError(f"{path}: no TOML: {cause}") from cause
    tables = [name for name, value in document.items() if isinstance(value, dict)]
    if tables:
        raise XpuConfigError(
            f"{path}: a facts file holds one device's facts at its top level, "
            f"and no tables; given: [{tables[0]}]"
        )
    return DeviceFacts.from_mapping(document, further=further, where=str(path))
