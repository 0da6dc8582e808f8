"""The conformance suite of a backend."""

from __future__ import annotations

from xpu.testing.array_tests import ArrayTests
from xpu.testing.compiler_tests import CompilerTests
from xpu.testing.device_tests import DeviceTests
from xpu.testing.launch_tests import LaunchTests, TimerTests
from xpu.testing.routine_tests import RoutineTests
from xpu.testing.service_tests import ServiceTests


class BackendSuite(
    CompilerTests,
    DeviceTests,
    ArrayTests,
    LaunchTests,
    RoutineTests,
    TimerTests,
    ServiceTests,
):
    """Everything that the core expects of a backend.

    Used in one line: ``class TestMine(BackendSuite): backend = MyBackend``. What the backend
    cannot do here is a skipped test that says why: no compiler, no device, no kernel in its
    dialect, no arrays of the host.

    Attributes
    ----------
    backend
        The backend's class.
    kernels
        The kit's kernels in the backend's own dialect, as ``KernelSource(dialect, text,
        design=NAME)``: ``kit_table`` (which it is without a name), ``kit_in_place``, and of
        ``kit_matrix``, ``kit_lines``, ``kit_verbs``, ``kit_phases`` and ``kit_isa`` those that
        the dialect has the means for. The kit has its kernels in `c` and `simt`.
    target
        What to compile for on a machine without a device of the backend.
    environment
        Variables to be set while its tests run.
    """
