"""The null backend against the kit, with a function that stands for the kernels."""

from __future__ import annotations

import kit_kernels

from xpu.testing import BackendSuite


class TestNull(BackendSuite):
    backend = kit_kernels.PythonBackend
    kernels = kit_kernels.SOURCES
