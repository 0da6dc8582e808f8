from __future__ import annotations

from pathlib import Path

import pytest

from xpu.errors import XpuConfigError
from xpu_backend_cpu.backend import CpuBackend
from xpu_backend_cpu.limits import cpu_list, cpu_quota, memory_limit_bytes, worker_count
from xpu_backend_cpu.machine import FURTHER_FACTS, Machine, read_machine

X86 = """processor\t: {cpu}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Some Xeon 8480
stepping\t: 8
flags\t\t: fpu sse sse2 avx avx2 {more}

"""
ARM = """processor\t: {cpu}
BogoMIPS\t: 50.00
Features\t: fp asimd asimddp {more}
CPU implementer\t: 0x41
CPU part\t: 0xd40

"""


def write(root: Path, files: dict[str, object]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def cpuinfo(template: str, count: int, more: str = "") -> dict[str, object]:
    return {"proc/cpuinfo": "".join(template.format(cpu=cpu, more=more) for cpu in range(count))}


def cache(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> dict[str, object]:
    place = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    values = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
    return {f"{place}/{name}": value for name, value in values.items()}


def siblings(pairs: dict[int, str]) -> dict[str, object]:
    return {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": text
        for cpu, text in pairs.items()
    }


def read(root: Path, cpus: int = 2, *, tiles: bool = True, workers: int = 2) -> Machine:
    return read_machine(
        root,
        allowed=frozenset(range(cpus)),
        workers=workers,
        architecture="x86_64",
        kernel="Linux 6.1",
        may_use_tiles=tiles,
    )


@pytest.mark.parametrize(
    ("template", "more", "lanes"),
    [
        (X86, "avx512f avx512_vnni", 16),
        (X86, "", 8),
        (ARM, "", 4),
    ],
)
def test_simd_lanes_follow_the_flags(tmp_path, template, more, lanes):
    write(tmp_path, cpuinfo(template, 2, more))
    assert read(tmp_path).facts().wave_width == lanes


def test_scalable_vectors_are_as_wide_as_the_kernel_says(tmp_path):
    write(tmp_path, cpuinfo(ARM, 2, "sve"))
    assert read(tmp_path).lanes == 4
    write(tmp_path, {"proc/sys/abi/sve_default_vector_length": 32})
    assert read(tmp_path).lanes == 8


def test_names_of_x86_and_arm(tmp_path):
    assert read(write(tmp_path / "x", cpuinfo(X86, 1))).model == "Some Xeon 8480"
    assert read(write(tmp_path / "a", cpuinfo(ARM, 1))).model == "implementer 0x41 part 0xd40"


def test_tiles_are_a_fact_only_where_they_may_be_used(tmp_path):
    write(tmp_path, cpuinfo(X86, 2, "amx_tile amx_int8"))
    assert read(tmp_path).facts().matrix_shapes == ("int8->int32:16x16x64",)
    assert read(tmp_path, tiles=False).facts().matrix_shapes is None


def test_caches_are_counted_once_and_the_highest_unified_level_in_all(tmp_path):
    files: dict[str, object] = {}
    for cpu in range(4):
        files |= cache(cpu, 0, 1, "Data", "48K", str(cpu))
        files |= cache(cpu, 1, 1, "Instruction", "32K", str(cpu))
        files |= cache(cpu, 2, 2, "Unified", "2048K", str(cpu))
        files |= cache(cpu, 3, 3, "Unified", "32M", "0-1" if cpu < 2 else "2-3")
    write(tmp_path, files)
    facts = read(tmp_path, cpus=4).facts()
    assert facts.get("l1d_bytes") == 48 << 10
    assert facts.get("l2_bytes") == 2 << 20
    assert facts.last_level_cache_bytes == 64 << 20
    assert read(tmp_path, cpus=2).facts().last_level_cache_bytes == 32 << 20


def test_a_machine_that_says_nothing_has_no_facts(tmp_path):
    facts = read(tmp_path).facts()
    assert (facts.name, facts.wave_width, facts.memory_bytes) == (None, None, None)
    assert facts.last_level_cache_bytes is None
    assert facts.get("l2_bytes") is None
    assert facts.registers_per_multiprocessor is None
    assert facts.shared_bytes_per_block is None
    assert facts.multiprocessors == 2
    assert worker_count(tmp_path, frozenset({0, 1, 2}), {}) == 3


def test_nonsense_in_the_files_is_absent(tmp_path):
    files = {"proc/cpuinfo": "\0\xff no colon", "proc/meminfo": "MemTotal: lots"}
    write(tmp_path, {**files, **cache(0, 0, 3, "Unified", "huge", "x"), "proc/self/cgroup": "?"})
    facts = read(tmp_path).facts()
    assert facts.memory_bytes is None
    assert facts.last_level_cache_bytes is None


def test_the_second_cgroup_version_limits_by_its_least_ancestor(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box",
            "sys/fs/cgroup/pod/box/cpu.max": "max 100000",
            "sys/fs/cgroup/pod/cpu.max": "250000 100000",
            "sys/fs/cgroup/pod/box/memory.max": 3 << 30,
            "sys/fs/cgroup/pod/memory.max": "max",
            "proc/meminfo": f"MemTotal:  {8 << 20} kB",
        },
    )
    assert cpu_quota(tmp_path) == 2.5
    assert worker_count(tmp_path, frozenset(range(8)), {}) == 2
    assert read(tmp_path).memory_bytes == 3 << 30


def test_the_first_cgroup_version_limits_too(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box\n2:cpu,cpuacct:/box",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": 50000,
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": 100000,
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": 9223372036854771712,
            "proc/meminfo": f"MemTotal:  {8 << 20} kB",
        },
    )
    assert worker_count(tmp_path, frozenset(range(8)), {}) == 1
    assert read(tmp_path).memory_bytes == 8 << 30


def test_no_limit_is_none(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "2:cpu:/\n0::/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": -1,
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": 100000,
        },
    )
    assert cpu_quota(tmp_path) is None
    assert memory_limit_bytes(tmp_path) is None


def test_hyper_threads_of_one_core_are_one_worker(tmp_path):
    write(tmp_path, siblings({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}))
    assert worker_count(tmp_path, frozenset(range(4)), {}) == 2
    assert worker_count(tmp_path, frozenset({0, 2}), {}) == 1
    assert worker_count(tmp_path, frozenset({2, 3}), {}) == 2
    assert worker_count(tmp_path, frozenset(range(4)), {"XPU_CPU_THREADS": "4"}) == 4


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "99999", "²"])
def test_a_thread_count_that_is_none_is_named(monkeypatch, asked):
    monkeypatch.setenv("XPU_CPU_THREADS", asked)
    with pytest.raises(XpuConfigError, match="XPU_CPU_THREADS"):
        CpuBackend().devices()
    answer = CpuBackend().availability()
    assert not answer.is_available
    assert "XPU_CPU_THREADS" in answer.reason


def test_lists_of_processors():
    assert cpu_list("0-2,5") == {0, 1, 2, 5}
    assert cpu_list(None) == frozenset()
    assert cpu_list("a-b,") == frozenset()


def test_the_identity_follows_processor_count_threads_and_power(tmp_path):
    base = read(write(tmp_path / "a", cpuinfo(X86, 2))).identity()
    assert set(base) == {"device", "driver", "threads"}
    assert base == read(write(tmp_path / "b", cpuinfo(X86, 2))).identity()
    flags = read(write(tmp_path / "c", cpuinfo(X86, 2, "avx512f"))).identity()
    count = read(write(tmp_path / "d", cpuinfo(X86, 4))).identity()
    assert len({base["device"], flags["device"], count["device"]}) == 3
    assert read(tmp_path / "a", workers=1).identity()["threads"] == "1"
    governor = {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"}
    assert read(write(tmp_path / "a", governor)).identity()["power"] == "powersave"


def test_this_machine_gives_facts_and_declares_their_names():
    (facts,) = CpuBackend(workers=2).devices()
    assert facts.backend == "cpu"
    assert facts.multiprocessors == 2
    assert set(facts.further) <= set(FURTHER_FACTS) == set(CpuBackend.further_facts)
