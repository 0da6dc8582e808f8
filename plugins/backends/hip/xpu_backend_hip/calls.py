"""The functions of ``libamdhip64`` that the device half calls, with their types: nothing else does.

They are called through ctypes, and not through the functions of hip-python: a packed launch takes a
fifth of the time, a result code that the bindings do not know is no exception, and two of the
functions have an argument that the bindings of 10.0 and before leave unset
(``hipThreadExchangeStreamCaptureMode``, ``hipGraphGetNodes``). Each call gives the result code,
then what the function returns through pointers. Source of the types: hip_runtime_api.h, HIP 6.0
to 7.2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_void_p
from typing import Any, Final

from xpu_backend_hip.errors import HipError

_FIX: Final = "install ROCm 6.0 or newer"


class _Out:
    """A value that the function writes; `is_text` for an array of characters with its length."""

    def __init__(self, type_: Any, *, is_text: bool = False) -> None:
        self.type = type_
        self.is_text = is_text


class _InOut(_Out):
    """A value that the function reads and writes."""


_TABLE: Final[dict[str, tuple[Any, ...]]] = {
    "hipInit": (c_uint,),
    "hipRuntimeGetVersion": (_Out(c_int),),
    "hipGetDeviceCount": (_Out(c_int),),
    "hipGetDevice": (_Out(c_int),),
    "hipSetDevice": (c_int,),
    "hipDeviceSynchronize": (),
    # Those of HIP 6 and newer: the layout that hip-python has since its release 6.0.
    "hipGetDevicePropertiesR0600": (c_void_p, c_int),
    "hipDeviceGetAttribute": (_Out(c_int), c_int, c_int),
    "hipDeviceGetUuid": (_Out(c_char * 16), c_int),
    "hipDeviceGetPCIBusId": (_Out(c_char * 64, is_text=True), c_int),
    "hipDeviceTotalMem": (_Out(c_size_t), c_int),
    "hipMalloc": (_Out(c_void_p), c_size_t),
    "hipFree": (c_void_p,),
    "hipMemcpyHtoD": (c_void_p, c_void_p, c_size_t),
    "hipMemcpyDtoH": (c_void_p, c_void_p, c_size_t),
    "hipMemcpyDtoDAsync": (c_void_p, c_void_p, c_size_t, c_void_p),
    "hipMemsetD8Async": (c_void_p, c_ubyte, c_size_t, c_void_p),
    "hipPointerGetAttribute": (_Out(c_int), c_int, c_void_p),
    "hipModuleLoadData": (_Out(c_void_p), c_char_p),
    "hipModuleUnload": (c_void_p,),
    "hipModuleGetFunction": (_Out(c_void_p), c_void_p, c_char_p),
    "hipFuncGetAttribute": (_Out(c_int), c_int, c_void_p),
    "hipModuleLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    "hipLaunchHostFunc": (c_void_p, c_void_p, c_void_p),
    "hipStreamCreateWithFlags": (_Out(c_void_p), c_uint),
    "hipStreamDestroy": (c_void_p,),
    "hipStreamSynchronize": (c_void_p,),
    "hipStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "hipThreadExchangeStreamCaptureMode": (_InOut(c_int),),
    "hipStreamIsCapturing": (c_void_p, _Out(c_int)),
    "hipStreamBeginCapture": (c_void_p, c_int),
    "hipStreamEndCapture": (c_void_p, _Out(c_void_p)),
    "hipGraphGetNodes": (c_void_p, c_void_p, _InOut(c_size_t)),
    "hipGraphInstantiateWithFlags": (_Out(c_void_p), c_void_p, ctypes.c_ulonglong),
    "hipGraphUpload": (c_void_p, c_void_p),
    "hipGraphLaunch": (c_void_p, c_void_p),
    "hipGraphDestroy": (c_void_p,),
    "hipGraphExecDestroy": (c_void_p,),
    "hipEventCreateWithFlags": (_Out(c_void_p), c_uint),
    "hipEventDestroy": (c_void_p,),
    "hipEventRecord": (c_void_p, c_void_p),
    "hipEventSynchronize": (c_void_p,),
    "hipEventElapsedTime": (_Out(c_float), c_void_p, c_void_p),
}


class Calls:
    """A loaded library. An attribute is a function of it; an address that is null comes as 0.

    Parameters
    ----------
    path
        The library.

    Attributes
    ----------
    launch, memset
        ``hipModuleLaunchKernel`` and ``hipMemsetD8Async`` bare: they take values that ctypes passes
        as they are, and give the code alone.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)
        # A function that is looked up anew has no types: they are given once, here.
        self.launch: Any = self._library["hipModuleLaunchKernel"]
        self.memset: Any = self._library["hipMemsetD8Async"]
        self._name: Any = self._library["hipGetErrorName"]
        self._text: Any = self._library["hipGetErrorString"]
        for function in (self._name, self._text):
            function.argtypes, function.restype = (c_int,), c_char_p

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        types = _TABLE.get(name)
        if types is None:
            raise AttributeError(f"{name} is no function that the device half calls")
        try:
            function = self._library[name]
        except AttributeError:
            message = f"HIP's runtime {self.path} has no {name}: it is too old; {_FIX}"
            raise HipError(message, "hipErrorNotSupported") from None
        made = _typed(function, types)
        setattr(self, name, made)  # the next time it is found without coming here
        return made

    def error_name(self, code: int) -> str:
        """Return the runtime's name of a result code."""
        name = self._name(code)
        # Codes that it does not know are all called hipErrorUnknown, which is the name of 999.
        told = name.decode() if name else ""
        return told if told and (told != "hipErrorUnknown" or code == 999) else f"hipError_{code}"

    def error_text(self, code: int) -> str:
        """Return the runtime's words for a result code."""
        text = self._text(code)
        return text.decode(errors="replace") if text else ""


def _typed(function: Any, types: tuple[Any, ...]) -> Callable[..., tuple[Any, ...]]:
    """Return a function that takes what is handed in and gives the code and what comes out."""
    function.argtypes = [
        word
        for one in types
        for word in (
            [c_void_p, *([c_int] if one.is_text else [])] if isinstance(one, _Out) else [one]
        )
    ]
    if not any(isinstance(one, _Out) for one in types):
        return lambda *given: (function(*given),)

    def call(*given: Any) -> tuple[Any, ...]:
        words, values, cells = list(given), [], []
        for one in types:
            if not isinstance(one, _Out):
                values.append(words.pop(0))
                continue
            cells.append(one.type(words.pop(0)) if isinstance(one, _InOut) else one.type())
            values.append(ctypes.addressof(cells[-1]))
            if one.is_text:
                values.append(ctypes.sizeof(one.type))
        if words:
            raise TypeError(f"{len(given)} arguments are too many")
        return (function(*values), *map(_value, cells))

    return call


def _value(cell: Any) -> Any:
    if isinstance(cell, ctypes.Array):
        return bytes(cell)
    return cell.value or 0
