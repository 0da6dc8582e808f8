"""A family tuned on a problem and bound, whatever the machine's load allows to be kept.

The benchmarks beside it import it.
"""

from __future__ import annotations

from report import Report

from xpu import Orchestrator, Problem
from xpu.model import ChoiceResult
from xpu.orchestrator import BoundKernel

ATTEMPTS = 3  # trials while others hold the machine


def tune(
    orchestrator: Orchestrator, report: Report, family: str, problem: Problem, memory: str
) -> ChoiceResult:
    """Return a fresh trial's answer; repeated while others hold much of the machine."""
    attempt = 0
    while True:
        report.wait_quiet()
        result = orchestrator.choose(family, problem, memory=memory)
        attempt += 1
        if attempt == ATTEMPTS or not result.is_contended:
            return result


def bind_member(
    orchestrator: Orchestrator, family: str, problem: Problem, member: str
) -> BoundKernel:
    """Return a named member bound to a problem."""
    orchestrator.override(family, member)
    kernel = orchestrator.bind(family, memory=None, **problem.sizes)
    orchestrator.clear_override(family)
    return kernel
