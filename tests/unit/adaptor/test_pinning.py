"""The block that a kernel is compiled for, and declarations that contradict it."""

from __future__ import annotations

import pytest

from xpu.adaptor.launch_sites import FoundSite
from xpu.adaptor.pinning import pinned_block, sites_of, wave_of
from xpu.errors import XpuBuildError
from xpu.model import Declarations, LaunchSite

A, B = LaunchSite("a.py:1", 128), LaunchSite("b.py:2", 256)
OPEN = LaunchSite("c.py:3")


def test_the_largest_block_wins():
    assert pinned_block("f.m", (A, B), Declarations(), {}, 32).max_threads == 256
    assert pinned_block("f.m", (), Declarations(max_threads=64), {}, 32).max_threads is None


def test_what_is_not_known_is_bounded_by_a_declared_occupancy_or_by_nothing():
    assert pinned_block("f.m", (A, OPEN), Declarations(), {}, 32).max_threads is None
    declared = Declarations(max_threads="2 * member.threads")
    pinned = pinned_block("f.m", (A, OPEN), declared, {"threads": 96}, 32)
    assert pinned.max_threads == 192
    assert pinned.launch_sites == (A, OPEN, LaunchSite("declared occupancy", 192))


def test_a_declared_maximum_above_the_found_blocks_is_pinned():
    pinned = pinned_block("f.m", (A, B), Declarations(max_threads=512), {}, 32)
    assert pinned.max_threads == 512
    assert pinned.launch_sites == (A, B, LaunchSite("declared occupancy", 512))
    pinned = pinned_block("f.m", (A, B), Declarations(max_waves=8), {}, 64)
    assert (pinned.max_threads, pinned.launch_sites[2:]) == (
        512,
        (LaunchSite("declared occupancy", 512),),
    )
    # What says no more than host code does is no site of its own.
    assert pinned_block("f.m", (A, B), Declarations(max_threads=256), {}, 32).launch_sites == (A, B)


def test_waves_are_as_wide_as_the_targets():
    declared = Declarations(max_waves=4)
    assert pinned_block("f.m", (OPEN,), declared, {}, 64).max_threads == 256
    with pytest.raises(XpuBuildError, match="how wide a wave of the target is"):
        pinned_block("f.m", (OPEN,), declared, {}, None)


def test_a_maximum_below_the_launched_block_fails_by_name():
    with pytest.raises(
        XpuBuildError, match=r"f\.m: a block of 256 threads at b\.py:2 is larger.*128"
    ):
        pinned_block("f.m", (A, B), Declarations(max_threads=128), {}, 32)


def test_a_members_own_threads_are_a_site_and_stand_for_a_launch_without_a_block():
    found = (FoundSite("a.py:1", None, has_block=False),)
    own = LaunchSite("families.f.members.m.threads", 64)
    given = ("families.f.members.m", {"threads": 64})
    assert sites_of(found, *given, has_waves=True) == (LaunchSite("a.py:1", 64), own)
    assert sites_of(found, *given, has_waves=False) == ()
    assert sites_of(found, given[0], {}, has_waves=True) == (LaunchSite("a.py:1"),)
    blocks = (FoundSite("a.py:1", 32),)
    assert sites_of(blocks, *given, has_waves=False) == (LaunchSite("a.py:1", 32), own)


def test_a_wave_that_the_target_does_not_have_is_refused():
    declared = Declarations(wave=32)
    assert wave_of("f.m", declared, {}, 32) == wave_of("f.m", declared, {}, None) == 32
    assert wave_of("f.m", Declarations(), {}, 64) == 64
    with pytest.raises(XpuBuildError, match=r"f\.m: .*waves of 32 lanes.*have 64"):
        wave_of("f.m", declared, {}, 64)


def test_what_is_not_constant_is_refused_for_the_kernel():
    with pytest.raises(XpuBuildError, match=r"f\.m: occupancy in threads: .* is not constant"):
        pinned_block("f.m", (A,), Declarations(max_threads="problem.m"), {}, 32)
    with pytest.raises(XpuBuildError, match=r"f\.m: width of a wave: 'member.w' is not constant"):
        wave_of("f.m", Declarations(wave="member.w"), {}, 32)
