"""The program of the page, run from top to bottom."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

from xpu import Orchestrator
from xpu.orchestrator import BoundKernel


def test_the_examples_run(page, tmp_path: Path, monkeypatch, shipped_plugins, quiet_machine):
    from xpu.registry import Registry

    registry = Registry.from_plugins(shipped_plugins)
    monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    assert page("embedding.md").run_python(space) == 13

    reference = __import__("xpu_family_kquant.reference", fromlist=["errors"])
    assert reference.errors("q4_k", space["blocks"], space["x"], space["y"]).max() <= 0.04
    [result] = space["results"]
    assert (result.member, result.problem) == (space["matvec"].member, "1x256x512")
    assert space["matvec"].is_final


def test_prepared_weights_of_one_family_serve_its_sibling(shipped_plugins) -> None:
    from xpu.registry import Registry

    rng = np.random.default_rng()
    with Orchestrator(
        backend="cpu", tuning="off", registry=Registry.from_plugins(shipped_plugins)
    ) as one:
        one.override("q4k_tile", "i8x16")
        family = one.settings.family("q4k_tile")
        problem = one.bind("q4k_tile", m=2, n=32, k=256).problem
        data = one.registry.design(family.design).data(problem, family.constants, rng)
        weights = one.prepare("q4k_matvec", data["weights"])
        y = np.full((2, 32), np.nan, np.float32)
        one.bind("q4k_tile", m=2, n=32, k=256)(weights, data["x"], out=y)
        assert np.isfinite(y).all()


def test_the_argument_table_is_the_signature(page) -> None:
    text = page("embedding.md").text
    table = text.split("| argument | meaning |")[1].split("\n\n")[0]
    for name in list(inspect.signature(Orchestrator).parameters):
        assert f"`{name}`" in table, name


def test_the_bound_kernel_table_names_what_is_there(page) -> None:
    text = page("embedding.md").text
    table = text.split("| of a bound kernel | |")[1].split("\n\n")[0]
    source = inspect.getsource(BoundKernel)
    for name in ("member", "result", "verdict", "pruned", "is_final", "explain"):
        assert f"`{name}" in table
        assert f"self.{name} = " in source or f"def {name}(" in source
