"""Bound kernels on a device that copies: what a call does is all that is looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from copy_device import ARGUMENTS, CopyDevice, CopyKernel

from xpu.choice import Arm, Packer
from xpu.model import ChoiceResult, Problem, ShapeCandidate, Verdict
from xpu.orchestrator import BoundKernel
from xpu.orchestrator.arguments import Arguments
from xpu.orchestrator.calls import Calls
from xpu.spec import Launch


@pytest.fixture
def device():
    return CopyDevice()


@pytest.fixture
def bound(device):
    def make(
        n=8, *, arguments=ARGUMENTS, kernel=None, result=None, is_final=True, alignment_bytes=1
    ):
        problem = Problem(n=n)
        device.kernel = kernel or CopyKernel()
        launch = Launch(alignment_bytes=alignment_bytes)
        packer = Packer(device, Arm(Path("code"), "copy", "hash", launch, (n,)))
        shapes = {argument.name: (n,) for argument in arguments}
        taken = Arguments(f"twice {n}", device, arguments, shapes, None)
        return BoundKernel(
            family="twice",
            problem=problem,
            calls=Calls("twice", problem, device, packer, taken),
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
