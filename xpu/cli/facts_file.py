"""Facts files: TOML with a device's facts at its top level."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts

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
