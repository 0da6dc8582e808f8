"""What is read of sysfs, from trees as the kernel makes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xpu_backend_hip import sysfs
from xpu_backend_hip.sysfs import Sysfs

BUS = "0000:03:00.0"
GPU = "51522"
STRANGER = 1  # no child of this process


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write files of a machine with a CPU node, and one of a device with 20 compute units."""

    def put(**files: str | int) -> None:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    nodes = "class__kfd__kfd__topology__nodes"
    device = "simd_count 80\nsimd_per_cu 4\nlocation_id 768\ndomain 0"
    put(**{f"{nodes}__0__gpu_id": 0, f"{nodes}__0__properties": "simd_count 0\nlocation_id 0"})
    put(**{f"{nodes}__1__gpu_id": GPU, f"{nodes}__1__properties": device})
    for number, (level, kib) in enumerate(((1, 16), (2, 2048), (3, 32768), (3, 32768))):
        cache = f"{nodes}__1__caches__{number}__properties"
        put(**{cache: f"processor_id_low 0\nlevel {level}\nsize {kib}\ntype 9"})
    monkeypatch.setattr(sysfs, "_sees_all", lambda: True)
    return put


def process(pid: int, gpu: str = GPU) -> str:
    return f"class__kfd__kfd__proc__{pid}__queues__0__gpuid"


def held(pid: int) -> str:
    return f"class__kfd__kfd__proc__{pid}__stats_{GPU}__cu_occupancy"


@pytest.mark.usefixtures("write")
def test_the_last_level_is_the_largest_entry_of_the_highest(tmp_path) -> None:
    assert Sysfs(BUS, tmp_path).last_level_cache_bytes() == 32 << 20
    assert Sysfs("0000:04:00.0", tmp_path).last_level_cache_bytes() is None
    assert Sysfs(BUS, tmp_path / "nowhere").last_level_cache_bytes() is None


def test_nobody_else_holds_the_device(write, tmp_path) -> None:
    write(**{process(os.getpid()): GPU})
    assert Sysfs(BUS, tmp_path).foreign_share() == 0.0


def test_others_hold_the_units_that_their_waves_are_on(write, tmp_path) -> None:
    write(**{process(os.getpid()): GPU, process(STRANGER): GPU, held(STRANGER): 5})
    look = Sysfs(BUS, tmp_path)
    assert look.foreign_share() == 0.25
    write(**{held(STRANGER): 20})
    assert look.foreign_share() == 0.25, "it is not looked at again at once"
    assert Sysfs(BUS, tmp_path).foreign_share() == 1.0


def test_a_process_on_another_device_holds_nothing_here(write, tmp_path) -> None:
    write(**{process(os.getpid()): GPU, process(STRANGER): "999"})
    assert Sysfs(BUS, tmp_path).foreign_share() == 0.0


def test_where_the_kernel_does_not_say_it_the_share_is_absent(write, tmp_path, monkeypatch) -> None:
    assert Sysfs(BUS, tmp_path).foreign_share() is None, "this process is not known"
    write(**{process(os.getpid()): GPU, process(STRANGER): GPU})
    assert Sysfs(BUS, tmp_path).foreign_share() is None, "its units are not said"
    write(**{held(STRANGER): 5})
    monkeypatch.setattr(sysfs, "_sees_all", lambda: False)
    assert Sysfs(BUS, tmp_path).foreign_share() is None, "others have no numbers here"


def test_a_worker_of_this_process_is_no_stranger(write, tmp_path, monkeypatch) -> None:
    write(**{process(os.getpid()): GPU, process(77): GPU})
    own = sysfs._is_own
    monkeypatch.setattr(sysfs, "_is_own", lambda pid: pid == 77 or own(pid))
    assert Sysfs(BUS, tmp_path).foreign_share() == 0.0


def test_clock_and_power_are_read_where_they_are(write, tmp_path) -> None:
    look = Sysfs("0000:03:00.0".upper(), tmp_path)
    assert (look.clock_mhz(), look.power_mode()) == (None, None)
    place = f"bus__pci__devices__{BUS}"
    write(**{f"{place}__power_dpm_force_performance_level": "auto"})
    assert look.power_mode() == "auto"
    sensors = f"{place}__hwmon__hwmon4"
    write(**{f"{sensors}__power1_cap": 303000000, f"{sensors}__freq1_input": 2482000000})
    assert (look.clock_mhz(), look.power_mode()) == (2482, "303 W, auto")


def test_the_drivers_version_is_its_own_or_the_kernels(write, tmp_path) -> None:
    assert sysfs.driver_version(tmp_path) == f"Linux {os.uname().release}"
    write(module__amdgpu__version="6.16.13")
    assert sysfs.driver_version(tmp_path) == "amdgpu 6.16.13"
