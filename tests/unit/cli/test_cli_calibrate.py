"""``xpu calibrate`` and what ``xpu bench`` makes of it, on designs whose times are known."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xpu.cli.calibrate import quantity
from xpu.model import FIGURES, DeviceFacts, Member, Problem
from xpu.spec import Argument, CalibrationDesign, Design, KernelSource
from xpu.testing import NullBackend, NullLaunch, registry_of

FACTS = DeviceFacts(
    backend="null", name="a part", driver_version="7", multiprocessors=4, memory_bytes=1 << 28
)


class Twice(Design):
    """y = 2 x over n floats."""

    name = "twice"
    parameters: tuple[str, ...] = ("half",)
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "see kernels()")

    def shapes(self, problem, constants):
        return {"x": (problem.n,), "y": (problem.n,)}

    def data(self, problem, constants, rng):
        return {"x": rng.standard_normal(problem.n).astype(np.float32)}

    def verify(self, problem, constants, inputs, outputs, rng):
        return "" if np.array_equal(outputs["y"], inputs["x"] * 2) else "y is not 2 x"

    def operations(self, problem):
        return problem.n

    def arithmetic(self, dialect, member):
        return None if member.get("half") else "float32"


class Peak(Twice, CalibrationDesign):
    name = "peak"
    figure = "float32_per_s"
    members = (Member("only", {"half": 0}),)

    def sized(self, facts, step):
        return Problem(n=64 * 4**step) if step < 8 else None


class Reading(Peak):
    name = "reading"
    figure = "read_bytes_per_s"

    def value(self, problem, launch_ns):
        return 8 * problem.n / launch_ns * 1e9


class Broken(Peak):
    name = "broken"
    figure = "int8_dot_per_s"

    def verify(self, problem, constants, inputs, outputs, rng):
        return "it is wrong by design"


def kernels(launch: NullLaunch) -> float:
    """Stand for the kernels: 1 ns an element for those that measure, 4 ns for others."""
    x, y = launch.buffers
    y[...] = x * 2
    return float(x.size) * (4.0 if launch.kernel.startswith("twice") else 1.0)


FAMILY = """
[families.twice]
design  = "twice"
problem = ["n"]

[[families.twice.members]]
name = "one"
half = 0

[[families.twice.members]]
name = "other"
half = 1
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Callable[..., tuple]:
    """Run a command line on a device of none, with a cache directory of its own."""
    from xpu.cli.app import run

    (tmp_path / "families.toml").write_text(FAMILY)
    (tmp_path / "probes.toml").touch()
    monkeypatch.setenv("XPU_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "build"))
    designs: list[type[Design]] = [Twice, Peak, Reading]

    def use(*more: type[Design]) -> None:
        registry = registry_of(NullBackend("c", kernels, facts=FACTS), *designs, *more)
        monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
        monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)

    def command(*arguments: object, more: tuple[type[Design], ...] = ()) -> tuple[int, str, str]:
        use(*more)
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "fault of XPU's own" not in err
        return status, out, err

    return command


def test_without_a_record_it_names_what_the_key_holds_and_nothing_empty(command) -> None:
    status, out, err = command("calibrate", "--show")
    assert (status, out) == (1, "")
    named = "device a part, null-mp4, driver 7, compiler null 1"
    assert f"nothing is known of {named}; measure it with: xpu calibrate" in err


def test_it_measures_keeps_and_shows(command, tmp_path: Path) -> None:
    status, out, err = command("calibrate", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert set(document) == {"key", "measured", "path", "shipped", "figures", "notes"}
    assert document["key"] == {
        "device": "a part, null-mp4", "driver": "7", "compiler": "null 1", "power": "",
    }  # fmt: skip
    assert list(document["figures"]) == list(FIGURES)
    measured = {name: value for name, value in document["figures"].items() if value is not None}
    assert measured == {"float32_per_s": 1e9, "read_bytes_per_s": 8e9}
    path = Path(document["path"])
    assert path.parent == tmp_path / "cache" / "xpu" / "calibration"
    assert tomllib.loads(path.read_text("utf-8"))["figures"] == measured
    status, out, _ = command("calibrate", "--show", "--json")
    shown = json.loads(out)
    assert status == 0
    assert {**shown, "notes": 0} == {**document, "notes": 0}
    status, out, _ = command("calibrate")
    assert status == 0
    assert "1 Gop/s" in out
    assert "8 GB/s" in out
    assert f"kept in {path}" in out
    assert "what serves" not in out


def test_a_record_can_be_written_to_ship_and_then_serves(command, tmp_path, monkeypatch) -> None:
    shipped = tmp_path / "shipped"
    monkeypatch.setattr("xpu.store.calibration.shipped_directory", lambda: shipped)
    record = shipped / "calibration" / "a part.toml"
    status, out, _ = command("calibrate", "--out", record)
    assert status == 0
    assert f"kept in {record}" in out
    assert not (tmp_path / "cache" / "xpu" / "calibration").exists()
    assert json.loads(command("calibrate", "--show", "--json")[1])["shipped"] is True
    own = command("calibrate")[1]
    assert f"what serves is shipped in {record}" in own


def test_a_figure_that_fails_is_status_1_with_its_reason_and_the_others_are_kept(command) -> None:
    status, out, _ = command("calibrate", "--json", more=(Broken,))
    document = json.loads(out)
    assert status == 1
    assert document["figures"]["int8_dot_per_s"] is None
    assert "it is wrong by design" in document["notes"]["int8_dot_per_s"]
    assert (
        json.loads(command("calibrate", "--show", "--json")[1])["figures"]["float32_per_s"] == 1e9
    )


def test_where_nothing_can_be_measured_nothing_is_kept(command, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("xpu.testing.null_device.NullDevice.foreign_load", lambda _: 0.8)
    status, out, err = command("calibrate", "--json")
    assert (status, out) == (1, "")
    assert "80 % of the device was held by others" in err
    assert not (tmp_path / "cache" / "xpu" / "calibration").exists()


def test_an_interruption_keeps_the_figures_that_were_finished(command, monkeypatch) -> None:
    def interrupted(self, facts, step):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reading, "sized", interrupted)
        assert command("calibrate")[0] == 130
    figures = json.loads(command("calibrate", "--show", "--json")[1])["figures"]
    assert {name for name, value in figures.items() if value is not None} == {"float32_per_s"}


@pytest.mark.parametrize("out", [False, True])
def test_an_interruption_takes_no_earlier_figure_away(command, monkeypatch, tmp_path, out) -> None:
    place = ["--out", tmp_path / "record.toml"] if out else []
    path = Path(json.loads(command("calibrate", "--json", *place)[1])["path"])
    path.write_text(re.sub('measured = ".*"', 'measured = "2001-02-03"', path.read_text("utf-8")))

    def interrupted(self, facts, step):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reading, "sized", interrupted)
        patch.setattr(Peak, "operations", lambda self, problem: 3 * problem.n)
        assert command("calibrate", *place)[0] == 130
    record = tomllib.loads(path.read_text("utf-8"))
    assert record["figures"] == {"float32_per_s": 3e9, "read_bytes_per_s": 8e9}
    assert record["measured"] == "2001-02-03"
    assert command("calibrate", *place)[0] == 0
    record = tomllib.loads(path.read_text("utf-8"))
    assert record["figures"] == {"float32_per_s": 1e9, "read_bytes_per_s": 8e9}
    assert record["measured"] != "2001-02-03"


def test_figures_of_another_key_are_replaced(command, tmp_path) -> None:
    path = tmp_path / "record.toml"
    command("calibrate", "--out", path)
    text = path.read_text("utf-8").replace('driver = "7"', 'driver = "6"')
    path.write_text(text.replace("[figures]", "[figures]\nlatency_ns = 5.0"))
    assert command("calibrate", "--out", path)[0] == 0
    assert "latency_ns" not in tomllib.loads(path.read_text("utf-8"))["figures"]


def test_wrong_usage_and_a_place_that_cannot_be_written_are_named(command, tmp_path) -> None:
    status, _, err = command("calibrate", "--show", "--out", "file")
    assert status == 2
    assert "--show" in err
    (tmp_path / "file").touch()
    status, _, err = command("calibrate", "--out", tmp_path / "file" / "record.toml")
    assert status == 1
    assert "cannot be written" in err


def test_bench_says_what_share_of_the_measured_figures_a_member_reaches(command) -> None:
    document = json.loads(command("bench", "twice", "4096", "--json")[1])
    assert document["calibration"] is None
    assert {(one["peak_share"], one["bandwidth_share"]) for one in document["members"]} == {
        (None, None)
    }
    assert "of peak" not in command("bench", "twice", "4096")[1]
    path = json.loads(command("calibrate", "--json")[1])["path"]
    document = json.loads(command("bench", "twice", "4096", "--json")[1])
    assert document["calibration"] == path
    shares = {
        one["name"]: (one["peak_share"], one["bandwidth_share"]) for one in document["members"]
    }
    # A quarter of the operations a second; and 8 bytes in 4 ns of the 8 in 1 ns.
    assert shares == {"one": (0.25, 0.25), "other": (None, 0.25)}
    lines = command("bench", "twice", "4096")[1].splitlines()
    [head] = [line for line in lines if "of peak" in line]
    assert head.split("GB/s")[1].split()[:2] == ["of", "bandwidth"]
    [row] = [line for line in lines if line.split()[:1] == ["one"]]
    assert row.count("25.0 %") == 2


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        ("read_bytes_per_s", 4.3217e12, "4.322 TB/s"),
        ("float32_per_s", 999e9, "999 Gop/s"),
        ("float32_per_s", 1e15, "1 Pop/s"),
        ("int8_dot_per_s", 5e20, "5e+05 Pop/s"),
        ("bytes_in_flight", 812.0, "812 B"),
        ("bytes_in_flight", 0.5, "0.5 B"),
        ("launch_ns", 2500.0, "2.5 µs"),
        ("launch_ns", None, None),
    ],
)
def test_figures_are_written_with_their_units(figure, value, text) -> None:
    assert quantity(figure, value) == text
