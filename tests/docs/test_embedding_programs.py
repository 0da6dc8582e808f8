"""The page's programs with processes and with PyTorch, each in an interpreter of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import first_party
import numpy as np
import pytest

N, K = 256, 512

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)

PROCESSES = """
import sys, threading
import numpy as np
import processes

if __name__ == "__main__":
    method, path, out = sys.argv[1:]
    batches = [np.random.default_rng().standard_normal((m, 512), np.float32) for m in (1, 3, 8, 2)]
    products = processes.serve(method, path, batches)
    np.savez(out, *batches, *products)
"""

INHERITED = """
import multiprocessing, sys, threading
import numpy as np
import processes
from xpu_backend_cpu import memory

_, path, out = sys.argv[1:]
processes.begin(path)
batches = [np.random.default_rng().standard_normal((3, 512), np.float32) for _ in range(8)]
shared = memory.allocate(3 << 20)
shared.owner[:] = 1


def in_child(x):
    shared.owner[:] = 2
    return processes.work(x)


def busy():
    while not is_over.is_set():
        processes.work(batches[0])


is_over = threading.Event()
processes.work(batches[0])
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        products = pool.map_async(in_child, batches).get(60)
finally:
    is_over.set()
for thread in threads:
    thread.join()
assert (shared.owner == 1).all()  # what a child writes stays its own
np.savez(out, *batches, *products)
"""

OPERATOR = """
import copy, sys
import numpy as np
import torch
import torch_linear
from torch_linear import Linear, linear

backend, path, out = sys.argv[1:]
blocks = torch.from_numpy(np.load(path))
first = Linear(blocks, 256, 512)
model = torch.nn.Sequential(torch.nn.Identity(), first, Linear(blocks, 256, 512))[:2]
compiled = torch.compile(model, fullgraph=True, backend=backend)
with torch.no_grad():
    batches = [torch.randn(m, 512) for m in (1, 3, 8)]
    products = [compiled(x) for x in batches]
    for x, y in zip(batches, products):
        assert torch.equal(y, model(x))
        assert torch.equal(copy.deepcopy(model)(x.reshape(1, -1, 512)), y[None])


@torch.library.custom_op("engine::linear_out", mutates_args={"out"}, device_types="cpu")
def linear_out(x: torch.Tensor, out: torch.Tensor) -> None:
    op, weights, _ = torch_linear.layers[0]
    op(weights, x, out=out)


@linear_out.register_fake
def _(x, out):
    return None


def writes(x):
    y = torch.zeros(x.shape[0], 256)
    linear_out(2 * x, y)
    return y + 1


x = batches[1]
assert torch.equal(torch.compile(writes, fullgraph=True, backend=backend)(x), writes(x))
assert (writes(x) - 1).abs().max() > 0
if backend == "eager":
    torch.library.opcheck(linear, (x, 0))
    wanted = linear(x, 0)
    assert torch.equal(linear(x.clone().requires_grad_(), 0), wanted)
    torch.library.opcheck(linear_out, (x, torch.zeros(3, 256)))
np.savez(out, *batches, *products)
"""

LOADER = """
import sys
import numpy as np
import torch
import processes


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.batches = torch.randn(6, 1, 512)

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, place):
        x = self.batches[place]
        y = torch.empty(1, 256)
        return x, processes.linear(processes.weights, x, out=y)


def begin(_worker):
    processes.begin(sys.argv[2])


if __name__ == "__main__":
    method, path, out = sys.argv[1:]
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=None, num_workers=2, worker_init_fn=begin, multiprocessing_context=method
    )
    pairs = list(loader)
    np.savez(out, *[x for x, _ in pairs], *[y for _, y in pairs])
"""

TENSORS = """
import sys
import numpy as np
import torch
from xpu import Orchestrator
from xpu.errors import XpuLaunchException

_, path, out = sys.argv[1:]
orchestrator = Orchestrator(backend="cpu")
weights = orchestrator.prepare("q4k_matvec", torch.from_numpy(np.load(path)))
matvec = orchestrator.bind("q4k_matvec", m=1, n=256, k=512)
x, y = torch.randn(1, 512), torch.full((1, 256), float("nan"))
assert matvec(weights, x, out=y) is y
first, before = x.clone(), y.clone()
x.data = torch.randn(1, 512)
matvec(weights, x, out=y)
np.savez(out, first, x, before, y)


def refused(x, y, words):
    try:
        matvec(weights, x, out=y)
    except XpuLaunchException as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)


emptied = torch.randn(1, 512)
emptied.untyped_storage().resize_(0)
refused(emptied, y, "'x': an object of type Tensor has no memory")
refused(x.clone().requires_grad_(), y, "tensor.detach()")
refused(x.to("meta"), y, "meta")
refused(x.bfloat16(), y, "'x'")
refused(x.half(), y, "'x' is float32, given float16")
refused(torch.randn(1, 1024)[:, ::2], y, "contiguous")
x.data = emptied  # of a tensor that was launched on
refused(x, y, "has no memory")
"""


@pytest.fixture
def run(page, root: Path, buildable: Path, tmp_path: Path):
    """Run a program beside the page's files, and hold its products against the reference."""
    for name in ("cpu", "kquant"):
        first_party.plugin(name)
    from xpu_family_kquant import reference

    pages = page("embedding.md")
    pages.write_files(tmp_path)
    project = tomllib.loads((buildable / "pyproject.toml").read_text("utf-8"))["project"]
    info = tmp_path / "xpu_orchestrator-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xpu-orchestrator\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["xpu"].items())
    (info / "entry_points.txt").write_text(f"[xpu]\n{lines}")
    paths = [tmp_path, root, *(path.parent for path in root.glob("plugins/*/*/xpu_*/"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    blocks = reference.random_blocks("q4_k", N, K, np.random.default_rng())
    np.save(tmp_path / "weights.npy", blocks)

    def run(program: str, argument: str = "") -> None:
        (tmp_path / "program.py").write_text(program)
        command = [sys.executable, "program.py", argument, "weights.npy", "products.npz"]
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300
        )
        assert ended.returncode == 0, ended.stderr
        with np.load(tmp_path / "products.npz") as found:
            arrays = list(found.values())
        half = len(arrays) // 2
        assert half
        for x, y in zip(arrays[:half], arrays[half:], strict=True):
            assert reference.errors("q4_k", blocks, x, y).max() <= 0.04

    return run


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_binds_for_itself(run, method: str) -> None:
    run(PROCESSES, method)


def test_a_forked_child_calls_what_its_busy_parent_bound(run) -> None:
    run(INHERITED)


@needs_torch
@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_the_operator_survives_torch_compile(run, backend: str) -> None:
    run(OPERATOR, backend)


@needs_torch
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_workers_of_a_data_loader_bind_for_themselves(run, method: str) -> None:
    run(LOADER, method)


@needs_torch
def test_tensors_are_taken_where_they_lie_or_refused_by_name(run) -> None:
    run(TENSORS)
