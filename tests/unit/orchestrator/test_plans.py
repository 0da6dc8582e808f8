"""Launches that are kept for sets of arrays: none outlives what tells that its arrays are dead."""

from __future__ import annotations

import numpy as np
import pytest

from xpu.orchestrator.plans import Plans


class Raced(Plans):
    """Another thread forgets a plan just before it is put in, the time that `race` says."""

    race = 0

    def __setitem__(self, key, plan):
        self.race -= 1
        if self.race == 0:
            self.forget(key)
        super().__setitem__(key, plan)


@pytest.mark.parametrize("race", [1, 2])
def test_what_another_thread_forgets_meanwhile_stays_forgotten(race):
    plans, launched = Raced(), []
    x, y = np.zeros(3), np.zeros(3)
    key = (id(x), id(y), None)
    plans.race = race
    plans.remember(key, (x, y), (), lambda: lambda: launched.append(key))
    if race == 2:
        plans[key][0]()  # which packs, and puts the packed launch in
        assert launched == [key]
    assert not plans
    assert not plans.arrays


def test_what_nobody_forgets_stays_until_an_array_dies():
    plans = Plans()
    x, y = np.zeros(3), np.zeros(3)
    key = (id(x), id(y), None)
    plans.remember(key, (x, y), (), lambda: lambda: None)
    plans[key][0]()
    assert set(plans) == set(plans.arrays) == {key}
    del x
    assert not plans
    assert not plans.arrays
