"""Writes a bundle, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from xpu.adaptor import Built, Called, manifest_to_toml
from xpu.bundle.contents import CONFIG, TOP, Carried, Contents, Kernel
from xpu.bundle.place import check_place, place_of, put
from xpu.errors import XpuBuildError, XpuConfigError, XpuError


class BundleWriter:
    """Gathers targets in a directory beside the bundle's own and puts it in place at the end.

    As a context manager it leaves nothing behind unless `finish` was called.

    Raises
    ------
    XpuConfigError
        The name is empty, or something at the place would be lost; see `check_place`.
    XpuError
        The directory cannot be written.
    """

    def __init__(self, directory: str | Path, version: str) -> None:
        self.directory: Final = place_of(directory)
        self._version = version
        self._targets: list[Carried] = []
        self._hashes: dict[str, str] = {}
        with self._writing():
            check_place(self.directory)
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            self._fresh = Path(tempfile.mkdtemp(prefix=".bundle-", dir=self.directory.parent))
            self._fresh.chmod(0o755)  # it serves whoever runs there

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        shutil.rmtree(self._fresh, ignore_errors=True)

    def add_config(self, files: Mapping[str, str]) -> None:
        """Add the configuration, texts by file name."""
        for name, text in files.items():
            self._write(f"{CONFIG}/{name}", text.encode())

    def add_target(
        self,
        target: Carried,
        made: Iterable[tuple[str, Built]],
        called: Iterable[Called],
        runtime: Mapping[str, bytes],
    ) -> None:
        """Add a target; of `target`, what it holds is filled in here.

        Parameters
        ----------
        made
            Kernels with the keys of their sources; of one source only the first counts.
        called
            Members that call a library.
        runtime
            What the backend loads beside kernels, by name.
        """
        first: dict[str, Built] = {}
        for source, built in made:
            first.setdefault(source, built)
        self._targets.append(
            attrs.evolve(
                target,
                kernels=tuple(self._kernel(target, *pair) for pair in first.items()),
                routines={each.kernel: each.entry for each in called},
                runtime={name: self._code(content) for name, content in runtime.items()},
            )
        )

    def finish(self) -> None:
        """Put the bundle in its place, in that of an older one where there is one.

        Raises
        ------
        XpuConfigError
            There is no kernel in it, or something at the place would be lost.
        XpuError
            It cannot be written.
        """
        if not any(each.kernels or each.routines for each in self._targets):
            raise XpuConfigError(
                f"--out {self.directory}: no kernel was built for it, and a bundle without kernels "
                "serves nobody; name families and targets that have some"
            )
        contents = Contents(self._version, tuple(self._targets), self._hashes)
        with self._writing():
            (self._fresh / TOP).write_text(contents.to_json(), "utf-8")
            put(self._fresh, self.directory)

    def _kernel(self, target: Carried, source: str, built: Built) -> Kernel:
        place = re.sub(r"[^\w.+-]", "_", f"{target.backend}.{target.carried}")
        stem = f"manifests/{place}/{built.manifest.kernel}"
        name = f"{stem}.toml"
        if name in self._hashes:  # the name of another source's kernel: families may share names
            name = f"{stem}.{source[:8]}.toml"
        self._write(name, manifest_to_toml(built.manifest).encode())
        with self._writing():
            code = self._code(built.code.read_bytes())
        if code != f"code/{built.manifest.code_hash}":
            raise XpuBuildError(
                f"{built.kernel}: the code in {built.code} is not that of its manifest; remove "
                f"{built.code.parent} and build again"
            )
        return Kernel(built.manifest.kernel, source, name, code)

    def _code(self, content: bytes) -> str:
        name = f"code/{hashlib.sha256(content).hexdigest()}"
        if name not in self._hashes:
            self._write(name, content)
        return name

    def _write(self, name: str, content: bytes) -> None:
        path = self._fresh / name
        with self._writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._hashes[name] = hashlib.sha256(content).hexdigest()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise XpuError(
                f"--out {self.directory} cannot be written: {cause.strerror or cause}; name "
                "another directory"
            ) from cause
