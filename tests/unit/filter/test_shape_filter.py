import pytest

from xpu.errors import XpuConfigError
from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, KernelFacts, MemberResult, Problem, Rule, ShapeCandidate

PROBLEM = Problem(m=512, n=4096, k=4096)
FACTS = DeviceFacts(multiprocessors=4, further={"clock_ghz": 1.5, "boost": 2, "mode": "fast"})


def make(*rules, **options):
    return ShapeFilter("f", FACTS, PROBLEM, rules=rules, **options)


def test_what_it_was_given_is_readable():
    shape_filter = ShapeFilter("any name: at/all", FACTS, PROBLEM, rules=(), default="a")
    assert (shape_filter.name, shape_filter.facts, shape_filter.problem, shape_filter.default) == (
        "any name: at/all",
        FACTS,
        PROBLEM,
        "a",
    )
    assert make().default is None


def test_verdicts_keep_the_order_considered(consider):
    shape_filter = make(
        Rule("X", "tile", need="member.tile_m", limit=64, prune_when="need > limit")
    )
    for name, tile in (("c", 128), ("a", 64), ("b", 256), ("d", 32)):
        consider(shape_filter, name, tile_m=tile)
    assert [v.candidate.name for v in shape_filter.verdicts] == ["c", "a", "b", "d"]
    assert [v.candidate.name for v in shape_filter.survivors] == ["a", "d"]
    assert [(v.candidate.name, v.need, v.limit) for v in shape_filter.pruned] == [
        ("c", 128, 64),
        ("b", 256, 64),
    ]


def test_a_verdict_keeps_candidate_and_kernel_facts():
    candidate, kernel = ShapeCandidate("a", tile_m=64), KernelFacts(registers=32, code_hash="h")
    verdict = make().consider(candidate, kernel)
    assert verdict.candidate is candidate
    assert verdict.kernel is kernel
    assert make().consider(candidate).kernel == KernelFacts()


def test_the_first_rule_that_prunes_is_reported_and_all_record(consider):
    verdict = consider(
        make(
            Rule(
                "A",
                "never",
                need=1,
                limit=2,
                prune_when="need > limit",
                records={"a": "need + limit"},
            ),
            Rule("B", "first", need=5, limit=4, prune_when="need > limit", records={"b": "need"}),
            Rule(
                "C",
                "second",
                need=9,
                limit=8,
                prune_when="need > limit",
                records={"c": "limit", "d": 2.5},
            ),
        )
    )
    assert (verdict.rule, verdict.title, verdict.need, verdict.limit) == ("B", "first", 5, 4)
    assert dict(verdict.records) == {"a": 3, "b": 5, "c": 8, "d": 2.5}


def test_what_runs_before_a_launch_is_judged_by_the_same_rules():
    def considered(*threads):
        shape_filter = make(
            Rule("A", "block", need="launch.threads", limit=256, prune_when="need > limit"),
            Rule("B", "spill", need="kernel.spill_bytes", limit=0, prune_when="need > limit"),
        )
        staging = [
            (ShapeCandidate(name, threads=size), KernelFacts(spill_bytes=spill))
            for name, size, spill in threads
        ]
        own = ShapeCandidate("a", threads=128)
        verdict = shape_filter.consider(own, KernelFacts(registers=9), staging)
        assert shape_filter.verdicts == (verdict,)
        assert (verdict.candidate, verdict.kernel.registers) == (own, 9)
        return verdict

    assert considered(("one", 256, 0), ("two", 64, None)).is_survivor
    verdict = considered(("one", 256, 0), ("two", 512, 8), ("three", 1024, 0))
    assert str(verdict) == "a: A (two: block): needs 512, limit 256"
    assert str(considered(("one", 256, 8))) == "a: B (one: spill): needs 8, limit 0"


def test_a_members_own_fault_is_told_before_that_of_what_runs_first():
    rule = Rule("A", "block", need="launch.threads", limit=256, prune_when="need > limit")
    staging = [(ShapeCandidate("one", threads=512), KernelFacts())]
    verdict = make(rule).consider(ShapeCandidate("a", threads=300), KernelFacts(), staging)
    assert (verdict.title, verdict.need) == ("block", 300)


def test_figures_keep_their_type(consider):
    verdict = consider(
        make(Rule("A", "t", need="member.a * 2", limit=7.5, prune_when="need > limit")), a=4
    )
    assert (type(verdict.need), type(verdict.limit)) == (int, float)


@pytest.mark.parametrize(
    ("rule", "is_survivor"),
    [
        (Rule("A", "t"), True),
        (Rule("A", "t", need=5, limit=4), True),
        (Rule("A", "t", need=5, prune_when="need > limit"), True),
        (Rule("A", "t", prune_when="1 > 0"), False),
        (Rule("A", "t", prune_when="device.further_still > 0"), True),
        (Rule("A", "t", prune_when="device.clock_ghz > 1.4 and device.boost == 2"), False),
        (Rule("A", "t", prune_when="device.mode > 0"), True),
        (Rule("A", "t", prune_when="device.backend > 0"), True),
        (Rule("A", "t", prune_when="problem.m == 512 and member.absent == 1"), True),
        (Rule("A", "t", prune_when="device.multiprocessors"), False),
    ],
)
def test_what_prunes(rule, is_survivor):
    assert make(rule).consider(ShapeCandidate("t")).is_survivor is is_survivor


@pytest.mark.parametrize("size", [2**200, 10**6000, -(10**6000)], ids=range(3))
def test_a_figure_out_of_bounds_is_absent(consider, size):
    rule = Rule("A", "t", need="member.a * 1.5", limit=4, prune_when="need > limit or need < 0")
    assert consider(make(rule), a=size).is_survivor
    rule = Rule("A", "t", need="launch.shared_bytes", limit=4, prune_when="need > limit")
    assert consider(make(rule), dynamic_shared_bytes=size).is_survivor


@pytest.mark.parametrize(
    ("figures", "threads", "shared"),
    [
        ({}, None, None),
        ({"threads": 64}, 64, None),
        ({"pinned_block": 32}, 32, None),
        ({"threads": 64, "pinned_block": 32}, 64, None),
        ({"static_shared_bytes": 0}, None, 0),
        ({"static_shared_bytes": 8}, None, 8),
        ({"dynamic_shared_bytes": 0}, None, 0),
        ({"dynamic_shared_bytes": 16}, None, 16),
        ({"static_shared_bytes": 8, "dynamic_shared_bytes": 16}, None, 24),
    ],
)
def test_launch_names(consider, figures, threads, shared):
    rule = Rule("A", "t", records={"threads": "launch.threads", "shared": "launch.shared_bytes"})
    assert dict(consider(make(rule), **figures).records) == {"threads": threads, "shared": shared}


def test_two_candidates_of_one_name_are_refused(consider):
    shape_filter = make()
    consider(shape_filter, "a")
    shape_filter.set_aside(MemberResult("b", "capped"))
    for name in ("a", "b"):
        with pytest.raises(XpuConfigError, match=f"two candidates are called '{name}'"):
            consider(shape_filter, name, tile_m=3)
        with pytest.raises(XpuConfigError, match="give each its own name"):
            shape_filter.set_aside(MemberResult(name, "failed"))
    assert len(shape_filter.verdicts) == len(shape_filter.aside) == 1


def test_a_refusal_names_everything_and_is_one_line(consider):
    shape_filter = make(
        Rule("X", "tile size", need="member.t", limit=64, prune_when="need > limit")
    )
    consider(shape_filter, "big", t=128)
    shape_filter.set_aside(
        MemberResult("broken", "failed", note="cc:\n  error: no such file\n  x.h")
    )
    shape_filter.set_aside(MemberResult("ninth", "capped"))
    text = shape_filter.refusal()
    for part in (
        "f:",
        "512x4096x4096",
        "big: X (tile size): needs 128, limit 64",
        "ninth: capped",
        "broken: failed (cc: error: no such file …)",
    ):
        assert part in text
    assert "\n" not in text
    consider(shape_filter, "small", t=32)
    assert shape_filter.refusal() == ""


def test_a_refusal_says_that_nothing_was_considered():
    shape_filter = make()
    assert "no candidate was considered" in shape_filter.refusal()
    shape_filter.set_aside(MemberResult("a", "failed"))
    assert "no candidate was considered; a: failed" in shape_filter.refusal()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule("R9", "t", need="kernel.regs"), "rules.R9.need .*did you mean 'kernel.registers'"),
        (Rule("R9", "t", limit="1 +"), "rules.R9.limit "),
        (Rule("R9", "t", limit="need"), "rules.R9.limit .*'need' is not allowed"),
        (Rule("R9", "t", prune_when="a.b"), "rules.R9.prune_when "),
        (Rule("R9", "t", records={"x": "'1'"}), "rules.R9.records.x "),
    ],
)
def test_a_rule_that_cannot_be_read_is_named_by_key(rule, said):
    with pytest.raises(XpuConfigError, match=said):
        make(rule)


def test_record_names_are_data_and_not_source(consider):
    name = "x': __import__('os')\n#"
    assert dict(consider(make(Rule("A", "t", records={name: 3}))).records) == {name: 3}


def test_equal_rules_with_figures_of_another_type_are_not_mixed_up(consider):
    for limit in (4, 4.0):
        rules = (Rule("A", "t", need=5, limit=limit, prune_when="need > limit"),)
        verdict = consider(ShapeFilter("f", FACTS, PROBLEM, rules=rules))
        assert type(verdict.limit) is type(limit)


def test_the_shipped_rules_are_the_default(rules, ada, consider):
    verdict = consider(ShapeFilter("f", ada, PROBLEM), threads=1056, tile_m=100)
    assert (verdict.rule, verdict.need, verdict.limit) == ("R0", 1056, 1024)
    assert verdict.pad_waste_permille == 146
