"""Records of calibrations: what serves whom, and files that are none."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpu.errors import XpuError
from xpu.model import FIGURES, Calibration, CalibrationKey
from xpu.store import Calibrations

KEY = CalibrationKey("A part (R), any-mp132-wave32", "580.1", "compiler 13.0", "700 W")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture
def records(tmp_path: Path) -> Calibrations:
    return Calibrations(tmp_path / "shipped", tmp_path / "own")


def record(key: CalibrationKey = KEY, **figures: float) -> Calibration:
    return Calibration(key, figures or {"launch_ns": 2500.0}, "2026-12-31")


@settings(max_examples=40)
@given(
    st.builds(CalibrationKey, TEXT, TEXT, TEXT, TEXT),
    st.dictionaries(st.sampled_from(list(FIGURES)), st.floats(1e-6, 1e18), min_size=1),
)
def test_a_record_comes_back_as_it_was(tmp_path_factory, key, figures) -> None:
    place = tmp_path_factory.mktemp("records")
    kept = Calibration(key, figures, "2026-12-31")
    path = Calibrations(place / "none", place).keep(kept)
    found = Calibrations(place / "none", place).find(key)
    assert found is not None
    assert (found.record, found.path, found.is_shipped) == (kept, path, False)
    assert path.parent == place
    assert tomllib.loads(path.read_text("utf-8"))["figures"] == figures


@pytest.mark.parametrize("field", ["device", "driver", "compiler", "power"])
def test_another_key_has_none(records: Calibrations, field: str) -> None:
    records.keep(record())
    other = attrs.evolve(KEY, **{field: "another"})
    assert records.find(KEY) is not None
    assert records.find(other) is None
    assert records.path_of(other) != records.path_of(KEY)


def test_a_shipped_record_serves_first_under_any_name(records: Calibrations) -> None:
    own = records.keep(record(launch_ns=1.0))
    shipped = records.keep(record(launch_ns=2.0), records.shipped / "some name.toml")
    found = records.find(KEY)
    assert found is not None
    assert (found.path, found.is_shipped) == (shipped, True)
    assert found.record.figures == {"launch_ns": 2.0}
    shipped.unlink()
    found = records.find(KEY)
    assert found is not None
    assert (found.path, found.record.figures["launch_ns"]) == (own, 1.0)


def test_nothing_is_there_before_anyone_measured(records: Calibrations) -> None:
    assert records.find(KEY) is None
    assert not records.own.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("schema = 1", "schema = 2"), "its schema is 2"),
        (lambda text: text.replace("driver = ", "drover = "), "states device, driver"),
        (lambda text: text.replace('power = "700 W"', "power = 700"), "is text"),
        (lambda text: text.replace("launch_ns", "lunch_ns"), "did you mean 'launch_ns'"),
        (lambda text: text.replace("2500.0", "-1.0"), "above 0"),
        (lambda text: text.replace("[figures]", "[figured]"), r"no \[figures\]"),
        (lambda text: text[: len(text) // 2], ""),
        (lambda _: "\udcff", "utf-8"),
    ],
)
def test_a_file_that_is_none_is_passed_over_and_named(
    records: Calibrations, change, said, caplog
) -> None:
    path = records.keep(record())
    path.write_bytes(change(path.read_text("utf-8")).encode("utf-8", "surrogateescape"))
    assert records.find(KEY) is None
    [message] = [each.getMessage() for each in caplog.records]
    assert str(path) in message
    assert re.search(said, message)


def test_a_damaged_shipped_file_costs_the_others_nothing(records: Calibrations, caplog) -> None:
    shipped = records.keep(record(), records.shipped / "b.toml")
    (records.shipped / "a.toml").write_text("nothing")
    found = records.find(KEY)
    assert found is not None
    assert found.path == shipped
    assert "a.toml" in caplog.text


def test_where_it_cannot_be_written_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(XpuError, match=r"cannot be written to .*--out"):
        Calibrations(tmp_path, tmp_path / "file").keep(record())


def test_a_record_is_whole_or_as_it_was(records: Calibrations, monkeypatch) -> None:
    path = records.keep(record(launch_ns=1.0))
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(XpuError, match="cannot be written"):
        records.keep(record(launch_ns=2.0))
    assert list(records.own.iterdir()) == [path]
    assert tomllib.loads(path.read_text())["figures"] == {"launch_ns": 1.0}


def test_the_command_line_keeps_them_in_the_cache_directory(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Calibrations().own == tmp_path / "xpu" / "calibration"
    assert Calibrations().shipped.name == "calibration"
    assert (Calibrations().shipped.parent / "rules.toml").is_file()
