"""Resident groups, what limits them and the blocks that fit, on parts whose figures are known."""

from __future__ import annotations

import attrs
import pytest

from xpu.filter import occupancy
from xpu.model import DeviceFacts, KernelFacts, Rule
from xpu.settings import shipped_rules

# Source: deviceQuery of an RTX 4090, in tests/vectors/devices.toml.
ADA = DeviceFacts(
    wave_width=32,
    max_threads_per_block=1024,
    max_threads_per_multiprocessor=1536,
    max_blocks_per_multiprocessor=24,
    registers_per_multiprocessor=65536,
    register_allocation_unit=256,
    shared_bytes_per_block=49152,
    shared_bytes_per_block_optin=101376,
    shared_bytes_per_multiprocessor=102400,
    reserved_shared_bytes_per_block=1024,
)
RULES = tuple(shipped_rules())


def said(kernel: KernelFacts, facts: DeviceFacts = ADA, **parameters: int):
    return occupancy(RULES, facts, kernel, parameters)


@pytest.mark.parametrize(
    ("kernel", "resident", "limiters"),
    [
        (KernelFacts(registers=16, pinned_block=32), 24, ("max_blocks_per_multiprocessor",)),
        (KernelFacts(registers=32, pinned_block=256), 6, ("max_threads_per_multiprocessor",)),
        (KernelFacts(registers=128, pinned_block=256), 2, ("registers_per_multiprocessor",)),
        (
            KernelFacts(registers=32, pinned_block=128, static_shared_bytes=24 * 1024),
            4,
            ("shared_bytes_per_multiprocessor",),
        ),
        (
            # 8 blocks of 192 threads, and 65,536 // (6 waves x 32 x 40): 8 as well.
            KernelFacts(registers=40, pinned_block=192),
            8,
            ("max_threads_per_multiprocessor", "registers_per_multiprocessor"),
        ),
    ],
)
def test_the_figure_is_that_of_the_rule_and_its_lowest_terms_limit_it(
    kernel, resident, limiters
) -> None:
    found = said(kernel)
    assert (found.resident_groups, found.limiters, found.pruned) == (resident, limiters, "")


def test_blocks_that_fit_stand_with_the_most_threads_resident_first() -> None:
    # Of 80 registers 25 waves fit the file: all of them in blocks of 5 waves, 21 in blocks of 7.
    kernel = KernelFacts(registers=80, pinned_block=256)
    blocks = said(kernel).feasible_blocks
    assert set(blocks) == set(range(32, 257, 32))
    waves = {
        threads: (said(kernel, threads=threads).resident_groups or 0) * threads // 32
        for threads in blocks
    }
    assert [waves[threads] for threads in blocks] == sorted(waves.values(), reverse=True)
    assert blocks[0] == 160
    assert waves[160] == 25
    assert blocks[-1] == 224


def test_a_block_that_no_multiprocessor_holds_is_named_with_its_rule() -> None:
    found = said(KernelFacts(registers=128, spill_bytes=0, pinned_block=1024))
    assert found.pruned == "R2 (registers of a block): needs 131072, limit 65536"
    assert found.resident_groups == 0
    assert max(found.feasible_blocks) == 512


def test_dynamic_shared_memory_counts_as_it_does_at_a_bind() -> None:
    kernel = KernelFacts(registers=32, pinned_block=128, static_shared_bytes=1024)
    assert said(kernel, dynamic_shared_bytes=40 * 1024).resident_groups == 2
    pruned = said(kernel, dynamic_shared_bytes=101 * 1024)
    assert pruned.pruned == "R3 (shared memory per block): needs 104448, limit 101376"
    assert pruned.feasible_blocks == ()


def test_without_facts_nothing_is_said() -> None:
    found = said(KernelFacts(registers=32, pinned_block=128), DeviceFacts())
    assert attrs.astuple(found) == (None, (), (), "")


def test_rules_of_ones_own_give_their_figure_and_no_limiter() -> None:
    own = (
        Rule(
            "R4",
            "resident",
            need=1,
            limit="device.max_threads_per_multiprocessor // launch.threads",
            records={"resident_groups": "limit * 1"},
        ),
    )
    found = occupancy(own, ADA, KernelFacts(pinned_block=512), {})
    assert (found.resident_groups, found.limiters) == (3, ())
