"""Every kernel of the dialect's page is compiled and run, at both widths."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xpu import Orchestrator
from xpu.errors import XpuLaunchException
from xpu.registry import Registry
from xpu.spec import CompiledCode, KernelUnit, Launch
from xpu_backend_emulator.backend import EmulatorBackend

PAGE = Path(__file__).parents[4] / "docs" / "simt-dialect.md"
BLOCK = re.compile(r"^<!-- (\w+): (\S+) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def blocks() -> dict[tuple[str, str], str]:
    if not PAGE.exists():
        pytest.skip("the guide is not here")
    return {(kind, name): text for kind, name, text in BLOCK.findall(PAGE.read_text("utf-8"))}


@pytest.fixture
def launch(blocks, compiler, tmp_path, wave) -> Callable[..., None]:
    def go(name: str, arrays, sizes=(), grid=(1, 1, 1), threads: int = 64, shared: int = 0) -> None:
        entry = name.removesuffix(".cpp")
        text = f'#line 1 "{name}"\n{blocks["file", name]}'
        unit = KernelUnit(f"page.{entry}", entry, text, {}, {"XPU_THREADS": str(threads)})
        (code,) = compiler.compile([unit], f"wave{wave}", deadline_s=60)
        assert isinstance(code, CompiledCode), code
        path = tmp_path / f"{entry}.so"
        path.write_bytes(code.code)
        device = EmulatorBackend(wave).open()
        taken = [device.import_array(array, writable=False) for array in arrays]
        device.launcher(device.load(path, entry), Launch(grid, None, shared), taken, sizes)()

    return go


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()


def test_every_block_of_code_is_one_of_those_that_run(blocks) -> None:
    fences = re.findall(r"^```(\w+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(fences) == len(blocks)
    assert {name for _, name in blocks} == {
        *("row_sum.cpp", "xpu_family_row_sum.py", "row_sum.toml", "memory.cpp", "verbs.cpp"),
        *("product.cpp", "lines.cpp", "pipeline.cpp", "race.cpp"),
    }


def test_the_first_kernel_and_its_design(blocks, tmp_path, monkeypatch, rng, wave) -> None:
    import xpu_backend_emulator.plugin

    for kind, name in blocks:
        if kind == "file" and "row_sum" in name:
            (tmp_path / name).write_text(blocks[kind, name], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XPU_EMULATOR_WAVE", str(wave))
    sys.modules.pop("xpu_family_row_sum", None)
    family = importlib.import_module("xpu_family_row_sum")
    registry = Registry.from_plugins(
        [("emulator", xpu_backend_emulator.plugin, "emulator"), ("row_sum", family, "page")]
    )
    x = rng.standard_normal((5, 300)).astype(np.float32)
    y = np.full(5, np.nan, np.float32)
    more = {"registry": registry, "build_cache": tmp_path / "build"}
    with Orchestrator(backend="emulator", tuning="first-use", **more) as orchestrator:
        kernel = orchestrator.bind("row_sum", m=5, n=300)
        kernel(x, out=y)
        statuses = {member.name: member.status for member in kernel.result.members}
    assert np.allclose(y, x.sum(axis=1), atol=1e-3)
    assert set(statuses) == {"t64", "t256"}
    assert set(statuses.values()) <= {"survivor", "left"}


def test_memory(launch, rng) -> None:
    x, y = rng.integers(0, 256, 128).astype(np.uint8), np.zeros(128, np.uint8)
    launch("memory.cpp", [x, y])
    assert (y.reshape(-1, 4) == x.reshape(-1, 4)[:, ::-1]).all()


def test_verbs(launch, rng, wave) -> None:
    x, y = rng.standard_normal(128).astype(np.float32), np.zeros(128, np.float32)
    launch("verbs.cpp", [x, y], threads=128)
    right = x.reshape(-1, wave // 8, 8).sum(axis=2).max(axis=1, keepdims=True)
    assert np.allclose(y.reshape(-1, wave), right, atol=1e-5)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 32), (17, 40, 77), (1, 1, 1)])
def test_a_product(launch, rng, wave, m, n, k) -> None:
    x, w = (rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    y = np.zeros((m, n), np.int32)
    launch("product.cpp", [x, w, y], [m, n, k], (-(-n // 16), -(-m // 16), 1), threads=wave)
    assert (y == x.astype(np.int64) @ w.T.astype(np.int64)).all()


@pytest.mark.parametrize("rows", [1, 32, 77, 128])
def test_lines(launch, rng, rows) -> None:
    x, w = (rng.integers(-9, 10, (lines, 64)).astype(np.float16) for lines in (rows, 16))
    y = np.zeros((rows, 16), np.float32)
    launch("lines.cpp", [x, w, y], [rows], (-(-rows // 32), 1, 1), threads=128, shared=16 * 128)
    assert (y == x.astype(np.float32) @ w.T.astype(np.float32)).all()


def test_a_pipeline(launch, rng) -> None:
    x, y = rng.integers(-1000, 1000, 64 * 7).astype(np.int32), np.zeros(1, np.int32)
    launch("pipeline.cpp", [x, y], [x.size])
    assert y[0] == x.sum()


def test_the_fault_reads_as_the_page_says(launch, blocks, wave) -> None:
    with pytest.raises(XpuLaunchException) as error:
        launch("race.cpp", [np.zeros(64, np.int32), np.zeros(64, np.int32)])
    place = "(wave {}, lane {})".format(*divmod(63, wave))
    assert str(error.value) == blocks["fault", "race.cpp"].strip().replace(
        "(wave 1, lane 31)", place
    )
