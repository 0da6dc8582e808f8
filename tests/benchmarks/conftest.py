from __future__ import annotations

import sys
from pathlib import Path

# Benchmarks are programs that import the modules beside them; they are in no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
