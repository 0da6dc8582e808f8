"""The shipped families of routes with their own kernels, on the host and on the emulator."""

from __future__ import annotations

import first_party
import numpy as np
import pytest

from xpu import Orchestrator, Problem
from xpu.registry import Registry

N, K = 35, 512
FORMATS = {"linear_q4k": "q4_k", "linear_q5k": "q5_k", "linear_q6k": "q6_k"}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return first_party.registry("cpu", "emulator", "kquant")


@pytest.fixture(params=["cpu", "emulator"])
def orchestrator(request, registry, quiet_machine):
    with Orchestrator(backend=request.param, tuning="off", registry=registry) as one:
        yield one


def matrices(weight_format, m):
    from xpu_family_kquant import reference

    rng = np.random.default_rng()
    blocks = reference.random_blocks(weight_format, N, K, rng)
    return blocks, rng.standard_normal((m, K), dtype=np.float32)


def assert_right(weight_format, blocks, x, y):
    """Compare with the product in float64 of what the blocks hold."""
    from xpu_family_kquant import reference

    assert np.isfinite(y).all()
    errors = reference.errors(weight_format, blocks, x, y)
    assert np.sqrt(np.mean(errors**2)) <= 2 * reference.ERROR_RMS
    assert errors.max() <= reference.ERROR_MAX


@pytest.mark.parametrize(("family", "weight_format"), FORMATS.items())
def test_weights_prepared_once_serve_every_route(orchestrator, family, weight_format):
    short = family.removeprefix("linear_")
    linear = orchestrator.op(family, n=N, k=K)
    blocks, _ = matrices(weight_format, 1)
    by_route = orchestrator.prepare(f"{short}_tile", blocks)
    by_linear = orchestrator.prepare(family, blocks)
    served = []
    for m, weights in ((1, by_route), (3, by_linear), (17, by_route), (1, blocks)):
        x = np.random.default_rng().standard_normal((m, K), dtype=np.float32)
        y = np.full((m, N), np.nan, np.float32)
        linear(weights, x, out=y)
        assert_right(weight_format, blocks, x, y)
        served.append(linear.kernel(m).member.removeprefix(f"{short}_"))
    few = "tile" if orchestrator.backend.dialect == "c" else "cols"
    assert served == ["matvec", few, "tile", "matvec"]


@pytest.mark.parametrize(("family", "weight_format"), FORMATS.items())
def test_half_precision_has_routes_of_its_own_and_the_same_weights(
    orchestrator, family, weight_format
):
    blocks, _ = matrices(weight_format, 1)
    weights = orchestrator.prepare(family, blocks)
    linear = orchestrator.op(f"{family}_f16", n=N, k=K)
    for m in (1, 3, 17):
        x = np.random.default_rng().standard_normal((m, K)).astype(np.float16)
        y = np.full((m, N), np.nan, np.float16)
        linear(weights, x, out=y)
        assert_right(weight_format, blocks, x.astype(np.float32), y.astype(np.float32))
        assert linear.kernel(m).member.endswith("_f16")


@pytest.mark.parametrize("route", ["matvec", "cols", "tile", "library"])
def test_any_route_can_be_forced_and_is_right(registry, route, monkeypatch):
    monkeypatch.setenv("XPU_SHAPE_LINEAR_Q4K", f"q4k_{route}")
    blocks, x = matrices("q4_k", 9)
    y = np.full((9, N), np.nan, np.float32)
    with Orchestrator(backend="emulator", tuning="off", registry=registry) as one:
        kernel = one.bind("linear_q4k", m=9, n=N, k=K)
        assert (kernel.member, kernel.result.source) == (f"q4k_{route}", "override")
        kernel(one.prepare("linear_q4k", blocks), x, out=y)
    assert_right("q4_k", blocks, x, y)


def test_the_crossing_is_measured(registry, quiet_machine, tmp_path):
    with Orchestrator(tmp_path, backend="cpu", registry=registry) as one:
        result = one.choose("linear_q4k", Problem(m=8, n=64, k=256))
        members = {member.name: member for member in result.members}
        assert set(members) == {"q4k_tile", "q4k_matvec"}  # cols has no source for the host
        assert all(member.median_ns for member in members.values())
        assert result.serving == members[result.member].serving
        own = one.choose(result.member, Problem(m=8, n=64, k=256))
        assert own.member == result.serving
