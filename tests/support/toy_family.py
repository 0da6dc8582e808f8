"""A design whose members misbehave on request, for tests of everything above it.

``y = 3 x + 1`` over n floats. The parameter ``mode`` says what a member does instead.
"""

from __future__ import annotations

from pathlib import Path

import first_party
import numpy as np

from xpu.model import Problem
from xpu.spec import Argument, Design, KernelSource, Probe, hookimpl

RIGHT, WRONG, ENDLESS, NULL_WRITE, UNWRITTEN, NO_COMPILE, SLOW, ABORTS = range(8)

SOURCE = r"""
#include "xpu_c.h"
#include <stdlib.h>
#if XPU_MODE == 5
#error this member does not compile
#endif
XPU_KERNEL {
    const float *x = (const float *)buffers[0];
    float *y = (float *)buffers[1];
    const int64_t n = sizes[0];
    if (XPU_MODE == 2) { volatile int forever = 1; while (forever) {} }
    if (XPU_MODE == 3) { *(volatile int *)0 = 1; }
    if (XPU_MODE == 7) { abort(); }
    const int64_t grain = XPU_GRAIN;
    for (int64_t start; (start = xpu_take(team, grain)) < n;) {
        const int64_t stop = start + grain < n ? start + grain : n;
        for (int64_t i = start; i < stop; i++) {
            if (XPU_MODE == 4 && i == n - 1) continue;
            y[i] = 3.0f * x[i] + (XPU_MODE == 1 ? 2.0f : 1.0f);
            if (XPU_MODE == 6) for (volatile int j = 0; j < 200; j++) {}
        }
    }
}
"""


class Toy(Design):
    name = "toy"
    parameters = ("mode", "grain")
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, SOURCE)

    def shapes(self, problem, constants):
        return {"x": (problem.n,), "y": (problem.n,)}

    def data(self, problem, constants, rng):
        return {"x": rng.standard_normal(problem.n).astype(np.float32)}

    def verify(self, problem, constants, inputs, outputs, rng):
        exact = 3.0 * inputs["x"].astype(np.float64) + 1.0
        error = float(np.abs(outputs["y"] - exact).max(initial=0.0))
        return "" if error < 1e-4 else f"largest error {error:.3g}, allowed 1e-4"


class ToyPlugin:
    @hookimpl
    def xpu_designs(self):
        return [Toy()]


class Each(Probe):
    name = "each"
    summary = "every problem of the plan"

    def run(self, context):
        for family in context.plan.families:
            for problem in context.problems(family):
                yield context.trial(family, problem)


class EachPlugin:
    @hookimpl
    def xpu_probes(self):
        return [Each()]


def toy_registry(*more):
    """Make a registry of the CPU backend and the toy design, and what else is given."""
    return first_party.registry("cpu", more=[("toy", ToyPlugin(), "toy"), *more])


def probed_registry():
    """Make the same with the probe `Each`."""
    return toy_registry(("each", EachPlugin(), "each"))


def write_family(directory: Path, members: dict[str, dict[str, int]], **keys: object) -> Path:
    """Write a families.toml with one family ``toy`` and return its path."""
    lines = ["[families.toy]", 'design = "toy"', 'problem = ["n"]']
    for key, value in keys.items():
        lines.append(f"{key} = {value}")
    for name, parameters in members.items():
        lines += ["[[families.toy.members]]", f'name = "{name}"']
        lines += [f"{key} = {value}" for key, value in {"grain": 64, **parameters}.items()]
    path = directory / "families.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def problem(n: int) -> Problem:
    return Problem(n=n)
