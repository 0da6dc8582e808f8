"""What an answer rests on, and under which name it is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from xpu.measure import PROTOCOL
from xpu.model import Verdict, told_to_launch
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


@attrs.frozen
class Grounds:
    """What an answer rests on: each thing by its name, and the build id of them all."""

    things: Mapping[str, str]
    build_id: str

    @property
    def brief(self) -> str:
        """A line that tells which of them has changed; kept with the answer."""
        return " ".join(f"{name}={_digest(text)}" for name, text in self.things.items())

    def changed_since(self, brief: str) -> list[str]:
        """Name what is not as it was when a line was made; nothing where there is no line."""
        before = dict(word.rpartition("=")[::2] for word in brief.split(" ") if word)
        now = {name: _digest(text) for name, text in self.things.items()}
        names = dict.fromkeys([*before, *now]) if before else {}
        return [name for name in names if before.get(name) != now.get(name)]


def grounds_of(f: ShapeFilter, identity: Mapping[str, str], memory: str) -> Grounds:
    """Return what an answer rests on: device, driver, memory mode, protocol and code.

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
    things = {**parts, **{f"code.{name}": text for name, text in code.items()}}
    one_word = {name.replace(" ", "_"): text for name, text in things.items()}
    return Grounds(one_word, build_id(parts, code))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _code(verdict: Verdict) -> str:
    candidate = verdict.candidate
    code_hash = candidate.code_hash or verdict.kernel.code_hash
    if candidate.library is not None:
        return f"library {candidate.library}" + (f" code {code_hash}" if code_hash else "")
    if code_hash is not None:
        # How many parts a launch has is what rules recorded, and may be configured anew.
        told = told_to_launch(verdict.records).items()
        return " ".join(
            [f"code {code_hash}", *(f"{key} {value}" for key, value in told if value != 1)]
        )
    # Nothing is known of the code, so the shape must stand for it.
    shape = " ".join(f"{name}={size}" for name, size in sorted(candidate.parameters.items()))
    return f"absent {shape}"
