"""What programs and libraries say of themselves, asked once for each state of their files.

Starting a compiler to ask its version costs more than looking up what it built. An answer is kept
beside built code, with the size, the times and the number of every file that it rests on; when one
of them differs the question is put again. Backends call this for their compilers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from xpu.spec.places import build_cache_directory


def remembered(question: str, ask: Callable[[], tuple[str, Iterable[str | Path]]]) -> str:
    """Return the answer to a question, asked anew when a file that it rests on has changed.

    Parameters
    ----------
    question
        What is asked and of whom, with all of the environment that the answer depends on.
    ask
        Gives the answer and the files, or directories, on which it rests. What it raises is
        raised, and nothing is remembered.
    """
    name = f"{hashlib.sha256(question.encode()).hexdigest()}.json"
    path = build_cache_directory() / "tools" / name
    damaged = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
    with contextlib.suppress(OSError, *damaged):
        entry = json.loads(path.read_text("utf-8"))
        states = entry["files"].items()
        if entry["question"] == question and all(_state(file) == state for file, state in states):
            return str(entry["answer"])
    answer, files = ask()
    entry = {
        "question": question,
        "files": {str(file): _state(file) for file in files},
        "answer": answer,
    }
    with contextlib.suppress(OSError):  # it is asked again then
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as fresh:
            json.dump(entry, fresh)
        Path(fresh.name).replace(path)
    return answer


def _state(file: str | Path) -> list[int] | None:
    """Return what changes when a file does; None when there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a path may be a text here
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
