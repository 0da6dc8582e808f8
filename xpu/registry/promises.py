"""What the methods of a plugin's objects promise to give, as far as the core would stumble on it.

A method that forgets its ``return`` would else fail far from where it stands, as a fault of
the core or of another plugin, or not at all: a ``verify`` that gives None condemns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from xpu.errors import XpuBuildError
from xpu.model import DeviceFacts
from xpu.registry.checks import shown
from xpu.spec.backend import Availability, Backend
from xpu.spec.compiler import CompiledCode, Compiler
from xpu.spec.design import Design, KernelSource, Launch, Preparation
from xpu.spec.device import Device, LoadedKernel, TimerTier
from xpu.spec.source import OpenModel, ProblemSource

Promise = Callable[[Any, tuple[Any, ...], Any], str]
"""From the object, what the method was given and what it gave: the empty text, or why not."""


def _a(wanted: type) -> Promise:
    text = f"it must be a {wanted.__name__}"
    return lambda _item, _given, value: "" if isinstance(value, wanted) else text


def _all_facts(_item: Backend, _given: tuple[Any, ...], value: Any) -> str:
    is_right = _is_a_row(value) and all(isinstance(each, DeviceFacts) for each in value)
    return "" if is_right else "it must be the DeviceFacts of every device"


def _yes_no_or_unknown(_item: Backend, _given: tuple[Any, ...], value: Any) -> str:
    return "" if value is None or isinstance(value, bool) else "it must be a bool or None"


def _one_for_each_unit(_item: Compiler, given: tuple[Any, ...], value: Any) -> str:
    wanted = len(given[0])
    made = value if _is_a_row(value) and len(value) == wanted else (None,)
    if all(isinstance(each, CompiledCode | XpuBuildError) for each in made):
        return ""
    return f"it must be {wanted} CompiledCode or XpuBuildError, one for each unit"


def _one_for_each_argument(design: Design, _given: tuple[Any, ...], value: Any) -> str:
    names = [argument.name for argument in design.arguments]
    shapes = value if isinstance(value, Mapping) else {}
    if all(_are_whole(shapes.get(name)) for name in names):
        return ""
    return f"it must be whole numbers for each of {', '.join(names)}"


def _texts(_item: object, _given: tuple[Any, ...], value: Any) -> str:
    is_right = _is_a_row(value) and all(isinstance(each, str) for each in value)
    return "" if is_right else "it must be a sequence of texts"


def _are_texts(_item: object, _given: tuple[Any, ...], value: Any) -> str:
    is_right = isinstance(value, Collection) and not isinstance(value, str)
    is_right = is_right and all(isinstance(each, str) for each in value)
    return "" if is_right else "it must be a collection of texts"


def _whole_numbers(_item: object, _given: tuple[Any, ...], value: Any) -> str:
    return "" if _are_whole(value) else "it must be whole numbers"


def _a_whole_number(_item: object, _given: tuple[Any, ...], value: Any) -> str:
    return "" if _is_whole(value) else "it must be a whole number"


def _preparations(_item: Design, _given: tuple[Any, ...], value: Any) -> str:
    is_right = _is_a_row(value) and all(isinstance(each, Preparation) for each in value)
    return "" if is_right else "it must be a sequence of Preparation, empty where nothing runs"


def _a_source(_item: object, given: tuple[Any, ...], value: Any) -> str:
    if not isinstance(value, KernelSource):
        return f"it must be a {KernelSource.__name__}"
    if given and value.dialect != given[0]:
        return f"it must be in dialect {given[0]!r}"
    includes = value.includes if isinstance(value.includes, Mapping) else {None: None}
    for text in (value.text, *includes, *includes.values()):
        if not isinstance(text, str) or not _is_utf8(text):
            return f"text and includes must be texts of UTF-8, not {shown(text)}"
    if value.launch is not None and not callable(value.launch):
        return f"launch must be a function or None, not {shown(value.launch)}"
    return ""


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_a_row(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _are_whole(value: Any) -> bool:
    return _is_a_row(value) and all(_is_whole(each) for each in value)


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


_PROMISES: Final[Mapping[str, tuple[tuple[type, Promise], ...]]] = {
    "availability": ((Backend, _a(Availability)),),
    "compiler": ((Backend, _a(Compiler)),),
    "devices": ((Backend, _all_facts),),
    "open": ((Backend, _a(Device)), (ProblemSource, _a(OpenModel))),
    "code_targets": ((Backend, _texts),),
    "runs_code": ((Backend, _yes_no_or_unknown),),
    "prebuilt": ((Backend, _a(Backend)),),
    "compile": ((Compiler, _one_for_each_unit),),
    "knows": ((Compiler, _a(bool)),),
    "targets": ((Compiler, _are_texts),),
    "carried_target": ((Compiler, _a(str)),),
    "runtime": ((Compiler, _a(Mapping)),),
    "library": ((Backend, _a(str)),),
    "routine": ((Device, _a(LoadedKernel)),),
    "facts": ((Device, _a(DeviceFacts)),),
    "timer": ((Device, _a(TimerTier)),),
    "source": ((Design, _a_source), (Preparation, _a_source)),
    "for_constants": ((Design, _a(Design)),),
    "shapes": ((Design, _one_for_each_argument),),
    "check_problem": ((Design, _a(str)),),
    "launch": ((Design, _a(Launch)), (KernelSource, _a(Launch)), (Preparation, _a(Launch))),
    "staging": ((Design, _preparations),),
    "data": ((Design, _a(Mapping)),),
    "verify": ((Design, _a(str)),),
    "bytes_touched": ((Design, _a_whole_number),),
    "operations": ((Design, _a_whole_number),),
    "sizes": ((Preparation, _whole_numbers),),
    "prepared_bytes": ((Preparation, _a_whole_number),),
}


def broken_promise(item: object, name: str, given: tuple[Any, ...], value: Any) -> str:
    """Say why what an object gave is not what its base class promises; empty when it is."""
    for kind, promise in _PROMISES.get(name, ()):
        if isinstance(item, kind):
            why = promise(item, given, value)
            return f"gave {shown(value)}; {why}" if why else ""
    return ""
