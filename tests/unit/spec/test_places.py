"""Paths as users type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpu.spec import expanded


def test_a_home_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expanded("~/store") == Path("/somewhere/store")
    assert expanded(Path("~")) == Path("/somewhere")


@pytest.mark.parametrize("path", ["~nobody-of-this-name/store", "relative/store", "/whole"])
def test_what_has_no_home_stays_as_it_is(path: str) -> None:
    assert expanded(path) == Path(path)
