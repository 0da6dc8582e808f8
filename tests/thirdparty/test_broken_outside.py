"""A distribution that is broken in every way there is, installed beside what works."""

from __future__ import annotations

import json
from typing import Any

import first_party
import pytest

pytestmark = pytest.mark.slow
BROKEN = {
    "bad_import": ("failed", "import", "libacme_driver"),
    "bad_exit": ("failed", "import", "SystemExit"),
    "bad_module": ("failed", "import", "is_not_there"),
    "bad_version": ("incompatible", "version", "XPU_SPEC_VERSION 999"),
    "bad_hook": ("failed", "xpu_designs", "the acme driver says no"),
    "bad_unmarked": ("failed", "register", "hookimpl"),
    "bad_unknown": ("failed", "register", "xpu_backend"),
    "bad_answer": ("failed", "xpu_backends", "returned 7"),
    "bad_item": ("failed", "xpu_kernel_sources", "not a KernelSource"),
    "bad_file": ("failed", "xpu_config", "families.toml"),
    "bad_twin": ("conflict", "backend", "'cpu'"),
    "bad_thief": ("conflict", "kernel source", "qmatvec"),
    "kquant": ("conflict", "entry point", "uninstall"),
}
# Whose place each of those takes that are in conflict.
TAKEN = {"bad_twin": "cpu", "bad_thief": "kquant", "kquant": "kquant"}


@pytest.fixture(scope="module")
def doctor(outside: Any) -> Any:
    return json.loads(outside.run("xpu", "doctor", "--json"))


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_named_with_stage_and_cause(doctor: Any, name: str) -> None:
    if name in TAKEN:
        first_party.plugin(TAKEN[name])
    (record,) = (
        each
        for each in doctor["plugins"]
        if (each["name"], each["distribution"]) == (name, "xpu-plugin-broken")
    )
    state, stage, cause = BROKEN[name]
    assert (record["state"], record["stage"]) == (state, stage)
    assert cause in record["cause"]
    assert "\n" not in record["cause"]


def test_no_way_of_being_broken_is_left_out(doctor: Any) -> None:
    ours = [each for each in doctor["plugins"] if each["distribution"] == "xpu-plugin-broken"]
    assert {each["name"] for each in ours} == set(BROKEN)


def test_the_others_work_on(outside: Any, doctor: Any) -> None:
    for name in ("cpu", "kquant"):
        first_party.plugin(name)
    others = [each for each in doctor["plugins"] if each["distribution"] != "xpu-plugin-broken"]
    assert {each["state"] for each in others} == {"loaded"}
    assert {"cpu", "kquant", "opencl"} <= {each["name"] for each in others}
    names = [backend["name"] for backend in doctor["backends"]]
    assert names.count("cpu") == 1
    assert "beside" not in names
    said = json.loads(
        outside.run("xpu", "explain", "q4k_matvec", "1x64x256", "--backend", "cpu", "--json")
    )
    assert said["survivors"]


def test_each_can_be_blocked_by_name(outside: Any) -> None:
    said = json.loads(outside.run("xpu", "doctor", "--json", XPU_PLUGINS="-bad_import"))
    states = {each["name"]: each["state"] for each in said["plugins"]}
    assert states["bad_import"] == "blocked"
