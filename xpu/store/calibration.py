"""What was measured of whole devices: shipped records, then those measured on this machine.

A record is a TOML file that a person can read: the key that its figures hold for, the day, and
the figures. Shipped ones lie in ``calibration`` beside the shipped configuration, under any
name; own ones in the platform's cache directory. A shipped record serves before an own one of
the same key. Nothing here measures.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError, XpuError
from xpu.model import Calibration, CalibrationKey
from xpu.settings.files import shipped_directory
from xpu.store import disk

SCHEMA: Final = 1
_FOLDER: Final = "calibration"
_KEY: Final = tuple(field.name for field in attrs.fields(CalibrationKey))
_log = logging.getLogger("xpu")


@attrs.frozen
class CalibrationFile:
    """A record, where it lies, and whether it shipped with XPU."""

    record: Calibration
    path: Path
    is_shipped: bool


class Calibrations:
    """Records of devices.

    Parameters
    ----------
    shipped, own
        Directories in place of the shipped one and that of the platform's cache.

    Notes
    -----
    A file that is no record is passed over with a warning: a figure that cannot be had is
    absent, and stops nothing.
    """

    def __init__(self, shipped: Path | None = None, own: Path | None = None) -> None:
        self.shipped: Final = shipped_directory() / _FOLDER if shipped is None else shipped
        self.own: Final = _cache_directory() if own is None else own

    def find(self, key: CalibrationKey) -> CalibrationFile | None:
        """Return the record that serves a device; None where nobody has measured it."""
        own = self.path_of(key)
        for path in (*sorted(self.shipped.glob("*.toml")), own):
            record = self.at(path, key)
            if record is not None:
                return CalibrationFile(record, path, is_shipped=path != own)
        return None

    def at(self, path: Path, key: CalibrationKey) -> Calibration | None:
        """Return the record of a key in a file; None where there is no such file or record."""
        return next((record for record in _read(path) if record.key == key), None)

    def keep(self, record: Calibration, path: Path | None = None) -> Path:
        """Write a record, in the cache directory unless a path is given, and return where.

        Raises
        ------
        XpuError
            It cannot be written.
        """
        path = self.path_of(record.key) if path is None else path
        try:
            disk.write(path, to_toml(record).encode())
        except OSError as error:
            raise XpuError(
                f"the calibration cannot be written to {path}: {error.strerror or error}; "
                "mend that, or name another file with --out"
            ) from error
        return path

    def path_of(self, key: CalibrationKey) -> Path:
        """Return where an own record of a key lies."""
        digest = hashlib.sha256("\0".join(attrs.astuple(key)).encode()).hexdigest()[:16]
        readable = re.sub(r"[^A-Za-z0-9]+", "-", key.device).strip("-")[:60]
        return self.own / f"{readable}-{digest}.toml"


def to_toml(record: Calibration) -> str:
    """Write a record; a figure that was not measured is not in it."""
    import tomli_w

    return tomli_w.dumps(
        {
            "schema": SCHEMA,
            "measured": record.measured,
            "key": attrs.asdict(record.key),
            "figures": dict(record.figures),
        }
    )


def from_toml(text: str) -> Calibration:
    """Read a record.

    Raises
    ------
    ValueError
        The text is none, or one of another schema version.
    XpuConfigError
        A figure is not acceptable.
    """
    document: dict[str, Any] = tomllib.loads(text)
    if document.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {document.get('schema')!r}; this version reads {SCHEMA}")
    key, figures, measured = (document.get(name) for name in ("key", "figures", "measured"))
    if not isinstance(key, dict) or sorted(key) != sorted(_KEY):
        raise ValueError(f"its [key] states {', '.join(_KEY)}, and nothing else")
    if not all(isinstance(text, str) for text in (*key.values(), measured)):
        raise ValueError("what its [key] states is text, and so is the day in measured")
    if not isinstance(figures, dict):
        raise ValueError("it has no [figures]")
    return Calibration(CalibrationKey(**key), figures, str(measured))


def _read(path: Path) -> Iterator[Calibration]:
    """Yield the record of a file; nothing where there is none."""
    try:
        data = disk.read(path)
        if data is not None:
            yield from_toml(data.decode("utf-8"))
    except (OSError, ValueError, XpuConfigError) as error:
        _log.warning("the calibration %s is passed over: %s", path, error)


def _cache_directory() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("xpu", appauthor=False) / _FOLDER
