"""The runner of probes: what each is to look at, and the context through which it asks.

It measures nothing itself: a `ProbeHost` (the orchestrator) does. The command line and an
orchestrator that prewarms call it.
"""

from xpu.probes.model import ModelProblems, parse_batches
from xpu.probes.runner import ProbeHost, ProbeOutcome, run_probes

__all__ = ["ModelProblems", "ProbeHost", "ProbeOutcome", "parse_batches", "run_probes"]
