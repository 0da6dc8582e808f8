import random

import attrs
import pytest

from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, Problem

M = Problem(m=512, n=4096, k=4096)


def test_ids_are_in_order_and_titles_tell_entries_of_one_id_apart(rules):
    assert [rule.id for rule in rules] == sorted(rule.id for rule in rules)
    assert {rule.id for rule in rules} == {f"R{number}" for number in range(7)}
    assert len({(rule.id, rule.title) for rule in rules}) == len(rules)


@pytest.fixture
def judge(rules, consider):
    def judge(facts, problem=M, **figures):
        return consider(ShapeFilter("f", DeviceFacts(**facts), problem, rules=rules), **figures)

    return judge


@pytest.mark.parametrize(
    ("fact", "limit", "problem", "figures", "need", "title"),
    [
        ("max_threads_per_block", 1024, M, {"threads": 1025}, 1025, "threads per block"),
        ("max_registers_per_thread", 255, M, {"registers": 256}, 256, "registers per thread"),
        ("max_grid_x", 63, M, {"tile_n": 64}, 64, "blocks along grid x"),
        ("max_grid_y", 7, M, {"tile_m": 64}, 8, "blocks along grid y"),
    ],
)
def test_r0_prunes_just_above_its_limit(judge, fact, limit, problem, figures, need, title):
    verdict = judge({fact: limit}, problem, **figures)
    assert (verdict.rule, verdict.title) == ("R0", title)
    assert (verdict.need, verdict.limit) == (need, limit)
    assert judge({fact: need}, problem, **figures).is_survivor
    assert judge({}, problem, **figures).is_survivor


def test_r0_counts_the_splits_along_z(judge):
    facts = {"multiprocessors": 128, "max_grid_z": 3}
    figures = {"tile_m": 128, "tile_n": 128, "tile_k": 256}
    verdict = judge(facts, Problem(m=128, n=4096, k=4096), **figures)
    assert (verdict.rule, verdict.need, verdict.limit) == ("R0", 4, 3)
    assert verdict.splits == 4
    assert judge(facts, Problem(m=256, n=4096, k=4096), **figures).is_survivor


@pytest.mark.parametrize(
    "sizes", [{"m": 1, "n": 65536}, {"m": 65536, "n": 1}, {"m": 2**16, "n": 2**15 + 1, "k": 1}]
)
def test_r0_prunes_32_bit_offsets_beyond_their_reach(judge, sizes):
    problem = Problem(**{"k": 32769, **sizes})
    verdict = judge({}, problem, index_bits=32)
    assert (verdict.rule, verdict.limit) == ("R0", 2**31)
    assert verdict.need == max(problem.m * problem.k, problem.n * problem.k, problem.m * problem.n)
    assert judge({}, problem, index_bits=64).is_survivor
    assert judge({}, problem).is_survivor


def test_r0_lets_exactly_two_to_the_31_elements_pass_and_prunes_the_largest_problem(judge):
    assert judge({}, Problem(m=1, n=2**16, k=2**15), index_bits=32).is_survivor
    assert judge({}, Problem(m=2**40, n=2**40, k=2**40), index_bits=32).need == 2**80


def test_r2_needs_both_threads_and_registers(judge):
    facts = {"registers_per_multiprocessor": 65536}
    assert judge(facts, threads=512, registers=128).is_survivor
    assert judge(facts, threads=512, registers=129).rule == "R2"
    assert judge(facts, registers=255).is_survivor
    assert judge(facts, threads=1024).is_survivor
    assert judge(facts, pinned_block=512, registers=129).need == 512 * 129


def test_the_launch_counts_the_members_threads_before_the_pinned_block(judge):
    assert judge({"max_threads_per_block": 64}, threads=64, pinned_block=128).is_survivor
    assert judge({"max_threads_per_block": 64}, pinned_block=128).need == 128


def test_r3_takes_the_larger_limit_and_sums_what_is_there(judge):
    plain, optin = "shared_bytes_per_block", "shared_bytes_per_block_optin"
    assert judge({plain: 100}, static_shared_bytes=60, dynamic_shared_bytes=41).need == 101
    assert (
        judge({plain: 100, optin: 101}, static_shared_bytes=60, dynamic_shared_bytes=41).rule
        is None
    )
    assert judge({plain: 100, optin: 0}, static_shared_bytes=101).limit == 100
    assert judge({optin: 100}, dynamic_shared_bytes=101).limit == 100
    assert judge({plain: 100}).is_survivor


def test_r4_counts_each_resource_only_where_its_facts_are(judge):
    figures = {"threads": 128, "registers": 64, "static_shared_bytes": 4096}
    full = {
        "max_blocks_per_multiprocessor": 24,
        "max_threads_per_multiprocessor": 1536,
        "registers_per_multiprocessor": 65536,
        "shared_bytes_per_multiprocessor": 28672,
    }
    alone = {
        "max_blocks_per_multiprocessor": 24,
        "max_threads_per_multiprocessor": 12,
        "registers_per_multiprocessor": 8,
        "shared_bytes_per_multiprocessor": 7,
    }
    for fact, groups in alone.items():
        assert judge({fact: full[fact]}, **figures).resident_groups == groups
    assert judge(full, **figures).resident_groups == 7
    assert judge({}, **figures).resident_groups is None
    assert judge(full).resident_groups == 24


def test_r4_adds_what_the_system_reserves_in_every_block(judge):
    facts = {"shared_bytes_per_multiprocessor": 102400, "reserved_shared_bytes_per_block": 1024}
    assert judge(facts, static_shared_bytes=50176).resident_groups == 2
    assert judge(facts, static_shared_bytes=50177).resident_groups == 1
    assert judge(facts, static_shared_bytes=0).resident_groups == 100
    none = attrs.evolve(DeviceFacts(**facts), reserved_shared_bytes_per_block=0)
    assert none.reserved_shared_bytes_per_block == 0
    assert (
        judge({"shared_bytes_per_multiprocessor": 102400}, static_shared_bytes=0).resident_groups
        is None
    )


def test_r4_rounds_registers_up_for_every_wave(judge):
    facts = {"registers_per_multiprocessor": 65536, "register_allocation_unit": 256}
    waves = {**facts, "wave_width": 32}
    # 33 registers: 1,056 a wave, rounded up to 1,280; 8 waves take 10,240, so 6 groups fit.
    assert judge(waves, threads=256, registers=33).resident_groups == 6
    # Rounded as a whole, 8,448 = 33 units: 7 groups. Plain: 7 as well.
    assert judge(facts, threads=256, registers=33).resident_groups == 7
    # A wave that is begun takes a whole one: 33 threads are two waves of 1,024.
    assert judge(waves, threads=33, registers=32).resident_groups == 32
    # Without wave width the block is rounded as a whole: 1,056 becomes 1,280.
    assert judge(facts, threads=33, registers=32).resident_groups == 51
    assert (
        judge({"registers_per_multiprocessor": 65536}, threads=33, registers=32).resident_groups
        == 62
    )


def test_r4_never_counts_fewer_registers_than_the_threads_have(judge):
    rng = random.Random()
    for _ in range(200):
        unit, wave = rng.choice([1, 8, 256, 512]), rng.choice([1, 16, 32, 64])
        threads, registers = rng.randint(1, 1024), rng.randint(1, 64)
        facts = {"registers_per_multiprocessor": 65536}
        plain = judge(facts, threads=threads, registers=registers).resident_groups
        rounded = judge(
            {**facts, "register_allocation_unit": unit, "wave_width": wave},
            threads=threads,
            registers=registers,
        ).resident_groups
        assert rounded <= plain


@pytest.mark.parametrize(
    ("multiprocessors", "m", "k", "fills", "splits"),
    [
        (128, 512, 4096, True, 1),
        (128, 128, 4096, False, 4),
        (129, 512, 4096, False, 2),
        (128, 128, 512, False, 2),
        (10**6, 128, 4096, False, 16),
        (128, 128, 0, False, 1),
        (None, 128, 4096, None, None),
    ],
)
def test_r5_fills_and_splits(judge, multiprocessors, m, k, fills, splits):
    verdict = judge(
        {"multiprocessors": multiprocessors},
        Problem(m=m, n=4096, k=k),
        tile_m=128,
        tile_n=128,
        tile_k=256,
    )
    assert verdict.fills is fills
    assert verdict.splits == splits


@pytest.mark.parametrize(
    ("multiprocessors", "m", "k", "groups", "splits"),
    [
        (132, 128, 4096, 1, 4),  # 32 tiles
        (132, 128, 4096, 2, 8),
        (132, 160, 4096, 1, 2),  # 64 of them: the least that occupies the device would be 3
        (132, 512, 4096, 1, 1),
        (8, 512, 4096, 1, 1),
        (10**6, 128, 4096, 1, 16),
        (132, 128, 0, 1, 1),
        (132, 0, 4096, 1, 1),
        (None, 128, 4096, 1, None),
        (132, 128, 4096, None, None),
    ],
)
def test_r4_records_the_splits_that_are_resident(judge, multiprocessors, m, k, groups, splits):
    verdict = judge(
        {"multiprocessors": multiprocessors, "max_blocks_per_multiprocessor": groups},
        Problem(m=m, n=4096, k=k),
        tile_m=128,
        tile_n=128,
        tile_k=256,
    )
    assert verdict.resident_groups == groups
    assert verdict.resident_splits == splits


def test_r5_brings_tiles_times_splits_up_to_the_multiprocessors_with_no_split_to_spare(judge):
    rng = random.Random()
    for _ in range(200):
        multiprocessors, m = rng.randint(1, 300), rng.randint(1, 3000)
        n, k, tile = rng.randint(1, 3000), rng.randint(1, 9000), rng.choice([16, 64, 128])
        verdict = judge(
            {"multiprocessors": multiprocessors},
            Problem(m=m, n=n, k=k),
            tile_m=tile,
            tile_n=tile,
            tile_k=256,
        )
        tiles, blocks = len(range(0, m, tile)) * len(range(0, n, tile)), len(range(0, k, 256))
        enough = [s for s in range(1, blocks + 1) if tiles * s >= multiprocessors]
        assert verdict.splits == (enough[0] if enough else blocks)
        assert verdict.fills is (tiles >= multiprocessors)


def test_r5_is_absent_without_tiles(judge):
    verdict = judge({"multiprocessors": 8}, tile_m=64, tile_k=64)
    assert verdict.fills is None
    assert verdict.splits is None


@pytest.mark.parametrize(
    ("m", "tile", "waste"), [(65, 64, 492), (64, 64, 0), (1, 128, 992), (1, 3, 666), (0, 64, None)]
)
def test_r6_floors_the_waste(judge, m, tile, waste):
    assert judge({}, Problem(m=m, n=64, k=64), tile_m=tile).pad_waste_permille == waste


def test_records_stay_on_a_pruned_verdict(judge):
    verdict = judge(
        {"multiprocessors": 4, "max_threads_per_block": 64, "max_threads_per_multiprocessor": 256},
        threads=128,
        tile_m=60,
        tile_n=64,
    )
    assert verdict.rule == "R0"
    assert verdict.resident_groups == 2
    assert verdict.fills is True
    assert verdict.pad_waste_permille == 51


def test_a_problem_with_other_sizes_is_pruned_by_none(judge):
    assert judge({"multiprocessors": 4, "max_grid_x": 1}, Problem(rows=5), tile_m=4).is_survivor


def test_no_rows_is_a_problem_too(judge):
    verdict = judge({"multiprocessors": 4}, Problem(m=0, n=64, k=64), tile_m=8, tile_n=8, tile_k=8)
    assert verdict.is_survivor
    assert verdict.fills is False
    assert verdict.splits is None
