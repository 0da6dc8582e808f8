"""What a user would write: bind kernels from outside, call them, and check the numbers.

Run in the fresh environment by `test_opencl_outside`; prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from xpu import Orchestrator, Problem
from xpu_family_kquant import reference

store, config = sys.argv[1:]
rng = np.random.default_rng()
answers = []
with Orchestrator(store, tuning="first-use", backend="opencl", config=config) as orchestrator:
    for family, weight_format, m, n, k in (
        ("q4k_matvec", "q4_k", 1, 515, 1024),
        ("q5k_matvec", "q5_k", 1, 96, 512),
        ("q6k_matvec", "q6_k", 3, 77, 768),
    ):
        weights = reference.random_blocks(weight_format, n, k, rng)
        x = rng.standard_normal((m, k), dtype=np.float32)
        y = np.full((m, n), np.nan, np.float32)
        kernel = orchestrator.bind(family, m=m, n=n, k=k)
        kernel(orchestrator.prepare(family, weights), x, out=y)
        raw = np.full_like(y, np.nan)
        kernel(weights, x, out=raw)
        answers.append(
            {
                "family": family,
                "member": kernel.member,
                "source": kernel.result.source,
                "stored": kernel.result.stored,
                "statuses": {each.name: each.status for each in kernel.result.members},
                "error": float(reference.errors(weight_format, weights, x, y).max()),
                "is_same_from_raw": bool(np.array_equal(y, raw)),
            }
        )
    pruned = orchestrator.considered("q4k_matvec", Problem(m=1, n=515, k=1024)).pruned
    said = {
        "answers": answers,
        "pruned": [[v.candidate.name, v.rule, v.need, v.limit] for v in pruned],
        "most_threads": orchestrator.facts.max_threads_per_block,
        "core": str(Path(sys.modules["xpu"].__file__ or "")),
    }
sys.stdout.write(json.dumps(said))
