from __future__ import annotations

import logging

import pytest

from xpu.errors import XpuConfigError
from xpu.orchestrator import Event
from xpu.orchestrator.events import tell
from xpu.orchestrator.policy import forced_member, memory_mode, tuning_policy, warn_of_strangers


@pytest.mark.parametrize("asked", ["off", "stored", "first-use", "load"])
@pytest.mark.parametrize("flag", [{}, {"XPU_AUTOTUNE": "1"}, {"XPU_AUTOTUNE": "yes"}])
def test_what_the_program_says_wins(asked, flag):
    assert tuning_policy(asked, flag) == asked


@pytest.mark.parametrize(
    ("environ", "policy"),
    [
        ({}, "stored"),
        ({"XPU_AUTOTUNE": ""}, "stored"),
        ({"XPU_AUTOTUNE": "0"}, "stored"),
        ({"XPU_AUTOTUNE": "1"}, "first-use"),
    ],
)
def test_else_the_environment_else_nothing_is_timed(environ, policy):
    assert tuning_policy(None, environ) == policy


@pytest.mark.parametrize("flag", ["2", "true", " 1", "01"])
def test_another_value_of_the_variable_is_named(flag):
    with pytest.raises(XpuConfigError, match=f"XPU_AUTOTUNE='{flag}'"):
        tuning_policy(None, {"XPU_AUTOTUNE": flag})


def test_unknown_words_give_the_nearest():
    with pytest.raises(XpuConfigError, match="did you mean 'load'"):
        tuning_policy("laod", {})
    with pytest.raises(XpuConfigError, match="did you mean 'cold'"):
        memory_mode("clod")
    with pytest.raises(XpuConfigError, match="memory=None: allowed: cold, warm"):
        memory_mode(None)
    assert [memory_mode(mode) for mode in ("warm", "cold")] == ["warm", "cold"]
    assert (memory_mode(None, "cold"), memory_mode("warm", "cold")) == ("cold", "warm")


def test_a_member_is_forced_by_the_familys_name_in_capitals():
    assert forced_member("q4k_tile", {"XPU_SHAPE_Q4K_TILE": "a"}) == "a"
    assert forced_member("q4k_tile", {"XPU_SHAPE_Q4K_TILE": ""}) is None
    assert forced_member("q4k_tile", {"XPU_SHAPE_q4k_tile": "a"}) is None


def test_a_variable_that_names_no_family_is_told_of_once(caplog):
    environ = {
        "XPU_SHAPE_Q4K_TILE": "a",
        "XPU_SHAPE_Q4K_TLIE": "a",
        "XPU_SHAPE_q4k_tile": "a",
        "XPU_STORE": "",
    }
    for _ in range(2):
        warn_of_strangers(["q4k_tile", "other"], environ)
    said = sorted(record.getMessage() for record in caplog.records)
    assert [text.split()[0] for text in said] == ["XPU_SHAPE_Q4K_TLIE", "XPU_SHAPE_q4k_tile"]
    assert all("did you mean 'XPU_SHAPE_Q4K_TILE'" in text for text in said)


def test_a_listener_that_raises_is_logged_and_no_ones_error(caplog):
    event = Event("default", "f", "8", "a", "why")
    heard = []
    tell(None, event)
    tell(heard.append, event)
    with caplog.at_level(logging.ERROR, "xpu"):
        tell(lambda _event: 1 / 0, event)
    assert heard == [event]
    assert "ZeroDivisionError" in caplog.text
    with pytest.raises(KeyboardInterrupt):
        tell(_interrupt, event)


def _interrupt(_event):
    raise KeyboardInterrupt
