"""The conformance kit: what a plugin's own tests use to hold it to what the core expects.

A test module of a plugin names what it brings, in one line::

    class TestMine(BackendSuite):
        backend = MyBackend

Suites are for backends, families and probes. Beside them stand `NullBackend`, for tests of
whatever is above backends, and `registry_of`, which makes a registry of what is at hand;
`shipped_units` gives a compiler's test every kernel there is in its dialect. The kit
needs pytest, which is imported nowhere else.
"""

try:
    import pytest
except ModuleNotFoundError as error:  # pragma: no cover - pytest runs these tests
    error.add_note("xpu.testing needs pytest: pip install pytest")
    raise

# Before they are imported: else a plugin's author sees a bare AssertionError.
pytest.register_assert_rewrite(
    *(
        f"xpu.testing.{module}"
        for module in (
            "array_tests",
            "compiler_tests",
            "device_tests",
            "family_suite",
            "launch_tests",
            "member_runner",
            "member_tests",
            "probe_suite",
            "service_tests",
            "workbench",
        )
    )
)

from xpu.testing.backend_suite import BackendSuite  # noqa: E402 - after the rewriting is asked for
from xpu.testing.family_suite import FamilySuite  # noqa: E402 - after the rewriting
from xpu.testing.null_backend import NullBackend  # noqa: E402 - after the rewriting
from xpu.testing.null_device import NullLaunch  # noqa: E402 - after the rewriting
from xpu.testing.plugins import registry_of  # noqa: E402 - after the rewriting
from xpu.testing.probe_context import RecordingContext  # noqa: E402 - after the rewriting
from xpu.testing.probe_suite import ProbeSuite  # noqa: E402 - after the rewriting
from xpu.testing.shipped import shipped_units  # noqa: E402 - after the rewriting

__all__ = [
    "BackendSuite",
    "FamilySuite",
    "NullBackend",
    "NullLaunch",
    "ProbeSuite",
    "RecordingContext",
    "registry_of",
    "shipped_units",
]
