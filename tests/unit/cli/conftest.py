"""The command line in this process, on a design that compiles at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import toy_family as toy


@attrs.frozen
class Answer:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of two families, one of whose members cannot serve."""
    directory = tmp_path / "config"
    directory.mkdir()
    toy.write_family(
        directory,
        {
            "plain": {"mode": toy.RIGHT},
            "coarse": {"mode": toy.RIGHT, "grain": 512},
            "broken": {"mode": toy.NO_COMPILE},
        },
        default='{ c = "coarse" }',
    )
    (directory / "probes.toml").write_text(
        '[probes.each]\nfamilies = ["toy"]\nproblems = ["256", "1000"]\n'
    )
    (directory / "rules.toml").write_text(
        '[[rules]]\nid = "R9"\ntitle = "grains"\nneed = "member.grain"\nlimit = "problem.n"\n'
        'prune_when = "need > limit"\nrecords = { grains = "limit // need" }\n'
    )
    monkeypatch.setenv("XPU_CONFIG_DIR", str(directory))
    return directory


@pytest.fixture
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches run and take a microsecond each: on a busy machine no reading may be believed.

    What a real clock gives is the subject of tests/integration.
    """

    def bracket_ns(_: object, launches: Sequence[Callable[[], None]]) -> float:
        for launch in launches:
            launch()
        return 1000.0 * len(launches)

    monkeypatch.setattr("xpu_backend_cpu.timer.HostTimer.bracket_ns", bracket_ns)


@pytest.fixture
def xpu(
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quiet_machine: None,
    steady_clock: None,
    capsys: Any,
) -> Callable[..., Answer]:
    """Run a command line with a store of its own on a machine that nobody else uses."""
    from xpu.cli.app import run

    registry = toy.probed_registry()
    monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
    monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)
    monkeypatch.setenv("XPU_STORE", str(tmp_path / "store"))

    def command(*arguments: object) -> Answer:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "fault of XPU's own" not in err
        return Answer(status, out, err)

    return command
