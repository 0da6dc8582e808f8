"""A probe that reads off a table, and a filter without rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, KernelFacts, MemberResult, Problem, Rule, ShapeCandidate
from xpu.store import Autotune

FACTS = DeviceFacts(
    backend="any", uuid="part-1", driver_version="7", multiprocessors=128, wave_width=32
)
TOO_WIDE = Rule("R9", "threads", need="member.threads", limit=1000, prune_when="need > limit")


class FakeProbe:
    """Times by name; every reading is logged. `at` makes a reading from name, count and time."""

    def __init__(
        self,
        times: Mapping[str, float],
        *,
        noise: float = 0.0,
        seed: int = 0,
        clock: Callable[[int], float] = lambda _index: 1.0,
        at: Callable[[str, int, float], Any] = lambda _name, _count, time: time,
    ) -> None:
        self.times = dict(times)
        self.log: list[str] = []
        self._noise = noise
        self._rng = random.Random(seed)
        self._clock = clock
        self._at = at

    def time_ns(self, candidate: ShapeCandidate) -> Any:
        name, index = candidate.name, len(self.log)
        count = self.log.count(name)
        self.log.append(name)
        noise = 1.0 + self._noise * self._rng.gauss(0.0, 1.0)
        return self._at(name, count, self.times[name] * self._clock(index) * noise)


class CheckingProbe(FakeProbe):
    """The same, with a check: what `faults` holds is raised, or returned when no error."""

    def __init__(self, times: Mapping[str, float], faults: Mapping[str, Any], **more: Any) -> None:
        super().__init__(times, **more)
        self.checked: list[str] = []
        self._faults = faults

    def check(self, candidate: ShapeCandidate) -> Any:
        self.checked.append(candidate.name)
        fault = self._faults.get(candidate.name, True)
        if isinstance(fault, BaseException):
            raise fault
        return fault


def named(times: tuple[float, ...]) -> dict[str, float]:
    return {f"t{place}": time for place, time in enumerate(times)}


def filtered(
    *names: str,
    pruned: tuple[str, ...] = (),
    aside: tuple[MemberResult, ...] = (),
    default: str | None = None,
    hashes: Mapping[str, str] | None = None,
    facts: DeviceFacts = FACTS,
    name: str = "q4k_tile",
) -> ShapeFilter:
    f = ShapeFilter(name, facts, Problem(m=512, n=4096, k=4096), rules=(TOO_WIDE,), default=default)
    for member in names:
        code = (hashes or {}).get(member, f"hash of {member}")
        f.consider(ShapeCandidate(member, threads=64), KernelFacts(code_hash=code))
    for member in pruned:
        f.consider(ShapeCandidate(member, threads=4096), KernelFacts(code_hash=member))
    for result in aside:
        f.set_aside(result)
    return f


@pytest.fixture(name="fake_probe")
def _fake_probe() -> type[FakeProbe]:
    return FakeProbe


@pytest.fixture(name="checking_probe")
def _checking_probe() -> type[CheckingProbe]:
    return CheckingProbe


@pytest.fixture(name="named")
def _named() -> Callable[..., dict[str, float]]:
    return named


@pytest.fixture(name="filtered")
def _filtered() -> Callable[..., ShapeFilter]:
    return filtered


@pytest.fixture(autouse=True)
def _locks_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def store(tmp_path: Path) -> Autotune:
    return Autotune(tmp_path / "store", FACTS)
