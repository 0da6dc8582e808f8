"""The driver: missing, refusing, and its errors by name."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from xpu.errors import XpuLaunchException
from xpu_backend_cuda import driver
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.errors import CudaError, explained


def test_seeing_the_device_half_imports_nothing_of_cudas() -> None:
    code = (
        "import sys; sys.modules['cuda'] = sys.modules['pynvml'] = None\n"
        "import xpu_backend_cuda.plugin, xpu_backend_cuda.device, xpu_backend_cuda.facts\n"
        "print(xpu_backend_cuda.driver.availability())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Availability(is_available="), done.stdout


def test_a_missing_driver_is_said_before_the_bindings_are_looked_for(monkeypatch) -> None:
    monkeypatch.setattr(driver, "_LIBRARY", "libcuda-that-is-not-here.so.1")
    monkeypatch.setattr(driver, "bindings", None)
    state = driver.availability()
    assert not state.is_available
    assert "libcuda-that-is-not-here.so.1" in state.reason
    assert "driver" in state.fix


def test_missing_bindings_are_said_with_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(driver, "_missing_driver", lambda: "")
    monkeypatch.setattr(driver, "BINDINGS", "cuda_that_is_not_here.driver")
    state = driver.availability()
    assert not state.is_available
    assert "cuda-bindings" in state.reason
    assert state.fix.startswith("pip install")


def test_no_device_is_said_by_name(fake, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    fake.fails["cuInit"] = 100
    state = driver.availability()
    assert not state.is_available
    assert "CUDA_ERROR_NO_DEVICE" in state.reason
    assert "CUDA_VISIBLE_DEVICES is '7'" in state.fix
    fake.fails.clear()
    fake.cuDeviceGetCount = lambda: 0
    assert "no device" in driver.availability().reason
    del fake.cuDeviceGetCount
    assert driver.availability().is_available
    fake.cuDriverGetVersion = lambda: 12080
    state = driver.availability()
    assert "CUDA 12.8; needed is 13.0" in state.reason
    assert "580" in state.fix


def test_bindings_that_raise_are_no_ones_end(fake, monkeypatch) -> None:
    def broken() -> None:
        raise RuntimeError("Function cuInit not found")

    monkeypatch.setattr(driver, "bindings", broken)
    state = driver.availability()
    assert not state.is_available
    assert "RuntimeError: Function cuInit not found" in state.reason


def test_an_error_says_what_it_was_and_what_state_it_leaves(fake) -> None:
    with pytest.raises(CudaError) as error:
        driver.checked((type(fake.cuInit(0)[0])(700),), "kernel 'k' cannot be launched")
    assert str(error.value).startswith(
        "kernel 'k' cannot be launched: CUDA_ERROR_ILLEGAL_ADDRESS (words of 700); "
    )
    assert "the context is lost: end this process" in str(error.value)
    assert error.value.is_sticky
    assert isinstance(error.value, XpuLaunchException)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.name, again.is_sticky) == (str(error.value), error.value.name, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CUDA_ERROR_OUT_OF_MEMORY", "nothing was launched; free memory"),
        ("CUDA_ERROR_INVALID_VALUE", "nothing was launched"),
        ("CUDA_ERROR_NOT_INITIALIZED", "spawn"),
        ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "captured"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", "the context is lost"),
        ("CUDA_ERROR_LAUNCH_FAILED", "the context is lost"),
    ],
)
def test_each_error_leaves_a_state(name, words) -> None:
    code = type("Code", (), {"name": name})()
    error = explained(code, "what")
    assert str(error).startswith(f"what: {name}; ")
    assert words in str(error)
    assert error.is_sticky == ("lost" in words)


def test_a_code_that_nobody_knows_has_its_number(fake) -> None:
    assert "CUDA_ERROR_4711" in str(explained(4711, "what"))


def test_a_context_is_left_as_it_was_found(fake) -> None:
    context = Context(1)
    fake.stack.append(0x7777)
    fake.threads.mode = "THREAD_LOCAL"
    with context.current():
        assert fake.stack == [0x7777, 0x1001]
        assert fake.threads.mode == "CU_STREAM_CAPTURE_MODE_RELAXED"
        with pytest.raises(KeyError), context.current():
            raise KeyError
        assert fake.stack == [0x7777, 0x1001]
    assert (fake.stack, fake.threads.mode) == ([0x7777], "THREAD_LOCAL")


def test_a_context_is_released_with_its_last_user(fake) -> None:
    first, second = Context(0), Context(0)
    assert fake.retained == [2, 0]
    del first
    assert fake.retained == [1, 0]
    del second
    assert fake.retained == [0, 0]


def test_a_device_that_there_is_not_is_refused_by_its_number(fake) -> None:
    for index in (-1, 2, 99):
        with pytest.raises(XpuLaunchException, match=f"2 devices.*{index}"):
            Context(index)
    assert fake.retained == [0, 0]


def test_a_finalizer_neither_raises_nor_acts_in_a_forked_child(fake, monkeypatch) -> None:
    context, done = Context(0), []
    context.quietly(done.append)
    assert done == [fake]
    context.quietly(lambda cu: cu.nothing_of_that_name)
    fake.fails["cuCtxPushCurrent"] = 201
    context.quietly(done.append)
    fake.fails.clear()
    monkeypatch.setattr("os.getpid", lambda: -1)
    context.quietly(done.append)
    assert done == [fake]
    del context
    assert fake.retained == [1, 0]
