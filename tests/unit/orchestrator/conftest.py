"""Bound kernels on a device that copies: what a call does is all that is looked at."""

from __future__ import annotations

import numpy as np
import pytest
from copy_device import ARGUMENTS, CopyDevice, CopyKernel

from xpu.model import ChoiceResult, Problem, ShapeCandidate, Verdict
from xpu.orchestrator import BoundKernel
from xpu.spec import Launch


@pytest.fixture
def device():
    return CopyDevice()


@pytest.fixture
def bound(device):
    def make(n=8, *, arguments=ARGUMENTS, kernel=None, result=None, is_final=True):
        return BoundKernel(
            family="twice",
            problem=Problem(n=n),
            device=device,
            pack=lambda buffers, stream=None: device.launcher(
                kernel or CopyKernel(), Launch(), buffers, (n,), stream
            ),
            arguments=arguments,
            shapes={argument.name: (n,) for argument in arguments},
            preparer=None,
            result=result or ChoiceResult("twice", str(n), "only", "only"),
            is_final=is_final,
            verdict=Verdict(ShapeCandidate("only")),
            pruned=(),
        )

    return make


@pytest.fixture
def array():
    rng = np.random.default_rng()

    def make(n=8):
        return rng.standard_normal(n).astype(np.float32)

    return make
