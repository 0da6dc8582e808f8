"""Which TOML files are read, in layers from lower to higher, and how one file is read.

The base is the shipped directory, or the one that ``$XPU_CONFIG_DIR`` names; over it come
plugins' files, the user's directory, and what the caller gives as ``config=``.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from xpu.errors import XpuConfigError
from xpu.model import nearest
from xpu.settings.places import File, Place
from xpu.settings.tables import FILES
from xpu.spec import expanded

Config = str | os.PathLike[str]
Layer = list[File]

BASE_VARIABLE: Final = "XPU_CONFIG_DIR"
_NAMES: Final = tuple(f"{name}.toml" for name in FILES)
_LARGEST_BYTES: Final = 4 * 2**20
_LOGGER: Final = logging.getLogger("xpu")


def layers(
    config: Config | Sequence[Config] | None,
    plugin_files: Iterable[tuple[str, Path]],
    environ: Mapping[str, str],
    *,
    resolved: Path | None = None,
) -> list[Layer]:
    """Return every file to read, a list for each layer, the lowest layer first.

    `resolved` is a directory with what layers said when they were written back: it stands
    in the place of all of them but `config`.

    Raises
    ------
    XpuConfigError
        A directory or file that was named is not there, or is of no use.
    """
    by_plugin: dict[str, Layer] = {}
    for plugin, path in plugin_files:
        by_plugin.setdefault(plugin, []).append(File(path, plugin))
    given = config if isinstance(config, list | tuple) else () if config is None else (config,)
    over = [_given(item) for item in given]
    if resolved is not None:
        return [[File(resolved / name) for name in _NAMES], *over]
    base = [base_file(name, environ) for name in _NAMES]
    users = _user_directory()
    own = _present(users, str(users)) if os.path.lexists(users) else []
    return [base, *by_plugin.values(), own, *over]


def base_file(name: str, environ: Mapping[str, str]) -> File:
    """Return a base file: the one in ``$XPU_CONFIG_DIR``, else the shipped one."""
    named = environ.get(BASE_VARIABLE, "")
    if named:
        directory = expanded(named)
        if not os.path.isdir(directory):  # noqa: PTH112 - Path.is_dir raises where access is denied
            raise XpuConfigError(
                f"{BASE_VARIABLE}={named}: there is no such directory; name one that holds "
                f"any of {', '.join(_NAMES)}, or unset it"
            )
        if name in _names_in(directory, f"{BASE_VARIABLE}={named}"):
            return File(directory / name, is_users=True)
    return File(shipped_directory() / name)


def shipped_directory() -> Path:
    """Return the directory of the shipped files: the package's copy, else the checkout's."""
    package = Path(__file__).parents[1]
    copy = package / "_config"
    return copy if copy.is_dir() else package.parent / "config"


def read(file: File) -> dict[str, Any]:
    """Read a TOML file and check every key and type in it.

    Raises
    ------
    XpuConfigError
        It cannot be read, is not TOML in UTF-8, or holds what the file may not hold.
    """
    tables = _parsed(file)
    top = file.path.name.removesuffix(".toml")
    allowed = [top] if top in FILES else list(FILES)
    for name, value in tables.items():
        place = Place(file).below(name)
        if name not in allowed:
            belongs = f"it belongs in {name}.toml; " if name in FILES else ""
            raise place.error(
                f"found the unknown table {name!r}; {belongs}{nearest(name, allowed)}"
            )
        FILES[name].check(value, place)
    return tables


def _parsed(file: File) -> dict[str, Any]:
    data = _bytes(file)
    place = Place(file)
    try:
        # A byte order mark is what some editors put first; TOML's grammar has no place for it.
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise place.error(
            f"line {line} is not UTF-8: found byte 0x{data[error.start]:02x}; save it as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise place.error(f"this is not TOML: {error}") from None
    except RecursionError:
        raise place.error("this is not TOML to be read: values are nested too deeply") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise place.error(f"this is not TOML to be read: {error}") from None


def _bytes(file: File) -> bytes:
    place = Place(file)
    try:
        mode = file.path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise place.error("this is a directory; allowed: a TOML file")
        if not stat.S_ISREG(mode):  # reading a pipe might never end
            raise place.error("this is not a regular file; allowed: a TOML file")
        with file.path.open("rb") as opened:
            data = opened.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise place.error(f"it cannot be read: {reason}; check the path and its mode") from None
    if len(data) > _LARGEST_BYTES:
        raise place.error(f"it has more than {_LARGEST_BYTES} bytes; allowed: up to that")
    return data


def _user_directory() -> Path:
    import platformdirs

    return platformdirs.user_config_path("xpu", appauthor=False)


def _present(directory: Path, where: str) -> Layer:
    there = _names_in(directory, where)
    return [File(directory / name, is_users=True) for name in _NAMES if name in there]


def _names_in(directory: Path, where: str) -> frozenset[str]:
    """Return the names in a directory; of a TOML file that nobody reads, say so."""
    try:
        there = frozenset(path.name for path in directory.iterdir())
    except OSError as error:
        raise XpuConfigError(
            f"{where}: it cannot be looked into: {error.strerror}; check the path and its mode"
        ) from None
    for name in sorted(there.difference(_NAMES)):
        if name.endswith(".toml"):
            _tell_unread(directory / name)
    return there


@functools.cache
def _tell_unread(path: Path) -> None:
    _LOGGER.warning("%s is not read; call it one of %s", path, ", ".join(_NAMES))


def _given(config: object) -> Layer:
    if not isinstance(config, str | os.PathLike) or not os.fspath(config):
        raise XpuConfigError(f"config={config!r}: allowed: a directory or a .toml file")
    path = expanded(config)
    if not os.path.lexists(path):
        raise XpuConfigError(f"config={path}: there is no such file or directory")
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where access is denied
        files = _present(path, f"config={path}")
        if not files:
            raise XpuConfigError(f"config={path}: it holds none of {', '.join(_NAMES)}")
        return files
    if path.suffix != ".toml":
        raise XpuConfigError(f"config={path}: allowed: a directory or a .toml file")
    return [File(path, is_users=True)]
