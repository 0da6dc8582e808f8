"""The compiler half of a backend: source in, a code object and what it says of itself out.

It works with no device present. The core gives it units and keeps what it makes by content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import attrs

from xpu.errors import XpuBuildError
from xpu.model import BufferAccess, KernelFacts, LaunchSite, Operation
from xpu.spec.design import Argument


@attrs.frozen
class KernelUnit:
    """One kernel to compile: a member of a design with its constants.

    Attributes
    ----------
    kernel
        Its name in messages and manifests, for instance ``q4k_tile.r8x16``.
    entry
        The symbol to be defined (``XPU_ENTRY``).
    text, includes
        The source, and the files that it may include, by name.
    defines
        Macros by name: parameters and constants.
    arguments
        The buffers that the kernel takes, in order.
    max_threads
        The most threads of a block in any launch, ``XPU_THREADS`` among the macros: for the
        compiler to be told. None: there are no blocks, or no bound.
    fast_math
        Whether the compiler may reassociate, use approximate division and square roots and
        flush subnormal numbers to zero. NaN and infinities stay what they are.
    launch_sites
        Where it is launched; for the manifest.
    """

    kernel: str
    entry: str
    text: str
    includes: Mapping[str, str]
    defines: Mapping[str, str]
    arguments: tuple[Argument, ...] = ()
    max_threads: int | None = None
    fast_math: bool = False
    launch_sites: tuple[LaunchSite, ...] = ()


@attrs.frozen
class CompiledCode:
    """What a compiler made of a unit: the code object and what was read from it.

    `listing` is the text that the compiler made the code of, assembly say, where there is one. It
    is kept for people to read, and nothing rests on it.
    """

    code: bytes
    facts: KernelFacts
    buffers: tuple[BufferAccess, ...] = ()
    operations: tuple[Operation, ...] = ()
    listing: str = ""


class Compiler(ABC):
    """The compiler half. It needs no device."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Compiler and version; part of what a cached build rests on."""

    @abstractmethod
    def native_target(self) -> str:
        """Name the target of this machine's device."""

    def knows(self, target: str) -> bool:
        """Whether it compiles for a target of this name; unless overridden, this machine's alone.

        Whoever names a target and no backend gets the backend whose compiler knows it.
        """
        try:
            return target == self.native_target()
        except XpuBuildError:
            return False

    def targets(self) -> Collection[str]:
        """Name targets that it `knows`, for hints on a name that nobody does; as inherited none."""
        return ()

    def carried_target(self, target: str) -> str:
        """Return the name under which code for a target is carried to other machines.

        It is one of `Backend.code_targets` where the code runs, and of no other machine: a
        target that means "this machine" gets a name that says which.
        """
        return target

    def runtime(self, target: str) -> Mapping[str, bytes]:
        """Return what the device half loads beside kernels, compiled: contents by file name.

        A bundle carries them, and `Backend.prebuilt` gets them back as files.

        Raises
        ------
        XpuBuildError
            They do not compile.
        """
        return {}

    @abstractmethod
    def fingerprint(self, target: str) -> str:
        """Return a text that changes when the code for a target would: flags and prelude."""

    def matrix_shapes(self, target: str) -> tuple[str, ...]:
        """Name the cooperative matrices that a target multiplies by instructions of its own.

        Each has the form of `xpu.model.MatrixShape`, for instance ``int8->int32:16x16x32``, and
        is a shape of the dialect, of one instruction or of several. The facts of a device name
        the same ones as the target of its code. As inherited a target has none: the software
        tile serves.
        """
        return ()

    def disassembly(self, code: Path, entry: str) -> str:
        """Return the instructions of a kernel's code object as text, by a tool that is installed.

        As inherited there is no such tool; what the compiler left as `listing` stands for it.

        Raises
        ------
        XpuBuildError
            There is no tool, or it fails; the message says what to install.
        """
        raise XpuBuildError(f"nothing here disassembles code of {self.identity}")

    @abstractmethod
    def compile(
        self, units: Sequence[KernelUnit], target: str, *, deadline_s: float
    ) -> Sequence[CompiledCode | XpuBuildError]:
        """Compile units for a target, in one batch where that is cheaper.

        A unit that fails is an `XpuBuildError` in its place, not an exception: the others
        work on. `deadline_s` bounds each unit, in seconds.
        """
