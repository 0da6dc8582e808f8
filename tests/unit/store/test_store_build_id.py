import os
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

import xpu
from xpu.store import build_id

TEXTS = st.text(st.characters(), max_size=6) | st.text(alphabet="ab:;0123", max_size=6)
MAPPINGS = st.dictionaries(TEXTS, TEXTS, max_size=4)


@given(MAPPINGS, MAPPINGS, st.randoms(use_true_random=False))
def test_the_order_of_the_mappings_does_not_matter(parts, code, random):
    def shuffled(mapping):
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    found = build_id(parts, code)
    assert found == build_id(shuffled(parts), shuffled(code))
    assert re.fullmatch(r"[0-9a-f]{24}", found)


@given(MAPPINGS, MAPPINGS, MAPPINGS, MAPPINGS)
def test_different_foundations_have_different_ids(parts, code, other_parts, other_code):
    assume((parts, code) != (other_parts, other_code))
    assert build_id(parts, code) != build_id(other_parts, other_code)


def test_texts_that_run_together_are_told_apart():
    pairs = [
        ({"ab": "c"}, {}),
        ({"a": "bc"}, {}),
        ({}, {"ab": "c"}),
        ({"a": "b", "c": ""}, {}),
        ({"a": "b"}, {"c": ""}),
        ({"1:a": "b"}, {}),
        ({"a": "1:b"}, {}),
        ({}, {}),
    ]
    assert len({build_id(parts, code) for parts, code in pairs}) == len(pairs)


def test_another_process_finds_the_same_id():
    parts = {"device": "GPU-1", "driver": "580.159", "memory": "warm", "threads": "2"}
    code = {"t64x64": "ab" * 32, "library": "blas 3.1"}
    script = f"from xpu.store import build_id; print(build_id({parts!r}, {code!r}))"
    root = str(Path(xpu.__file__).parents[1])
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert told.stdout.strip() == build_id(parts, code)
