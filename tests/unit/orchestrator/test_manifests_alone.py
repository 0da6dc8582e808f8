"""What the filter and the build id know of a kernel is its manifest's; no code is read for them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import toy_family as toy

from xpu.adaptor import Built
from xpu.building.considering import considered
from xpu.choice.rests_on import grounds_of
from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, Family, KernelFacts, Manifest, Member, Problem
from xpu.testing import NullBackend, registry_of

FAMILY = Family("toy", "toy", ("n",), (Member("one", {"mode": 0, "grain": 8}),))
MANIFEST = Manifest("toy.one", "native", "a" * 64, "cc 1", "entry")
NOWHERE = Path("/nonexistent/code")


def judged(manifest: Manifest, before: tuple[Built, ...] = ()) -> ShapeFilter:
    registry = registry_of(NullBackend("c"), toy.Toy)
    shapes = ShapeFilter("toy", DeviceFacts(backend="null", uuid="u"), Problem(n=64))
    built = Built(manifest, NOWHERE, was_cached=True, staging=before)
    considered(registry, shapes, FAMILY, FAMILY.members[0], "c", built)
    return shapes


def build_id(manifest: Manifest) -> str:
    return grounds_of(judged(manifest), {}, "warm").build_id


def test_the_filter_prunes_by_what_the_manifest_says():
    assert judged(MANIFEST).survivors
    spilling = attrs.evolve(MANIFEST, footprint=KernelFacts(spill_bytes=8))
    [verdict] = judged(spilling).pruned
    assert (verdict.rule, verdict.need, verdict.limit) == ("R1", 8, 0)


@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ({}, False),
        ({"code_hash": "b" * 64}, True),
        ({"footprint": KernelFacts(registers=40)}, False),
        ({"compiler": "cc 2"}, False),  # the same code is the same code
    ],
)
def test_the_build_id_rests_on_the_hash_in_the_manifest(change, is_another):
    assert (build_id(attrs.evolve(MANIFEST, **change)) != build_id(MANIFEST)) == is_another
