"""The functions that are called, against the signatures that hip-python gives of them."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest

from xpu_backend_hip import calls, driver

SIGNATURE = re.compile(r"hipError_t (\w+)\((.*?)\)\s*$", re.DOTALL)
WORDS = {
    "int": ctypes.c_int,
    "hipDevice_t": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "unsigned char": ctypes.c_ubyte,
    "size_t": ctypes.c_size_t,
    "unsigned long long": ctypes.c_ulonglong,
}
ADDRESSES = {
    *("hipStream_t", "hipEvent_t", "hipModule_t", "hipFunction_t", "hipGraph_t"),
    *("hipGraphExec_t", "hipDeviceptr_t", "hipHostFn_t"),
}


@pytest.fixture(scope="module")
def hip() -> Any:
    try:
        return driver.bindings()
    except ImportError as error:
        pytest.skip(str(error))


def kind(word: str) -> Any:
    """Return the ctypes type of a parameter as C writes it, with its name."""
    words = word.removeprefix("const ").split()
    if "*" in word or words[0] in ADDRESSES:
        return ctypes.c_void_p
    return WORDS.get(" ".join(words[:-1]), ctypes.c_int)  # the rest are enumerations


@pytest.mark.parametrize("name", sorted(calls._TABLE))
def test_a_function_is_called_with_the_types_of_its_signature(hip, name) -> None:
    # What was there before release 6 is called by a name of its own; a macro gives it the new one.
    documented = getattr(hip, name.removesuffix("R0600")).__doc__
    match = SIGNATURE.search(documented)
    if match is None and "C signature" not in documented:
        pytest.skip("the documentation of this release of hip-python has no signatures")
    assert match is not None, documented[-300:]
    words = [word.strip() for word in match[2].split(",") if word.strip()]

    class Function:
        argtypes: Any = None

    function = Function()
    calls._typed(function, calls._TABLE[name])
    given = [
        ctypes.c_void_p if one is ctypes.c_char_p else one  # bytes, as an address
        for one in function.argtypes
    ]
    assert given == [kind(word) for word in words], match[0]
    for one, word in zip(calls._TABLE[name], words, strict=False):
        if isinstance(one, calls._Out):
            assert "*" in word


def test_the_constants_are_there_by_name(hip) -> None:
    from xpu_backend_hip import facts

    for attribute in facts._ATTRIBUTES.values():
        assert f"hipDeviceAttribute{attribute}" in hip.hipDeviceAttribute_t.__members__
    for name in ("MAX_THREADS_PER_BLOCK", "NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES"):
        assert f"HIP_FUNC_ATTRIBUTE_{name}" in hip.hipFunction_attribute.__members__
    assert {
        int(hip.hipMemoryType[name]) for name in ("hipMemoryTypeDevice", "hipMemoryTypeManaged")
    }
    assert int(hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed) == 2
    assert int(hip.hipStreamCaptureStatus.hipStreamCaptureStatusNone) == 0


def test_numbers_of_errors_and_memory_types_are_the_runtimes(hip) -> None:
    from xpu_backend_hip import arrays, device

    kinds = hip.hipMemoryType
    assert {int(kinds.hipMemoryTypeDevice), int(kinds.hipMemoryTypeManaged)} == arrays._OF_DEVICE
    assert int(hip.hipError_t.hipErrorStreamCaptureImplicit) == device._CAPTURE_IMPLICIT


def test_every_error_that_is_explained_exists(hip) -> None:
    from xpu_backend_hip import errors

    known = set(hip.hipError_t.__members__)
    assert known >= errors._STICKY
    assert set(errors._ADVICE) - known <= {"hipErrorInvalidResourceHandle"}, "an older name"
