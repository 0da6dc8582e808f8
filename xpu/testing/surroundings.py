"""Surroundings of a suite's own: no setting of the machine decides what its tests find."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, NoReturn

import pytest

from xpu.errors import XpuError

_CORE_VARIABLES: Final = frozenset(
    {"XPU_AUTOTUNE", "XPU_CONFIG_DIR", "XPU_PLUGINS", "XPU_STORE", "XPU_TRACEBACK"}
)


class Suite:
    """What every suite has.

    Attributes
    ----------
    environment
        Variables to be set while its tests run, here and in worker processes: what a backend
        that is made without arguments is to be told.
    """

    environment: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def xpu_surroundings(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[None]:
        """Keep the user's settings and answers out of the tests, and the tests' out of them."""
        place = tmp_path_factory.getbasetemp() / "xpu-testing"
        built = session_directory(request.config, tmp_path_factory) / "built"
        with own_surroundings(place, cls.environment, built):
            yield


def session_directory(config: pytest.Config, factory: pytest.TempPathFactory) -> Path:
    """Return the temporary directory of the session, which all its processes share."""
    place = factory.getbasetemp()
    # A worker of pytest-xdist has a directory in it. It is asked of the configuration, for the
    # environment says so to a run of pytest within a test, too.
    return place.parent if hasattr(config, "workerinput") else place


@contextmanager
def own_surroundings(
    place: Path, environment: Mapping[str, str], built: Path | None = None
) -> Iterator[None]:
    """Set the variables of a suite, and unset those with which a user steers the core.

    A backend's own variables stay: whoever runs the tests may want them. Built code is kept in
    `built` for the session, for compiling is most of what a test can cost.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _CORE_VARIABLES or name.startswith("XPU_SHAPE_"):
                patch.delenv(name)
        if not os.environ.get("XPU_BUILD_CACHE"):
            patch.setenv("XPU_BUILD_CACHE", str(built or place / "built"))
        patch.setenv("XDG_CONFIG_HOME", str(place / "config"))
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


def skip_for(fault: Exception | str, what: str, test: str) -> NoReturn:
    """Skip a test for a fault that another test is about: one fault is one failure."""
    is_strange = isinstance(fault, Exception) and not isinstance(fault, XpuError)
    told = f"{type(fault).__name__}: {fault}" if is_strange else str(fault)
    said = filter(None, (what, " ".join(told.split())))
    pytest.skip(f"{': '.join(said)}; see {test}")
