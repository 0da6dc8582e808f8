"""Surroundings of a run's own, for the core's tests and the plugins': two conftests name them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from xpu.testing.surroundings import session_directory

# How long an example takes, or the making of one, says how busy the machine is and nothing else.
settings.register_profile(
    "busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Keep the user's settings, answers and overrides out of the tests, and the tests' out of them.

    Built code is kept for the whole session, and shared by its processes: compiling is most of
    what a test can cost.
    """
    home = tmp_path_factory.mktemp("surroundings")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("XPU_")]:
            patch.delenv(name)
        patch.setenv("XPU_STORE", "")  # a test that wants a store names one
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(home / name.lower()))
        built = session_directory(pytestconfig, tmp_path_factory) / "built"
        patch.setenv("XPU_BUILD_CACHE", str(built))
        yield
