"""Activations and results of 16 bits, from whoever holds such arrays, with real kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import first_party
import numpy as np
import pytest
from dlpack_producer import Producer

from xpu import Orchestrator, Problem, XpuConfigError, XpuLaunchException

BACKENDS = ("cpu", "emulator")
SIZES = {"m": 2, "n": 37, "k": 512}


def opened(backend, **how):
    registry = first_party.registry(backend, "kquant")
    return Orchestrator(
        **{"store": None, "tuning": "off"} | how, backend=backend, registry=registry
    )


@pytest.fixture(scope="module", params=BACKENDS)
def orchestrator(request):
    with opened(request.param) as one:
        yield one


class Case:
    """Fresh data of one family, and the design's own judgement of a result."""

    def __init__(self, orchestrator, family, **sizes):
        declared = orchestrator.settings.family(family)
        design, self.rng = orchestrator.registry.design_of(declared), np.random.default_rng()
        problem = Problem(**sizes)
        self.data = dict(design.data(problem, declared.constants, self.rng))
        self.out = np.full((sizes["m"], sizes["n"]), 0xFFFF, np.uint16)
        if not family.endswith("_bf16"):
            self.out = self.out.view(np.float16)
        self.fault = lambda y: design.verify(
            problem, declared.constants, self.data, {"y": y}, self.rng
        )


@pytest.mark.parametrize("family", ["q4k_matvec_f16", "q4k_matvec_bf16"])
def test_arrays_of_numpy_are_taken_where_they_lie(orchestrator, family):
    case = Case(orchestrator, family, **SIZES)
    kernel = orchestrator.bind(family, **SIZES)
    assert kernel(case.data["weights"], case.data["x"], out=case.out) is case.out
    assert case.fault(case.out) == ""


def test_an_array_offered_as_bfloat16_is_taken_where_it_lies(orchestrator):
    case = Case(orchestrator, "q4k_matvec_bf16", **SIZES)
    op = orchestrator.op("q4k_matvec_bf16", n=SIZES["n"], k=SIZES["k"])
    kernel = op.kernel(SIZES["m"])
    x = Producer(case.data["x"], "dltensor_versioned")
    kernel(case.data["weights"], x, out=Producer(case.out, "dltensor_versioned"))
    assert case.fault(case.out) == ""


def test_weights_prepared_once_serve_families_of_every_type(orchestrator):
    wide = Case(orchestrator, "q4k_tile", **SIZES)
    prepared = orchestrator.prepare("q4k_tile", wide.data["weights"])
    for family in ("q4k_tile_f16", "q4k_tile_bf16"):
        case = Case(orchestrator, family, **SIZES)
        case.data["weights"] = wide.data["weights"]
        orchestrator.bind(family, **SIZES)(prepared, case.data["x"], out=case.out)
        assert case.fault(case.out) == ""


def test_an_array_of_another_type_is_refused_by_name(orchestrator):
    for family, own in (("q4k_matvec_f16", "float16"), ("q4k_matvec_bf16", "bfloat16")):
        case = Case(orchestrator, family, **SIZES)
        kernel = orchestrator.bind(family, **SIZES)
        floats = np.zeros((SIZES["m"], SIZES["k"]), np.float32)
        with pytest.raises(XpuLaunchException, match=f"'x' is {own}, given float32"):
            kernel(case.data["weights"], floats, out=case.out)
        results = np.zeros(case.out.shape, np.float32)
        with pytest.raises(XpuLaunchException, match=f"'y' is {own}, given float32"):
            kernel(case.data["weights"], case.data["x"], out=results)


@pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is None, reason="ml_dtypes is not here")
def test_arrays_of_ml_dtypes(orchestrator):
    import ml_dtypes

    case = Case(orchestrator, "q4k_matvec_bf16", **SIZES)
    x, out = (array.view(ml_dtypes.bfloat16) for array in (case.data["x"], case.out))
    orchestrator.bind("q4k_matvec_bf16", **SIZES)(case.data["weights"], x, out=out)
    assert case.fault(case.out) == ""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_tensors_of_16_bits(orchestrator, kind):
    import torch

    case = Case(orchestrator, f"q4k_matvec_{kind}", **SIZES)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]
    x, y = (torch.from_numpy(it.view(np.int16)).view(dtype) for it in (case.data["x"], case.out))
    op = orchestrator.op(f"q4k_matvec_{kind}", n=SIZES["n"], k=SIZES["k"])
    for _ in range(2):
        y.fill_(float("nan"))
        assert op(case.data["weights"], x, out=y) is y
        assert case.fault(case.out) == ""


def test_a_trial_checks_times_and_stores_by_type(tmp_path: Path):
    with opened("cpu", store=tmp_path, tuning="first-use") as one:
        result = one.choose("q4k_matvec_bf16", Problem(m=1, n=64, k=512))
        assert {member.status for member in result.members} <= {"survivor", "left"}
        assert len(result.members) > 1
        halves = np.zeros((1, 512), np.float16)
        data = {"x": halves.view(np.uint16)}
        refusal = r"data: 'x' is bfloat16 \(1, 512\), given float16"
        with pytest.raises(XpuConfigError, match=refusal):
            one.choose("q4k_matvec_bf16", Problem(m=1, n=80, k=512), data={"x": halves})
        assert one.choose("q4k_matvec_bf16", Problem(m=1, n=80, k=512), data=data).timed
