import tomllib
from pathlib import Path

import pytest

from xpu.model import DeviceFacts, KernelFacts, Rule, ShapeCandidate

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "tests" / "vectors"
KERNEL_FACTS = ("registers", "spill_bytes", "static_shared_bytes", "pinned_block")


def read_toml(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def rules():
    return tuple(Rule(**entry) for entry in read_toml(ROOT / "config" / "rules.toml")["rules"])


@pytest.fixture(scope="session")
def ada():
    return DeviceFacts.from_mapping(read_toml(VECTORS / "feasibility.toml")["facts"]["ada"])


@pytest.fixture(scope="session")
def consider():
    def consider(shape_filter, name="t", **figures):
        kernel = {key: figures.pop(key) for key in KERNEL_FACTS if key in figures}
        return shape_filter.consider(ShapeCandidate(name, **figures), KernelFacts(**kernel))

    return consider
