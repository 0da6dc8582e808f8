"""NVRTC's functions, and the process that compiles one program with them.

Run as a script it reads one `Job` from its input, compiles, and writes the answer: so a
compilation can be ended, and one that crashes takes nothing with it. Started with ``-I -S`` it is
up in 30 ms; that is why it calls NVRTC through ctypes and imports the standard library alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict

_LATE_S: Final = 5
"""Seconds past the deadline after which a process whose starter is gone ends itself."""


class Job(TypedDict):
    """What is compiled: a text under a name, what it may include, and options."""

    library: str
    name: str
    text: str
    headers: Mapping[str, str]
    options: Sequence[str]
    deadline_s: float


class Nvrtc:
    """The library at a path.

    Raises
    ------
    OSError
        It cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        # Releases without a run path of their own look for this one everywhere but beside them.
        builtins = Path(path).resolve().parent / f"libnvrtc-builtins.so.{self.version()}"
        if builtins.exists():
            ctypes.CDLL(str(builtins))

    def version(self) -> str:
        """Return the version, for instance ``13.5``."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def architectures(self) -> tuple[int, ...]:
        """Return the compute capabilities that it compiles for, 90 for 9.0."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(numbers)

    def compile(self, job: Job) -> tuple[str, str, bytes, bytes]:
        """Compile one program.

        Returns
        -------
        tuple
            What is wrong in NVRTC's word (empty when nothing is), its log, the CUBIN, and the
            PTX that it was assembled from: reading that takes a tenth of a millisecond.
        """
        names, texts = _texts(job["headers"]), _texts(job["headers"].values())
        options = _texts(job["options"])
        program = ctypes.c_void_p()
        given = (job["text"].encode(), job["name"].encode(), len(names), texts, names)
        self._call("nvrtcCreateProgram", ctypes.byref(program), *given)
        status = self._library.nvrtcCompileProgram(program, len(options), options)
        log = self._read("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if status:
            return self._word(status), log, b"", b""
        return "", log, self._read("CUBIN", program), self._read("PTX", program).rstrip(b"\0")

    def _read(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, data)
        return data.raw

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise OSError(f"{name} gave {self._word(status)}")

    def _word(self, status: int) -> str:
        word: bytes = self._library.nvrtcGetErrorString(status)
        return word.decode()


def _texts(items: Any) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [item.encode() for item in items]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def main() -> None:
    """Read a job from the input, write the answer: a line of JSON, after it the code and PTX."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a user's Ctrl-C ends it within a call, too
    job: Job = json.load(sys.stdin.buffer)
    signal.alarm(int(job["deadline_s"]) + _LATE_S)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the compiler itself should print is no answer
    word, log, code, ptx = Nvrtc(job["library"]).compile(job)
    head = {"word": word, "log": log, "code_bytes": len(code)}
    answer.write(json.dumps(head).encode() + b"\n" + code + ptx)
    answer.close()


if __name__ == "__main__":
    main()
