"""No file of the repository names a place on the machine that it was written on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# The absolute places where people keep checkouts, homes and scratch files.
PLACE = re.compile(r"(?<![\w.~$}/-])/(?:home|mnt|root|tmp|Users|work|workspace)/[\w.-]+")


def repository_files(root: Path) -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            yield root / name


def test_no_absolute_place(root: Path) -> None:
    if not (root / ".git").exists():
        pytest.skip("not a checkout: only its own files can be listed")
    offenders = []
    for path in repository_files(root):
        content = path.read_bytes()
        if b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")
        offenders += [f"{path.relative_to(root)}: {place}" for place in PLACE.findall(text)]
        if str(root) in text:
            offenders.append(f"{path.relative_to(root)}: {root}")
    assert not offenders


@pytest.mark.parametrize("place", ["home", "root", "tmp", "work"])
def test_a_planted_place_is_found_and_a_relative_one_is_none(place: str) -> None:
    for before in ("", "cd ", "'", "(", "path="):
        assert PLACE.findall(f"{before}/{place}/ada")
    for before in ("~", "a", ".", "..", "$HOME", "${HOME}", "https://example.org"):
        assert not PLACE.findall(f"{before}/{place}/ada")
    assert not PLACE.findall(f"/{place} or /{place}/")
