"""The program of the page, run from top to bottom."""

from __future__ import annotations

import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from xpu import Orchestrator, XpuLaunchException
from xpu.orchestrator import BoundKernel


def test_the_examples_run(page, tmp_path: Path, monkeypatch, shipped_plugins, quiet_machine):
    from xpu.registry import Registry

    registry = Registry.from_plugins(shipped_plugins)
    monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    assert page("embedding.md").run_python(space) == 16

    reference = __import__("xpu_family_kquant.reference", fromlist=["errors"])
    assert reference.errors("q4_k", space["blocks"], space["x"], space["y"]).max() <= 0.04
    elements = __import__("xpu_family_kquant.elements", fromlist=["ELEMENTS"]).ELEMENTS
    for kind, x, y in (("float16", "x16", "y16"), ("bfloat16", "xb", "yb")):
        x, y = (elements[kind].widened(space[name]) for name in (x, y))
        errors = reference.errors("q4_k", space["blocks"], x, y, elements[kind])
        assert errors.max() <= 0.04
    [result] = space["results"]
    assert (result.member, result.problem) == (space["matvec"].member, "1x256x512")
    assert space["matvec"].is_final
    for x, y in zip(space["batches"], space["products"], strict=True):
        assert reference.errors("q4_k", space["blocks"], x, y).max() <= 0.04


def test_prepared_weights_of_one_family_serve_its_sibling(shipped_plugins) -> None:
    from xpu.registry import Registry

    rng = np.random.default_rng()
    with Orchestrator(
        backend="cpu", tuning="off", registry=Registry.from_plugins(shipped_plugins)
    ) as one:
        one.override("q4k_tile", "i8x16")
        family = one.settings.family("q4k_tile")
        problem = one.bind("q4k_tile", m=2, n=32, k=256).problem
        data = one.registry.design_of(family).data(problem, family.constants, rng)
        weights = one.prepare("q4k_matvec", data["weights"])
        y = np.full((2, 32), np.nan, np.float32)
        one.bind("q4k_tile", m=2, n=32, k=256)(weights, data["x"], out=y)
        assert np.isfinite(y).all()


def test_one_kernel_in_several_threads_gives_the_same_bits(shipped_plugins) -> None:
    from xpu.registry import Registry

    reference = __import__("xpu_family_kquant.reference", fromlist=["errors"])
    rng = np.random.default_rng()
    with Orchestrator(
        backend="cpu", tuning="off", registry=Registry.from_plugins(shipped_plugins)
    ) as one:
        blocks = reference.random_blocks("q4_k", 96, 512, rng)
        weights = one.prepare("q4k_tile", blocks)
        kernel = one.bind("q4k_tile", m=5, n=96, k=512)

        def apply(x: np.ndarray) -> np.ndarray:
            return kernel(weights, x, out=np.full((5, 96), np.nan, np.float32))

        batches = [rng.standard_normal((5, 512), np.float32) for _ in range(200)]
        alone = [apply(x) for x in batches]
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(apply, batches))
        assert all(map(np.array_equal, alone, together))
        assert reference.errors("q4_k", blocks, batches[0], together[0]).max() <= 0.04


class Immutable:
    """Speaks DLPack as jax does: it knows of versions, and answers without one."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **_options: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_what_belongs_to_a_process_and_what_is_immutable(shipped_plugins) -> None:
    from xpu.registry import Registry

    reference = __import__("xpu_family_kquant.reference", fromlist=["errors"])
    rng = np.random.default_rng()
    with Orchestrator(
        backend="cpu", tuning="off", registry=Registry.from_plugins(shipped_plugins)
    ) as one:
        blocks = reference.random_blocks("q4_k", 32, 512, rng)
        weights = one.prepare("q4k_matvec", blocks)
        matvec = one.bind("q4k_matvec", m=1, n=32, k=512)
        with pytest.raises(TypeError, match="prepared weights cannot be pickled"):
            pickle.dumps(weights)
        with pytest.raises(TypeError, match="q4k_matvec 1x32x512 cannot be pickled"):
            pickle.dumps(matvec)
        assert copy.deepcopy([weights])[0] is weights

        x, y = rng.standard_normal((1, 512), np.float32), np.empty((1, 32), np.float32)
        hidden = Immutable(x)
        for _ in range(2):
            matvec(weights, hidden, out=y)
            assert reference.errors("q4_k", blocks, x, y).max() <= 0.04
            hidden.array = x = rng.standard_normal((1, 512), np.float32)  # taken anew
        with pytest.raises(XpuLaunchException, match=r"'y'.*not writable"):
            matvec(weights, x, out=Immutable(y))


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
