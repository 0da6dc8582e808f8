"""What the compile step gives for a member: code on disk, or a library's routine in its place."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path

import attrs

from xpu.model import KernelFacts, Manifest
from xpu.spec import Launch


@attrs.frozen
class Built:
    """One kernel's code object, on disk, with its manifest.

    `staging` are the kernels that run before each of its launches, in order.
    """

    manifest: Manifest
    code: Path
    was_cached: bool
    staging: tuple[Built, ...] = ()

    @property
    def kernel(self) -> str:
        """Its name in messages."""
        return self.manifest.kernel

    @property
    def entry(self) -> str:
        """The symbol that is launched."""
        return self.manifest.entry

    def refuses(self, launch: Launch) -> str:
        """Say why a launch may not be made of it; the empty text when it may.

        Its registers were shared out for the largest block that anybody knew of.
        """
        most = self.manifest.max_threads
        threads = None if launch.block is None else math.prod(launch.block)
        if most is None or threads is None or threads <= most:
            return ""
        sites = ", ".join(site.where for site in self.manifest.launch_sites)
        return (
            f"{self.kernel}: a launch asks for {threads} threads a block, and its code was "
            f"compiled for at most {most} (from {sites}); declare @occupancy(max_threads=…) on "
            "its design, or make the block smaller"
        )

    @property
    def code_hash(self) -> str:
        """Hash of all code that a launch of it runs."""
        return _joined(self.manifest.code_hash, self.staging)

    @property
    def facts(self) -> KernelFacts:
        """What the compiler made of it."""
        return attrs.evolve(self.manifest.footprint, code_hash=self.code_hash)


@attrs.frozen
class Called:
    """A member that calls a routine of a library: it has no code of its own, and no manifest.

    Attributes
    ----------
    kernel
        Its name in messages.
    entry
        The routine.
    library
        Name and version of the library; None where there is none here.
    missing
        Why there is none, and what to install.
    staging
        The kernels that run before each call, in order.
    """

    kernel: str
    entry: str
    library: str | None = None
    missing: str = ""
    staging: tuple[Built, ...] = ()

    @property
    def code(self) -> None:
        """Nothing is loaded from a file."""
        return

    @property
    def code_hash(self) -> str:
        """Hash of library, routine and all code that runs before it."""
        own = hashlib.sha256(f"{self.library} {self.entry}".encode()).hexdigest()
        return _joined(own, self.staging)

    @property
    def facts(self) -> KernelFacts:
        """What is known of it: nothing but what it rests on."""
        return KernelFacts(code_hash=self.code_hash)


def _joined(own: str, staging: Iterable[Built]) -> str:
    hashes = [own, *(each.code_hash for each in staging)]
    return own if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()
