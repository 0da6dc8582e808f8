"""Tests of an open device: its facts, its memory, and the arrays that it takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray
from xpu.store.names import UNKNOWN, device_key
from xpu.testing.backend_fixtures import BackendFixtures, opened_device
from xpu.testing.workbench import Workbench

_SENTINELS: Final = frozenset({2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1})
"""What drivers report for want of a figure."""

SIZES: Final = (0, 1, 3, 4097, (3 << 20) + 5)


class DeviceTests(BackendFixtures):
    """Facts and memory."""

    def test_an_available_backend_opens_its_device(self, bench: Workbench) -> None:
        opened = opened_device(bench)
        assert isinstance(opened, Device), opened
        opened.close()

    def test_the_open_device_has_the_facts_that_were_listed(
        self, bench: Workbench, device: Device
    ) -> None:
        listed = bench.backend.devices()
        assert listed[0] == device.facts
        assert listed == bench.backend.devices(), "they differ each time"
        assert device.facts.backend == bench.backend.name

    def test_a_number_that_is_no_device_is_refused(self, bench: Workbench, device: Device) -> None:
        count = len(bench.backend.devices())
        for index in (count, count + 98, -1):
            with pytest.raises(XpuLaunchException, match=str(index)):
                bench.backend.open(index)

    def test_a_fact_that_cannot_be_had_is_absent(self, bench: Workbench, device: Device) -> None:
        facts = device.facts
        for name in ("name", "architecture", "uuid", "driver_version"):
            assert getattr(facts, name) != "", f"{name} is an empty text; leave it absent (None)"
        for field in attrs.fields(type(facts)):
            if not field.name.startswith("max_grid"):
                value = getattr(facts, field.name)
                is_sentinel = isinstance(value, int) and value in _SENTINELS
                assert not is_sentinel, f"{field.name} = {value} is a driver's way to say nothing"
        undeclared = set(facts.further) - set(bench.backend.further_facts)
        assert not undeclared, f"{undeclared} are not declared in further_facts"
        for name, value in facts.further.items():
            assert value not in (0, ""), f"{name} = {value!r}: leave out what cannot be had"
            assert value not in _SENTINELS, f"{name} = {value} is a driver's way to say nothing"

    def test_the_facts_name_a_geometry(self, device: Device) -> None:
        assert device_key(device.facts) != UNKNOWN, (
            "answers cannot be kept on disk: no fact says what part they hold for; report "
            "multiprocessors, wave_width, or another of those in the guide"
        )

    def test_the_identity_is_the_same_each_time(self, bench: Workbench, device: Device) -> None:
        identity = dict(device.identity())
        assert all(isinstance(text, str) for pair in identity.items() for text in pair), identity
        assert any(identity.values()), "an answer would rest on no device: identity() says nothing"
        other = bench.backend.open(0)
        assert dict(other.identity()) == identity
        other.close()

    @pytest.mark.parametrize("nbytes", SIZES)
    def test_poisoned_memory_is_all_ones(self, device: Device, nbytes: int) -> None:
        array = device.allocate(nbytes, poisoned=True)
        assert (array.shape, array.dtype) == ((nbytes,), "uint8")
        assert bool((device.to_host(array) == 0xFF).all())
        plain = device.allocate(nbytes)
        assert (plain.shape, plain.dtype) == ((nbytes,), "uint8")
        assert nbytes == 0 or plain.address != array.address

    def test_memory_is_aligned_as_kernels_in_c_are_promised(
        self, bench: Workbench, device: Device
    ) -> None:
        if bench.backend.dialect != "c":
            pytest.skip(f"alignment: the dialect {bench.backend.dialect!r} promises none")
        for nbytes in SIZES[1:]:
            # Several, for one may lie right by luck.
            kept = [device.allocate(nbytes, poisoned=bool(at % 2)) for at in range(8)]
            past = [array.address % 64 for array in kept]
            assert not any(past), (
                f"allocate({nbytes}) gave addresses {past} bytes past a multiple of 64: kernels "
                "load whole lines of prepared weights and would crash; allocate 64 bytes more and "
                "begin at the first such address"
            )

    @pytest.mark.parametrize(
        "dtype", ["uint8", "int8", "uint16", "float16", "int32", "float32", "int64", "float64"]
    )
    def test_an_array_comes_back_as_it_went(
        self, device: Device, dtype: str, rng: np.random.Generator
    ) -> None:
        for shape in ((0,), (1,), (7, 33), (0, 5), (2, 3, 5)):
            size = math.prod(shape) * np.dtype(dtype).itemsize
            array = np.frombuffer(rng.bytes(size), dtype).reshape(shape)
            taken = device.from_host(array)
            assert (tuple(taken.shape), taken.dtype) == (shape, dtype)
            back = device.to_host(taken)
            assert (back.shape, back.dtype.name) == (shape, dtype)
            assert back.tobytes() == array.tobytes()

    def test_a_copy_is_a_copy(self, device: Device, rng: np.random.Generator) -> None:
        given = rng.integers(0, 256, (64, 64)).astype(np.uint8)
        expected = given.T.copy()
        taken = device.from_host(given.T)  # not contiguous
        given[...] = 0
        first = device.to_host(taken)
        assert np.array_equal(first, expected), "it follows the host's array"
        first[...] = 1
        assert np.array_equal(device.to_host(taken), expected), "to_host gave its own memory"

    def test_memory_within_an_allocation_can_be_copied_to_and_poisoned(
        self, device: Device, rng: np.random.Generator
    ) -> None:
        expected = rng.integers(0, 256, 4096).astype(np.uint8)
        slab = device.from_host(expected)
        source = device.from_host(rng.integers(0, 256, 512).astype(np.uint8))
        device.copy(source, part(slab, 1024, 512))
        device.poison(part(slab, 3072, 256))
        device.synchronize()
        expected[1024:1536] = device.to_host(source)
        expected[3072:3328] = 0xFF
        assert np.array_equal(device.to_host(slab), expected)

    def test_what_is_alive_outlives_a_trim(self, device: Device, rng: np.random.Generator) -> None:
        expected = rng.integers(0, 256, 5000).astype(np.uint8)
        held, gone = device.from_host(expected), device.allocate(5000, poisoned=True)
        del gone
        for _ in range(2):
            device.trim()
        later = device.allocate(5000, poisoned=True)
        assert np.array_equal(device.to_host(held), expected)
        assert bool((device.to_host(later) == 0xFF).all())

    def test_code_that_is_none_is_refused(
        self, bench: Workbench, device: Device, tmp_path: Path
    ) -> None:
        junk = tmp_path / "junk"
        junk.write_bytes(b"this is no code object")
        entry = bench.unit().entry
        for code, name in (
            (junk, entry),
            (tmp_path / "nothing", entry),
            (bench.code(), "no_such_entry"),
        ):
            with pytest.raises(XpuLaunchException, match=name):
                device.load(code, name)

    def test_the_share_of_others_is_a_share_or_unknown(self, device: Device) -> None:
        for _ in range(2):
            share = device.foreign_load()
            assert share is None or 0 <= share <= 1, share

    def test_it_can_be_closed_twice_and_opened_again(
        self, bench: Workbench, device: Device
    ) -> None:
        for _ in range(2):
            other = bench.backend.open(0)
            assert device.facts == other.facts
            other.close()
            other.close()
        # One that is open must not notice that another was closed.
        assert bool((device.to_host(device.allocate(16, poisoned=True)) == 0xFF).all())


def part(array: DeviceArray, offset: int, nbytes: int) -> DeviceArray:
    """Return bytes within an allocation, as a cold trial's copies are."""
    return DeviceArray(array.address + offset, (nbytes,), "uint8", array)
