"""The management library: missing, silent, or saying who else is there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from xpu_backend_cuda import nvml
from xpu_backend_cuda.facts import all_facts, target_of
from xpu_backend_cuda.tiles import matrix_shapes


class NotFound(Exception):  # noqa: N818 - the library's name
    pass


class Library:
    """What ``pynvml`` answers."""

    NVMLError_NotFound = NotFound

    def __init__(self) -> None:
        self.processes = [os.getpid()]
        self.samples = []
        self.reasons = 0
        self.started = 0

    def nvmlInit(self):  # noqa: N802 - the library's name
        self.started += 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.159.04"

    def nvmlDeviceGetHandleByPciBusId(self, bus_id):  # noqa: N802
        return f"handle of {bus_id}"

    def nvmlDeviceGetPowerManagementLimit(self, _device):  # noqa: N802
        return 699_600

    def nvmlDeviceGetClockInfo(self, _device, kind):  # noqa: N802
        return 1980 if kind == 1 else 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, _device):  # noqa: N802
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, _device):  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=1) for pid in self.processes]

    def nvmlDeviceGetProcessUtilization(self, _device, since):  # noqa: N802
        if not self.samples:
            raise NotFound
        return self.samples


@pytest.fixture
def library(monkeypatch):
    made = Library()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.setattr(nvml, "_STAYS_S", 0.0)
    monkeypatch.setattr(nvml, "_FIRST_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)
    nvml._library.cache_clear()
    yield made
    nvml._library.cache_clear()


@pytest.fixture
def stranger():
    """Start a process that is not ours: its parent is another one."""
    code = """import os, time
if os.fork(): os._exit(0)
print(os.getpid(), flush=True)
time.sleep(60)"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.wait()
    parent.stdout.close()
    yield pid
    os.kill(pid, 9)


def sample(pid, busy, age_s=0.1):
    stamp = int((time.time() - age_s) * 1e6)
    return SimpleNamespace(pid=pid, smUtil=busy, timeStamp=stamp)


def test_a_device_of_our_own_is_held_by_nobody(library) -> None:
    assert nvml.Nvml("0").foreign_share() == 0.0


def test_in_a_container_a_list_without_others_says_nothing(library, stranger, monkeypatch) -> None:
    monkeypatch.setattr(nvml, "_FIRST_NAMESPACE", 1)  # of no namespace
    one = nvml.Nvml("0")
    assert one.foreign_share() is None
    # Where others are seen all the same, what they do counts.
    library.processes.append(stranger)
    library.samples = [sample(stranger, 80)]
    assert one.foreign_share() == pytest.approx(0.8)


def test_a_child_of_ours_is_no_stranger(library) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    library.processes.append(child.pid)
    library.samples = [sample(child.pid, 100)]
    assert nvml.Nvml("0").foreign_share() == 0.0
    child.kill()
    child.wait()


def test_what_strangers_ran_of_late_counts(library, stranger) -> None:
    one = nvml.Nvml("0")
    library.processes.append(stranger)
    assert one.foreign_share() == 0.0, "it only holds memory"
    library.samples = [
        sample(stranger, 80),
        sample(stranger, 40, 0.5),
        sample(stranger, 100, 5),  # long ago
        sample(os.getpid(), 90),
    ]
    assert one.foreign_share() == pytest.approx(0.6)
    library.processes.append(1)
    library.samples.append(sample(1, 70))
    assert one.foreign_share() == 1.0


def test_a_share_stays_for_a_moment(library, monkeypatch) -> None:
    monkeypatch.setattr(nvml, "_STAYS_S", 60.0)
    one = nvml.Nvml("0")
    assert one.foreign_share() == 0.0
    library.processes = []
    assert one.foreign_share() == 0.0
    assert nvml.Nvml("0").foreign_share() is None


def test_processes_that_cannot_be_told_apart_are_unknown(library, stranger) -> None:
    one = nvml.Nvml("0")
    library.processes = []
    assert one.foreign_share() is None
    library.processes = [stranger]
    assert one.foreign_share() is None


@pytest.mark.parametrize("broken", ["missing", "raises", "no device"])
def test_a_library_that_cannot_say_leaves_everything_absent(fake, monkeypatch, broken) -> None:
    if broken != "missing":
        made = Library()
        name = "nvmlInit" if broken == "raises" else "nvmlDeviceGetHandleByPciBusId"
        monkeypatch.setattr(made, name, lambda *_: 1 / 0)
        monkeypatch.setitem(sys.modules, "pynvml", made)
    nvml._library.cache_clear()
    one = nvml.Nvml("0000:00:00.0")
    assert (one.clock(), one.foreign_share(), one.power_limit_w()) == (None, None, None)
    if broken != "no device":
        assert nvml.driver_version() is None
        assert all_facts()[0].driver_version == "CUDA 13.0"


def test_clock_and_power_are_read(library) -> None:
    one = nvml.Nvml("0")
    assert one.clock() == nvml.Clock(1980, is_slowed=False, is_power_capped=False)
    for reason, slowed, capped in ((4, False, True), (0x40, True, False), (0x8C, True, True)):
        library.reasons = reason
        assert one.clock() == nvml.Clock(1980, is_slowed=slowed, is_power_capped=capped)
    library.reasons = 1 | 2 | 16
    assert not one.clock().is_slowed
    assert one.power_limit_w() == 700
    assert library.started == 1


def test_an_older_package_knows_the_reasons_by_their_older_name(library, monkeypatch) -> None:
    monkeypatch.delattr(Library, "nvmlDeviceGetCurrentClocksEventReasons")
    library.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _device: 8
    assert nvml.Nvml("0").clock().is_slowed


def test_the_names_are_the_librarys_own() -> None:
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for name in (name for name in vars(Library) if name.startswith(("nvml", "NVML"))):
        assert hasattr(real, name), name
    assert real.NVML_CLOCK_SM == nvml._SM_CLOCK
    slowed = (
        real.nvmlClocksEventReasonHwSlowdown
        | real.nvmlClocksEventReasonSwThermalSlowdown
        | real.nvmlClocksEventReasonHwThermalSlowdown
        | real.nvmlClocksEventReasonHwPowerBrakeSlowdown
    )
    assert slowed == nvml._SLOWED
    assert real.nvmlClocksEventReasonSwPowerCap == nvml._POWER_CAPPED


def test_facts_are_what_the_driver_says(fake, monkeypatch, library) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)
    nvml._library.cache_clear()
    first, second = all_facts()
    assert (first.backend, first.name, first.architecture) == ("cuda", "Fake 0", "sm_90")
    assert first.uuid == "GPU-01010101-0101-0101-0101-010101010101"
    assert second.uuid.startswith("GPU-0202")
    assert first.driver_version == "580.159.04"
    assert (first.multiprocessors, first.simds_per_multiprocessor) == (132, 4)
    assert (first.wave_width, first.max_registers_per_thread) == (32, 255)
    assert first.shared_bytes_per_block_optin == 232448
    assert first.memory_bytes == 1 << 30
    assert first.further == {"max_block_x": 1024, "max_block_y": 1024, "max_block_z": 64}
    assert first.matrix_shapes == matrix_shapes("sm_90")
    assert target_of(1) == "sm_90"
    assert not {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent"} & set(fake.calls)


def test_a_zero_is_absent(fake) -> None:
    fake.facts = {"COMPUTE_CAPABILITY_MAJOR": 7, "COMPUTE_CAPABILITY_MINOR": 0}
    fake.cuDeviceGetUuid = lambda _device: SimpleNamespace(bytes=bytes(16))
    facts = all_facts()[0]
    assert facts.architecture == "sm_70"
    assert facts.uuid is None
    assert facts.multiprocessors is None
    assert facts.last_level_cache_bytes is None
    assert facts.matrix_shapes is None
    fake.fails["cuDeviceGetAttribute"] = 1
    assert all_facts()[0].wave_width is None


def test_the_identity_names_device_driver_and_power(fake, library, monkeypatch) -> None:
    from xpu_backend_cuda.device import CudaDevice

    monkeypatch.setitem(sys.modules, "pynvml", library)
    nvml._library.cache_clear()
    device = CudaDevice(1)
    assert device.identity() == {
        "device": "GPU-02020202-0202-0202-0202-020202020202",
        "driver": "580.159.04",
        "power": "700 W",
    }
    assert device.foreign_load() == 0.0
    device.close()
