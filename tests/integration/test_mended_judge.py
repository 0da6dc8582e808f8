"""A member that was found bad is tried again when what found it bad has been mended."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy_family as toy

from xpu import Orchestrator, Problem
from xpu.choice import Worker
from xpu.registry import Registry

DESIGN = """
import numpy as np
import toy_family as toy
from xpu.spec import hookimpl

class Toy(toy.Toy):
    def verify(self, problem, constants, inputs, outputs, rng):
        error = np.abs(outputs["y"] - (3 * inputs["x"] + 1)).max(initial=0)
        return "" if error < ALLOWED else f"largest error {error:.3g}"

@hookimpl
def xpu_designs():
    return [Toy()]
"""
BACKEND = """
from xpu.spec import hookimpl
from xpu_backend_cpu.backend import CpuBackend

class Backend(CpuBackend):
    pass

@hookimpl
def xpu_backends():
    return [Backend()]
"""
MEMBERS = {
    "a": {"mode": toy.RIGHT},
    "b": {"mode": toy.RIGHT, "grain": 512},
    "off": {"mode": toy.WRONG},  # by one: a strict check condemns it, a lenient one does not
}


class Author:
    """Writes two modules, and asks for an answer as a process does that starts now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config = toy.write_family(folder, MEMBERS)
        self.write("judge_design", DESIGN.replace("ALLOWED", "1e-4"))
        self.write("judge_backend", BACKEND)

    def write(self, module: str, text: str) -> None:
        (self._folder / f"{module}.py").write_text(text)

    def ask(self, store: Path | None = None, **how):
        with self.start(store, **how) as one:
            return one.choose("toy", Problem(n=2000))

    def start(self, store: Path | None = None, **how) -> Orchestrator:
        plugins = []
        for name in ("judge_design", "judge_backend"):
            sys.modules.pop(name, None)
            importlib.invalidate_caches()
            plugins.append((name, importlib.import_module(name), name))
        cache = self._folder / "build"
        registry = Registry.from_plugins(plugins)
        return Orchestrator(store, config=self._config, registry=registry, build_cache=cache, **how)


@pytest.fixture
def author(tmp_path: Path, monkeypatch, quiet_machine) -> Iterator[Author]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # two edits may fall in one second
    yield Author(tmp_path)
    for name in ("judge_design", "judge_backend"):
        sys.modules.pop(name, None)


@pytest.fixture
def jobs(monkeypatch) -> list[str]:
    """What was tried in a worker process, by entry symbol."""
    real, seen = Worker.run, []

    def run(self, job, **how):
        seen.append(job.steps[-1].entry.rpartition("_")[2])
        return real(self, job, **how)

    monkeypatch.setattr(Worker, "run", run)
    return seen


def statuses(result):
    return {member.name: member.status for member in result.members}


def test_a_mended_check_tries_a_member_again_though_an_answer_is_stored(author, tmp_path):
    store = tmp_path / "store"
    assert statuses(author.ask(store))["off"] == "wrong"
    later = author.ask(store)
    assert (later.source, statuses(later)["off"]) == ("stored", "wrong")
    author.write("judge_design", DESIGN.replace("ALLOWED", "2"))
    # A start that may not time serves what it has.
    with author.start(store, tuning="stored") as one:
        assert one.bind("toy", n=2000).result.source == "stored"
    mended = author.ask(store)
    assert mended.source == "timed"
    assert statuses(mended)["off"] in ("survivor", "left")
    assert author.ask(store).source == "stored"


@pytest.mark.parametrize("module", ["judge_design", "judge_backend"])
def test_who_is_bad_still_is_tried_once_for_each_edit(author, jobs, module):
    author.ask()
    assert sorted(jobs) == ["a", "b", "off"]
    for edit in range(2):
        jobs.clear()
        text = {"judge_design": DESIGN.replace("ALLOWED", "1e-4"), "judge_backend": BACKEND}
        author.write(module, f"{text[module]}\n# edit {edit}\n")
        for _ in range(2):
            assert statuses(author.ask())["off"] == "wrong"
        assert jobs == ["off"]


def test_what_was_found_bad_while_its_judge_was_edited_is_tried_again(author, jobs, tmp_path):
    store = tmp_path / "store"
    with author.start(store) as one:
        # The strict check is loaded, and a worker process would import what is in the file now.
        author.write("judge_design", DESIGN.replace("ALLOWED", "2"))
        for _ in range(2):
            assert statuses(one.choose("toy", Problem(n=2000)))["off"] == "wrong"
        assert sorted(jobs) == ["a", "b", "off"]
    jobs.clear()
    mended = author.ask(store)
    assert (mended.source, jobs) == ("timed", ["off"])
    assert statuses(mended)["off"] in ("survivor", "left")
    assert author.ask(store).source == "stored"
