"""The command line as its own process: streams, signals, neighbours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import first_party
import pytest
import tomli_w

# Nobody else's work may decide what is kept; only from inside can that be said.
ENTRY = """
import xpu_backend_cpu.device
xpu_backend_cpu.device.CpuDevice.foreign_load = lambda self: 0.0
from xpu.cli import main
main()
"""
# The third problem is never answered: only a signal ends this run.
STUCK = (
    """
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where it is ignored
from xpu.orchestrator import Orchestrator
choose, asked = Orchestrator.choose, []
def stuck(self, *arguments, **more):
    asked.append(arguments)
    if len(asked) == 3:
        pathlib.Path(os.environ["XPU_STORE"]).with_name("stuck").touch()
        time.sleep(120)
    return choose(self, *arguments, **more)
Orchestrator.choose = stuck
"""
    + ENTRY
)
PROBLEMS = [f"1x{n}x512" for n in range(512, 1312, 32)]


@pytest.fixture
def place(root: Path, buildable: Path, tmp_path: Path) -> Path:
    """A configuration of one shipped family with two members, and the shipped entry points."""
    first_party.plugin("kquant")
    family = tomllib.loads((root / "config/families.toml").read_text("utf-8"))["families"][
        "q4k_matvec"
    ]
    family["members"] = [one for one in family["members"] if one["name"] in ("plain", "two_row")]
    family["default"] = {"c": "plain"}
    config = tmp_path / "config"
    config.mkdir()
    (config / "families.toml").write_text(tomli_w.dumps({"families": {"q4k_matvec": family}}))
    plan = {"families": ["q4k_matvec"], "problems": PROBLEMS}
    (config / "probes.toml").write_text(tomli_w.dumps({"probes": {"matvec_variant": plan}}))
    project = tomllib.loads((buildable / "pyproject.toml").read_text("utf-8"))["project"]
    install(tmp_path / "site", "xpu-orchestrator", project["entry-points"]["xpu"])
    return tmp_path


def install(site: Path, distribution: str, points: dict[str, str]) -> None:
    """Lay down what an installer leaves of a distribution."""
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[xpu]\n{lines}")


@pytest.fixture
def environment(place: Path, root: Path) -> dict[str, str]:
    paths = [place / "site", root, *(path.parent for path in root.glob("plugins/*/*/xpu_*/"))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "XPU_CONFIG_DIR": str(place / "config"),
        "XPU_STORE": str(place / "store"),
    }


@pytest.fixture
def start(environment):
    """Start a command line in a process group of its own."""
    for name in ("cpu", "matvec_variant"):
        first_party.plugin(name)
    started = []

    def start(*arguments: str, entry: str = ENTRY, **more) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        command = [sys.executable, "-c", entry, *arguments]
        process = subprocess.Popen(
            command, env=environment, text=True, start_new_session=True, **pipes
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def shell(line: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run a line in which ``xpu`` is the command line; return its status and what it said."""
    text = f"xpu() {{ '{sys.executable}' -m xpu.cli \"$@\"; }}\n{line}\n"
    done = subprocess.run(
        ["bash", "-c", text], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("xpu families | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("xpu families >&-", 0, ""),
        ("xpu families <&- >&- 2>&-", 0, ""),
        ("xpu families >/dev/full", 1, "No space left"),
        ("xpu families --nonsense 2>/dev/full", 2, ""),
        ("PYTHONIOENCODING=ascii xpu families", 0, ""),
        ("mkdir gone && cd gone && rmdir ../gone && XPU_STORE=x xpu store list", 2, "current dir"),
    ],
)
def test_streams_that_nobody_takes(line, status, said, environment, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, err = shell(line, environment)
    assert code == status
    assert (said in err) if said else (err == "")


def _stored(place: Path) -> int:
    return len([path for path in place.glob("store/*/*/*") if not path.name.startswith(".")])


def _wait_for_answers(place: Path, process: subprocess.Popen, count: int) -> None:
    until = time.monotonic() + 60
    while _stored(place) < count and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.005)


def test_interrupted_it_reports_and_keeps_what_was_finished(start, place) -> None:
    stuck = place / "stuck"
    process = start("probe", "run", "--json", entry=STUCK)
    until = time.monotonic() + 60
    while not stuck.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("xpu: interrupted; what was finished is kept\n")
    assert "Traceback" not in err
    finished = [one["problem"] for one in json.loads(out)["results"]]
    assert finished == PROBLEMS[:2]
    assert _stored(place) == 2


def test_killed_it_leaves_whole_answers_and_the_next_run_makes_the_others(start, place) -> None:
    process = start("probe", "run")
    _wait_for_answers(place, process, 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    kept = _stored(place)
    assert kept >= 2
    again = start("probe", "run", "--json")
    out, err = again.communicate(timeout=120)
    assert (again.returncode, err) == (0, "")
    sources = [one["source"] for one in json.loads(out)["results"]]
    assert sources == ["stored"] * kept + ["timed"] * (len(PROBLEMS) - kept)


def test_two_at_once_agree_and_time_nothing_twice(start, place) -> None:
    both = [start("probe", "run", "--json") for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    results = [document["results"] for document in documents]
    for one, other in zip(*results, strict=True):
        assert one["choice"] == other["choice"]
        assert sorted((one["source"], other["source"])) in (
            ["stored", "timed"],
            ["stored", "stored"],
        )
    assert _stored(place) == len(PROBLEMS)


BROKEN = {
    "no_module": None,
    "exits": "raise SystemExit(3)",
    "from_afar": "XPU_SPEC_VERSION = 999",
    "bad_hook": (
        "from xpu.spec import hookimpl\nXPU_SPEC_VERSION = 1\n"
        "@hookimpl\ndef xpu_probes():\n    raise ValueError('boo')\n"
    ),
    "noisy": "XPU_SPEC_VERSION = 1\nprint('noise')\n",
}


def test_broken_plugins_beside_are_named_and_stop_nothing(start, place) -> None:
    site = place / "site"
    for name, text in BROKEN.items():
        install(site, f"third-{name}", {name: f"third_{name}"})
        if text is not None:
            (site / f"third_{name}.py").write_text(text)
    # Of another distribution with a name that is taken.
    install(site, "third-twin", {"cpu": "third_twin"})
    (site / "third_twin.py").write_text("XPU_SPEC_VERSION = 1\n")
    process = start("doctor", "--json")
    out, _ = process.communicate(timeout=60)
    states = {
        (one["name"], one["distribution"]): (one["state"], one["cause"])
        for one in json.loads(out)["plugins"]
    }
    assert states["cpu", "xpu-orchestrator"][0] == "loaded"
    assert states["cpu", "third-twin"][0] == "conflict"
    assert states["noisy", "third-noisy"][0] == "loaded"
    assert states["from_afar", "third-from-afar"][0] == "incompatible"
    for name, cause in {"no_module": "No module", "exits": "SystemExit", "bad_hook": "boo"}.items():
        state, said = states[name, f"third-{name.replace('_', '-')}"]
        assert state == "failed"
        assert cause in said
    (place / "config/probes.toml").write_text(
        '[probes.matvec_variant]\nfamilies = ["q4k_matvec"]\nproblems = ["1x64x256"]\n'
    )
    process = start("probe", "run", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [one["source"] for one in json.loads(out)["results"]] == ["timed"]
    assert "noise" in err
    assert "plugin 'exits' of third-exits is set aside" in err
