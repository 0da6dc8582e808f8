import random

import attrs
import pytest

from xpu.errors import XpuConfigError
from xpu.model import (
    DEVICE_FACT_NAMES,
    KERNEL_FACT_NAMES,
    DeviceFacts,
    KernelFacts,
    nearest,
)

SHAPE = "int8->int32:16x16x32"
COUNTS = [
    field.name
    for field in attrs.fields(DeviceFacts)
    if field.type == "int | None" and field.name != "reserved_shared_bytes_per_block"
]


def test_there_are_counts_to_check():
    assert len(COUNTS) >= 17


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("impossible", [0, -1])
def test_a_figure_that_is_impossible_is_absent(name, impossible):
    assert getattr(DeviceFacts(**{name: impossible}), name) is None
    figure = random.randint(1, 10**12)
    assert DeviceFacts(**{name: figure}).get(name) == figure


def test_nothing_reserved_is_a_figure():
    assert DeviceFacts(reserved_shared_bytes_per_block=0).reserved_shared_bytes_per_block == 0
    assert DeviceFacts().reserved_shared_bytes_per_block is None


@pytest.mark.parametrize("value", ["4", 4.0, True, [4]])
def test_a_fact_that_is_no_whole_number_is_refused(value):
    with pytest.raises(XpuConfigError, match="whole number"):
        DeviceFacts(multiprocessors=value)
    with pytest.raises(XpuConfigError, match="whole number"):
        KernelFacts(registers=value)
    with pytest.raises(XpuConfigError, match="'multiprocessors' is a whole number"):
        DeviceFacts.from_mapping({"multiprocessors": value})


def test_a_fact_below_nothing_is_refused():
    with pytest.raises(XpuConfigError, match="'wave_width' is -3; allowed: 0 or more"):
        DeviceFacts.from_mapping({"wave_width": -3})


def test_facts_cannot_be_changed():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        DeviceFacts().multiprocessors = 4
    further = {"clock": 5}
    facts = DeviceFacts(further=further)
    further["clock"] = 6
    assert facts.get("clock") == 5
    with pytest.raises(TypeError):
        facts.further["clock"] = 7


def test_from_mapping_takes_fields_and_declared_names_only():
    facts = DeviceFacts.from_mapping(
        {"multiprocessors": 4, "source": "a post", "l3_bytes": 9, "matrix_shapes": [SHAPE]},
        further=["l3_bytes"],
    )
    assert (facts.multiprocessors, facts.source, facts.get("l3_bytes")) == (4, "a post", 9)
    assert facts.matrix_shapes == (SHAPE,)
    assert facts.get("no_such_fact") is None
    with pytest.raises(XpuConfigError, match=r"here: .*'multiprocesors'.*mean 'multiprocessors'"):
        DeviceFacts.from_mapping({"multiprocesors": 4}, where="here")
    with pytest.raises(XpuConfigError, match="l3_bytes"):
        DeviceFacts.from_mapping({"l3_bytes": 9})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 4),
        ("backend", None),
        ("matrix_shapes", "16"),
        ("matrix_shapes", [1]),
        ("matrix_shapes", ["16x16x16"]),
    ],
)
def test_from_mapping_refuses_a_wrong_type_by_name(name, value):
    with pytest.raises(XpuConfigError, match=f"fact '{name}' is "):
        DeviceFacts.from_mapping({name: value})


def test_kernel_facts_tell_absent_from_zero():
    facts = KernelFacts(registers=0, spill_bytes=0, static_shared_bytes=0, pinned_block=0)
    assert (facts.registers, facts.pinned_block) == (None, None)
    assert (facts.spill_bytes, facts.static_shared_bytes) == (0, 0)
    assert KernelFacts().spill_bytes is None


def test_fact_names_are_those_that_rules_can_read():
    assert {"registers", "spill_bytes", "static_shared_bytes"} <= KERNEL_FACT_NAMES
    assert "code_hash" not in KERNEL_FACT_NAMES
    assert {"max_grid_x", "reserved_shared_bytes_per_block"} <= DEVICE_FACT_NAMES
    assert "further" not in DEVICE_FACT_NAMES


def test_nearest_names_the_likely_one_and_all_allowed():
    assert nearest("tile_x", ["tile_m", "threads"]).startswith("did you mean 'tile_m'? ")
    assert nearest("zzz", ["b", "a"]) == "allowed: a, b"
    assert nearest("zzz", []) == "allowed: nothing is declared"
