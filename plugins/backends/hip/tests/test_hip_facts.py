"""What is made of the runtime's figures, against what is known of real parts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from xpu_backend_hip.backend import HipBackend
from xpu_backend_hip.facts import cleaned
from xpu_backend_hip.hardware import hardware_of, runnable

DEVICES = Path(__file__).parents[4] / "tests/vectors/devices.toml"
LDS = 65536
# What devices.toml says in comments: that the entry has the runtime's word, which is wrong.
WRONG = {
    "instinct_mi210": {
        "registers_per_multiprocessor": 131072,
        "max_blocks_per_multiprocessor": None,
    },
    **{
        name: {"shared_bytes_per_multiprocessor": 2 * LDS}
        for name in (
            "radeon_rx_5700",
            "radeon_igpu_gfx1036",
            "radeon_rx_7900_xtx",
            "radeon_8060s",
            "radeon_ai_pro_r9700",
        )
    },
}
# What its comments say the runtime reports where the entry has the right figure.
REPORTED = {
    "radeon_pro_vii": {"registers_per_multiprocessor": 0, "registers_per_block": 0},
    "instinct_mi210": {
        "shared_bytes_per_multiprocessor": LDS * 104,
        "shared_bytes_per_block_optin": 0,
    },
    "radeon_rx_6900_xt": {"last_level_cache_bytes": 4194304},
    "radeon_igpu_gfx1036": {"last_level_cache_bytes": 4194304},
    "radeon_rx_7900_xtx": {"last_level_cache_bytes": 6291456},
    "radeon_rx_7800_xt": {"last_level_cache_bytes": 4194304},
    "radeon_8060s": {"last_level_cache_bytes": 2097152},
    "radeon_rx_9060_xt": {"last_level_cache_bytes": 4194304},
    "radeon_rx_9070_xt": {"last_level_cache_bytes": 8388608},
    "radeon_ai_pro_r9700": {"last_level_cache_bytes": 8388608},
}
OF_RUNTIME = (
    "multiprocessors",
    "wave_width",
    "max_threads_per_block",
    "max_threads_per_multiprocessor",
    "registers_per_multiprocessor",
    "shared_bytes_per_block",
    "shared_bytes_per_multiprocessor",
    "last_level_cache_bytes",
)
READ = (*OF_RUNTIME, "multiprocessor_unit", "max_registers_per_thread")
PARTS: dict[str, dict[str, Any]] = {
    name: part
    for name, part in tomllib.loads(DEVICES.read_text("utf-8"))["devices"].items()
    if part["architecture"].startswith("gfx")
}


def reported(name: str) -> dict[str, int | None]:
    """Return what the runtime says of a part."""
    part = PARTS[name]
    raw: dict[str, int | None] = {fact: part.get(fact) for fact in OF_RUNTIME}
    raw["registers_per_block"] = part["registers_per_multiprocessor"]
    if part["multiprocessor_unit"] == "wgp":
        raw["shared_bytes_per_multiprocessor"] = LDS
    return {"shared_bytes_per_block_optin": 0, **raw, **REPORTED.get(name, {})}


def test_the_parts_are_there() -> None:
    assert len(PARTS) >= 12


@pytest.mark.parametrize("name", sorted(PARTS))
def test_the_figures_of_a_part_are_right(name) -> None:
    part = PARTS[name]
    cache = part["last_level_cache_bytes"] if part["architecture"] != "gfx906" else None
    found = cleaned(reported(name), part["architecture"], cache)
    right = {fact: part[fact] for fact in READ if fact in part}
    right |= WRONG.get(name, {})
    assert {fact: found.get(fact) for fact in right} == right
    assert found["max_blocks_per_multiprocessor"] is None
    assert not found["shared_bytes_per_block_optin"]


@pytest.mark.parametrize("name", sorted(set(REPORTED) - {"radeon_pro_vii", "instinct_mi210"}))
def test_an_l2_that_is_not_the_last_level_is_no_fact(name) -> None:
    assert (
        cleaned(reported(name), PARTS[name]["architecture"], None)["last_level_cache_bytes"] is None
    )


def test_compute_units_that_are_counted_one_by_one_have_half_of_a_pair() -> None:
    raw = {**reported("radeon_rx_7900_xtx"), "multiprocessors": 96}
    raw["max_threads_per_multiprocessor"] = 1024
    found = cleaned(raw, "gfx1100", None)
    assert found["multiprocessor_unit"] == "cu"
    assert found["registers_per_multiprocessor"] == 98304
    assert found["shared_bytes_per_multiprocessor"] == LDS
    assert found["simds_per_multiprocessor"] == 2


def test_a_part_with_its_last_level_on_another_die() -> None:
    """MI300X: the runtime says 4 MiB, one die's L2, and local memory times compute units."""
    raw = {**reported("instinct_mi210"), "multiprocessors": 304, "last_level_cache_bytes": 4 << 20}
    raw["shared_bytes_per_multiprocessor"] = LDS * 304
    found = cleaned(raw, "gfx942", 256 << 20)
    assert found["last_level_cache_bytes"] == 256 << 20
    assert found["shared_bytes_per_multiprocessor"] == LDS
    assert found["registers_per_multiprocessor"] == 131072
    assert cleaned(raw, "gfx942", None)["last_level_cache_bytes"] is None


def test_more_shared_memory_than_a_block_may_have_is_left_as_it_is() -> None:
    raw = {**reported("instinct_mi210"), "shared_bytes_per_multiprocessor": 160 << 10}
    assert cleaned(raw, "gfx950", None)["shared_bytes_per_multiprocessor"] == 160 << 10


def test_of_an_unknown_processor_only_what_the_runtime_says_is_told() -> None:
    found = cleaned(reported("instinct_mi210"), "gfx1310", None)
    assert hardware_of("gfx1310") is None
    assert "register_allocation_unit" not in found
    assert found["registers_per_multiprocessor"] == 65536
    assert found["max_blocks_per_multiprocessor"] is None


@pytest.mark.parametrize(
    ("architecture", "unit", "most"),
    [
        ("gfx906", 256, 256),
        ("gfx90a", 512, 512),
        ("gfx942", 512, 512),
        ("gfx1010", 256, 256),
        ("gfx1030", 512, 256),
        ("gfx1100", 768, 256),
        ("gfx1102", 512, 256),
        ("gfx1151", 768, 256),
        ("gfx1201", 768, 256),
    ],
)
def test_registers_are_given_to_a_wave_by_so_many(architecture, unit, most) -> None:
    known = hardware_of(architecture)
    assert known is not None
    assert (known.register_unit, known.thread_registers) == (unit, most)


def test_code_without_a_feature_runs_with_either() -> None:
    assert runnable("gfx90a:sramecc+:xnack-") == (
        *("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+", "gfx90a:xnack-", "gfx90a"),
    )
    assert runnable("gfx1151") == ("gfx1151", "gfx11-generic")
    assert runnable("gfx942:sramecc+:xnack-")[-2:] == ("gfx942", "gfx9-4-generic")


@pytest.mark.parametrize(
    ("architecture", "target", "does"),
    [
        ("gfx1151", "gfx1151", True),
        ("gfx1151", "gfx11-generic", True),
        ("gfx90a", "gfx90a:sramecc+:xnack-", True),
        ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+", True),
        ("gfx1151", "gfx1100", False),
        ("sm_90", "gfx1100", False),
    ],
)
def test_an_architecture_runs_code_for_itself_and_for_its_generation(architecture, target, does):
    assert HipBackend().runs_code(architecture, target) is does
