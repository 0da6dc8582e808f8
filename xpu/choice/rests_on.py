"""What an answer rests on, and under which name it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xpu.measure import PROTOCOL
from xpu.model import Verdict
from xpu.store import build_id

if TYPE_CHECKING:
    from xpu.filter import ShapeFilter


def store_name(f: ShapeFilter, memory: str) -> str:
    """Return the name of an answer in a store: ``shape.<family>.<problem key>``.

    Answers of another memory mode than warm carry it at the end: under one name, a cold
    run would drop every warm answer.
    """
    name = f"shape.{f.name}.{f.problem.key}"
    return name if memory == "warm" else f"{name}.{memory}"


def answer_build_id(f: ShapeFilter, identity: Mapping[str, str], memory: str) -> str:
    """Return the build id of an answer: device, driver, memory mode, protocol and code.

    `identity` is what a device adds: dtypes, thread count, power mode and the like.
    """
    parts = {
        "uuid": f.facts.uuid or "",
        "driver_version": f.facts.driver_version or "",
        "memory": memory,
        "protocol": PROTOCOL,
        **{f"identity.{name}": value for name, value in identity.items()},
    }
    code = {verdict.candidate.name: _code(verdict) for verdict in f.survivors}
    # Code that a trial found bad stays counted when the next start sets it aside: the answer
    # of that trial still holds.
    code |= {each.name: f"code {each.code_hash}" for each in f.aside if each.code_hash is not None}
    return build_id(parts, code)


def _code(verdict: Verdict) -> str:
    candidate = verdict.candidate
    code_hash = candidate.code_hash or verdict.kernel.code_hash
    if candidate.library is not None:
        return f"library {candidate.library}" + (f" code {code_hash}" if code_hash else "")
    if code_hash is not None:
        # How many parts a launch has is what rules recorded, and may be configured anew.
        splits = verdict.splits
        return f"code {code_hash}" if splits in (None, 1) else f"code {code_hash} splits {splits}"
    # Nothing is known of the code, so the shape must stand for it.
    shape = " ".join(f"{name}={size}" for name, size in sorted(candidate.parameters.items()))
    return f"absent {shape}"
