import itertools
import tomllib
from pathlib import Path

import pytest

from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, KernelFacts, Problem, ShapeCandidate

VECTORS = Path(__file__).parents[2] / "vectors"
FEASIBILITY = tomllib.loads((VECTORS / "feasibility.toml").read_text(encoding="utf-8"))
DEVICES = tomllib.loads((VECTORS / "devices.toml").read_text(encoding="utf-8"))["devices"]


@pytest.mark.parametrize("case", FEASIBILITY["cases"], ids=lambda case: case["name"])
def test_feasibility_case(case, rules, consider):
    facts = DeviceFacts.from_mapping(FEASIBILITY["facts"][case["facts"]])
    shape_filter = ShapeFilter("q4k_tile", facts, Problem(**case["problem"]), rules=rules)
    for candidate in case["candidates"]:
        consider(shape_filter, **candidate)
    expected = case["expect"]
    assert [v.candidate.name for v in shape_filter.survivors] == [
        each["name"] for each in expected["survivors"]
    ]
    for verdict, figures in zip(shape_filter.survivors, expected["survivors"], strict=True):
        for name in figures.keys() - {"name"}:
            assert getattr(verdict, name) == figures[name], name
    if "pruned" in expected:
        assert [
            {"name": v.candidate.name, "rule": v.rule, "need": v.need, "limit": v.limit}
            for v in shape_filter.pruned
        ] == expected["pruned"]
    for part in expected.get("refusal_contains", ()):
        assert part in shape_filter.refusal()
    assert (shape_filter.refusal() == "") == bool(expected["survivors"])


def test_there_are_33_parts():
    assert len(DEVICES) == 33


@pytest.mark.parametrize("name", DEVICES)
def test_every_part_gives_a_verdict_on_every_candidate(name, rules):
    facts = DeviceFacts.from_mapping(DEVICES[name], where=name)
    shape_filter = ShapeFilter("family", facts, Problem(m=512, n=4096, k=4096), rules=rules)
    shapes = itertools.product((16, 64, 128, 256), (32, 256, 1024), (None, 32, 255), (None, 49152))
    for index, (tile, threads, registers, shared) in enumerate(shapes):
        shape_filter.consider(
            ShapeCandidate(
                f"c{index}",
                tile_m=tile,
                tile_n=tile,
                tile_k=256,
                threads=threads,
                dynamic_shared_bytes=shared,
            ),
            KernelFacts(registers=registers, spill_bytes=0),
        )
    assert len(shape_filter.verdicts) == 72
    for verdict in shape_filter.survivors:
        assert verdict.resident_groups >= 1
        assert verdict.splits >= 1
        assert type(verdict.resident_groups) is int
    # 256 threads of 32 registers fit every part; 1,024 threads of 255 registers fit none
    # whose register file is known.
    assert any(v.candidate.threads == 256 and v.is_survivor for v in shape_filter.verdicts)
    if facts.registers_per_multiprocessor is not None:
        assert not any(
            v.candidate.threads == 1024 and v.kernel.registers == 255
            for v in shape_filter.survivors
        )


def test_the_big_member_serves_one_part_and_the_small_one_another(rules, consider):
    def served(device):
        facts = DeviceFacts.from_mapping(DEVICES[device])
        shape_filter = ShapeFilter("f", facts, Problem(m=512, n=4096, k=4096), rules=rules)
        for name, tile, shared in (("big", 128, 99 * 1024), ("small", 64, 48 * 1024)):
            consider(
                shape_filter,
                name,
                tile_m=tile,
                tile_n=tile,
                threads=256,
                registers=128,
                dynamic_shared_bytes=shared,
            )
        return [verdict.candidate.name for verdict in shape_filter.survivors]

    assert served("rtx_5090") == ["big", "small"]
    assert served("radeon_8060s") == ["small"]
