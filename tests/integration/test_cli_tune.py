"""``xpu tune`` on real kernels: every backend, a model file, a signal, and a second start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import first_party
import numpy as np
import pytest
from kit_kernels import PythonBackend

import xpu.testing
from xpu.cli.app import run
from xpu.registry import Registry
from xpu.spec import KernelSource, ModelMatrix, OpenModel, ProblemSource
from xpu.testing import registry_of
from xpu.testing.designs import KitTable

KIT = Path(xpu.testing.__file__).with_name("kit.toml")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Make the command line see these parts, with a store and configuration of its own."""
    monkeypatch.setenv("XPU_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XPU_CONFIG_DIR", str(tmp_path))
    (tmp_path / "families.toml").touch()
    (tmp_path / "probes.toml").touch()

    def use(*parts: object) -> Registry:
        registry = registry_of(*parts)
        monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
        monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)
        for backend in registry.backends.values():
            if backend.availability().is_available:
                device = type(backend.open(0))
                monkeypatch.setattr(device, "foreign_load", lambda _: 0.0)
        return registry

    return use


def document(capsys: Any, *arguments: str, status: int = 0) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def sources(answer: Any) -> list[str]:
    return [one["source"] for one in answer["results"]]


@pytest.mark.parametrize("name", ["cpu", "emulator", "null"])
def test_any_backend_is_tuned_in_runs_that_each_go_on_where_the_last_one_stopped(
    name: str, use: Any, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = tmp_path / "kit.toml"
    text = KIT.read_text("utf-8")
    toml.write_text(text[: text.index("[families.kit_in_place]")])
    if name == "null":
        kernel = KernelSource("python", "see run()", design="kit_table")
        use(PythonBackend, KitTable, kernel, toml)
    else:
        use(first_party.plugin(name), KitTable, toml)
    keys = ["3x50", "40x64", "64x65"]
    command = ["tune", "--backend", name, *(f"--problem=kit_table:{key}" for key in keys)]
    planned = document(capsys, *command, "--dry-run")
    assert (planned["stored"], planned["to_time"]) == (0, 3)
    # A budget that the first trial spends, whatever this machine is doing.
    spent = property(lambda self: any(answer.result.timed for answer in self.answers))
    with monkeypatch.context() as patch:
        patch.setattr("xpu.orchestrator.Tuning.is_spent", spent)
        for done in range(3):
            answer = document(capsys, *command, "--budget", "60", status=3 if done < 2 else 0)
            assert sources(answer) == ["stored"] * done + ["timed"]
            assert [one["problem"] for one in answer["left"]] == keys[done + 1 :]
            assert answer["stopped"] == ("budget" if done < 2 else None)
    assert sources(document(capsys, *command)) == ["stored"] * 3
    assert document(capsys, *command, "--dry-run")["stored"] == 3


class Matrices(OpenModel):
    """Two matrices that the K-quant families serve, and one that none does."""

    path = Path("model")

    def matrices(self):
        stored = {"format": "q4_k"}
        return (
            ModelMatrix("a", stored, n=48, k=512),
            ModelMatrix("b", stored, n=32, k=256),
            ModelMatrix("other", {"format": "q9_k"}, n=32, k=256),
        )

    def rows(self, matrix):
        from xpu_family_kquant.reference import random_blocks

        seen.append(matrix.name)
        return random_blocks("q4_k", matrix.n, matrix.k, np.random.default_rng())

    def close(self):
        seen.append("closed")


seen: list[str] = []


class Source(ProblemSource):
    name = "matrices"

    def accepts(self, path):
        return path.name == "model"

    def open(self, path):
        return Matrices()


def test_a_models_matrices_are_tuned_at_each_batch_where_probes_look(
    root: Path, use: Any, capsys: Any, tmp_path: Path
) -> None:
    kquant = first_party.plugin("kquant")
    tile = first_party.plugin("tile_prewarm")
    matvec = first_party.plugin("matvec_variant")
    cpu = first_party.plugin("cpu")
    use(cpu, kquant, tile, matvec, Source)
    families = (root / "config/families.toml").read_text("utf-8")
    (tmp_path / "families.toml").write_text(families)
    (tmp_path / "probes.toml").write_text(
        '[probes.matvec_variant]\nfamilies = ["q4k_matvec"]\n'
        '[probes.tile_prewarm]\nfamilies = ["q4k_tile", "q4k_cols"]\n'
    )
    (tmp_path / "model").touch()
    command = ("tune", "--backend", "cpu", "--model", str(tmp_path / "model"), "--batch", "1-2,9")
    planned = document(capsys, *command, "--dry-run")
    # One row decodes; a family without a source for the host has no question.
    assert [(one["family"], one["problem"]) for one in planned["problems"]] == [
        ("q4k_matvec", "1x48x512"),
        ("q4k_matvec", "1x32x256"),
        *(("q4k_tile", f"{m}x48x512") for m in (1, 2, 9)),
        *(("q4k_tile", f"{m}x32x256") for m in (1, 2, 9)),
    ]
    assert planned["left_out"] == {"q9_k": 1}
    assert seen == ["closed"]
    # What decodes is enough here: of the tiles all members would have to be compiled.
    (tmp_path / "probes.toml").write_text('[probes.matvec_variant]\nfamilies = ["q4k_matvec"]\n')
    seen.clear()
    answer = document(capsys, *command)
    assert sources(answer) == ["timed", "timed"]
    assert seen == ["a", "b", "closed"]
    assert sources(document(capsys, *command)) == ["stored", "stored"]


STUCK = """
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where it is ignored
import xpu_backend_cpu.device
xpu_backend_cpu.device.CpuDevice.foreign_load = lambda self: 0.0
from xpu.registry import Registry
import toy_family, xpu.registry, xpu.orchestrator.orchestrator as orchestrator
registry = toy_family.toy_registry()
xpu.registry.default_registry = orchestrator.default_registry = lambda: registry
choose, asked = orchestrator.Orchestrator.choose, []
def stuck(self, *arguments, **more):
    asked.append(arguments)
    if len(asked) == 3:
        pathlib.Path(os.environ["XPU_STORE"]).with_name("stuck").touch()
        time.sleep(120)
    return choose(self, *arguments, **more)
orchestrator.Orchestrator.choose = stuck
from xpu.cli import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_whole_answers_stay(number: int, tmp_path: Path) -> None:
    first_party.plugin("cpu")
    import toy_family as toy

    toy.write_family(tmp_path, {"a": {"mode": toy.RIGHT}, "b": {"mode": toy.RIGHT, "grain": 512}})
    (tmp_path / "probes.toml").touch()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XPU_CONFIG_DIR": str(tmp_path),
        "XPU_STORE": str(tmp_path / "store"),
    }
    problems = [f"--problem=toy:{n}" for n in (2000, 3000, 4000, 5000)]
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, "tune", "--json", *problems],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not (tmp_path / "stuck").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    stored = [path.name for path in (tmp_path / "store").glob("*/*/*")]
    assert sorted(stored) == ["shape.toy.2000", "shape.toy.3000"]
    if number == signal.SIGKILL:
        return
    assert process.returncode == 130
    assert "Traceback" not in err
    answer = json.loads(out)
    assert [one["problem"] for one in answer["results"]] == ["2000", "3000"]
    assert [one["problem"] for one in answer["left"]] == ["4000", "5000"]
    assert answer["stopped"] == "interrupted"
