"""The runner of probes: what each is to look at, and the context through which it asks.

It measures nothing itself: a `ProbeHost` (the orchestrator) does. The command line and an
orchestrator that prewarms call it.
"""

from xpu.probes.model import ModelProblems, parse_batches
from xpu.probes.planner import Planner, Question, Questions
from xpu.probes.runner import ProbeHost, ProbeOutcome, run_probes, tried

__all__ = [
    "ModelProblems",
    "Planner",
    "ProbeHost",
    "ProbeOutcome",
    "Question",
    "Questions",
    "parse_batches",
    "run_probes",
    "tried",
]
