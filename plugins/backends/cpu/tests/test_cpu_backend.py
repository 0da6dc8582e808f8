from __future__ import annotations

import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import SPEC_VERSION, Launch, LoadedKernel
from xpu_backend_cpu import plugin
from xpu_backend_cpu.backend import CpuBackend


def test_the_door_leads_to_one_backend():
    (backend,) = plugin.xpu_backends()
    assert (backend.name, backend.dialect) == ("cpu", "c")
    assert plugin.XPU_SPEC_VERSION == SPEC_VERSION
    assert backend.compiler().native_target() == "native"


def test_this_machine_can_be_used():
    answer = CpuBackend().availability()
    assert answer.is_available, answer.reason


def test_there_is_one_device():
    with pytest.raises(XpuLaunchException, match="asked for 1"):
        CpuBackend().open(1)


def test_a_kernel_of_another_backend_is_refused(open_device):
    class Stranger(LoadedKernel):
        entry = "stranger"

    with pytest.raises(XpuLaunchException, match="stranger"):
        open_device(1).launcher(Stranger(), Launch(), [], [])


def test_a_closed_device_may_be_closed_again(open_device):
    device = open_device(1)
    device.synchronize()
    device.close()
    device.close()
