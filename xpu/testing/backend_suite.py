"""The conformance suite of a backend."""

from __future__ import annotations

from xpu.testing.array_tests import ArrayTests
from xpu.testing.compiler_tests import CompilerTests
from xpu.testing.device_tests import DeviceTests
from xpu.testing.launch_tests import LaunchTests, TimerTests
from xpu.testing.service_tests import ServiceTests


class BackendSuite(CompilerTests, DeviceTests, ArrayTests, LaunchTests, TimerTests, ServiceTests):
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
        design=NAME)`` for the designs ``kit_table``, ``kit_in_place``, ``kit_matrix`` and
        ``kit_verbs``; without a name it is ``kit_table``'s. The kit has those in `c` and `simt`.
    target
        What to compile for on a machine without a device of the backend.
    environment
        Variables to be set while its tests run.
    """
