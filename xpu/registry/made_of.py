"""What a plugin's object is made of, as a hash: it changes when its author mends something.

A version alone does not tell: an editable install keeps its version from one edit to the next.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from xpu.registry.guard import bare, owner_of
from xpu.spec.backend import Backend
from xpu.spec.design import Design

_OWN: Final = "xpu"


def made_of(item: Backend | Design) -> str:
    """Hash the version of a plugin's distribution and the Python files that an object is made of.

    Those are the files of the packages in which its class and that class's bases are defined,
    XPU's own apart; of a module that is in no package, the module. They are read once for each
    class.
    """
    owner = owner_of(item)
    return _made_of(type(bare(item)), "" if owner is None else owner.distribution)


@functools.cache
def _made_of(cls: type, distribution: str) -> str:
    version = ""
    with suppress(metadata.PackageNotFoundError, ValueError):  # not installed, or nameless
        version = metadata.version(distribution)
    digest = hashlib.sha256(f"{distribution} {version}\n".encode())
    for place in dict.fromkeys(_places(cls)):
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            with suppress(OSError):  # in an archive, or gone: the version stands for it
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(place.parent)} {content}\n".encode())
    return digest.hexdigest()


def _places(cls: type) -> Iterator[Path]:
    for base in cls.__mro__:
        if not issubclass(base, Backend | Design) or base.__module__.partition(".")[0] == _OWN:
            continue
        module = sys.modules.get(base.__module__)
        name = getattr(module, "__file__", None)
        if name is not None:
            file = Path(name)
            yield file.parent if getattr(module, "__package__", "") else file
