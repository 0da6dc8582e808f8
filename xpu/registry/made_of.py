"""What a plugin's object is made of, as a hash: it changes when its author mends something.

A version alone does not tell: an editable install keeps its version from one edit to the next.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from xpu.registry.guard import bare, owner_of
from xpu.spec.backend import Backend
from xpu.spec.compiler import Compiler
from xpu.spec.design import Design

_OWN: Final = "xpu"
_loaded_ns: Final[dict[type, int]] = {}


def made_of(item: Backend | Design) -> str:
    """Hash the version of a plugin's distribution and the Python files that an object is made of.

    Those are the files of the packages in which its class and that class's bases are defined,
    XPU's own apart; of a module that is in no package, the module. They are read once for each
    class.
    """
    owner = owner_of(item)
    return _made_of(type(bare(item)), "" if owner is None else owner.distribution)


def note_loaded(item: Backend | Design, began_ns: int) -> None:
    """Note when the loading of a class began, in ns since the epoch; the first time counts."""
    _loaded_ns.setdefault(type(bare(item)), began_ns)


def is_edited(item: Backend | Design | Compiler) -> bool:
    """Whether a file of those in `made_of` was written, or came, since its class was loaded.

    This process then runs what stood there before, and imports, in functions and in worker
    processes, what stands there now. A compiler was loaded with what else its package brought.
    False where nobody noted when that was.
    """
    cls = type(bare(item))
    since, now = _since_ns(cls), time.time_ns()
    # A file from the future tells of a clock that was set back, and nothing of an edit.
    return since is not None and any(since < _changed_ns(each) <= now for each in _files(cls))


def _since_ns(cls: type) -> int | None:
    package = _package(cls)
    beside = (ns for each, ns in [*_loaded_ns.items()] if _package(each) == package)
    return _loaded_ns.get(cls) or max(beside, default=None)


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_ctime_ns  # an editor may set the time of writing, and not this one
    except OSError:
        return 0


@functools.cache
def _made_of(cls: type, distribution: str) -> str:
    version = ""
    with suppress(metadata.PackageNotFoundError, ValueError):  # not installed, or nameless
        version = metadata.version(distribution)
    digest = hashlib.sha256(f"{distribution} {version}\n".encode())
    for file, name in _files(cls).items():
        with suppress(OSError):  # in an archive, or gone: the version stands for it
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def _files(cls: type) -> dict[Path, Path]:
    """Return the files of a class with their names below what holds their package."""
    return {
        file: file.relative_to(place.parent)
        for place in dict.fromkeys(_places(cls))
        for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    }


def _places(cls: type) -> Iterator[Path]:
    for base in cls.__mro__:
        if not issubclass(base, Backend | Design | Compiler) or _package(base) == _OWN:
            continue
        module = sys.modules.get(base.__module__)
        name = getattr(module, "__file__", None)
        if name is not None:
            file = Path(name)
            yield file.parent if getattr(module, "__package__", "") else file
