"""The backend ``opencl``."""

from __future__ import annotations

from collections.abc import Sequence

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Compiler, Device
from xpu_backend_opencl import driver
from xpu_backend_opencl.facts import FURTHER_FACTS, facts_of
from xpu_backend_opencl.sources import DIALECT


class OpenClBackend(Backend):
    """OpenCL devices of one kind."""

    name = "opencl"
    dialect = DIALECT
    further_facts = FURTHER_FACTS

    def availability(self) -> Availability:
        """Say whether there is a device, and what is missing."""
        return driver.availability()

    def compiler(self) -> Compiler:
        """Return the compiler half: the driver's, so it needs one.

        Raises
        ------
        XpuBuildError
            There is no driver.
        """
        from xpu_backend_opencl.compiler import OpenClCompiler

        try:
            return OpenClCompiler(driver.devices()[0])
        except XpuLaunchException as error:
            raise XpuBuildError(str(error)) from error

    def devices(self) -> Sequence[DeviceFacts]:
        """Return the facts of every device."""
        return tuple(facts_of(device) for device in driver.devices())

    def open(self, index: int = 0) -> Device:
        """Open a device by number.

        Raises
        ------
        XpuLaunchException
            There is no such device.
        """
        from xpu_backend_opencl.device import OpenClDevice

        found = driver.devices()
        if not 0 <= index < len(found):
            raise XpuLaunchException(
                f"backend 'opencl' has devices 0 to {len(found) - 1}; asked for {index}"
            )
        return OpenClDevice(found[index])
