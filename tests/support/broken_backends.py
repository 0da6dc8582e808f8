"""Backends that are each wrong in one way, and the tests of the kit that must find it.

They stand at the top level of a module: worker processes make them by name.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from typing import ClassVar

import attrs
import kit_kernels
import numpy as np

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import DeviceFacts, KernelFacts
from xpu.spec import Availability, Backend, CompiledCode, Device, DeviceArray
from xpu.testing import NullBackend
from xpu.testing.null_backend import NullCompiler
from xpu.testing.null_device import NullDevice, NullTimer

RIGHT = kit_kernels.run
FACTS = {"name": "a part", "uuid": "1", "driver_version": "1", "multiprocessors": 1}
_count = itertools.count()


class Base(NullBackend):
    """A right one: its halves are given as classes."""

    device_class = NullDevice
    compiler_class = NullCompiler
    function = staticmethod(RIGHT)
    facts: ClassVar[dict[str, object]] = FACTS

    def __init__(self):
        facts = DeviceFacts(backend="null", **self.facts)
        super().__init__(kit_kernels.DIALECT, type(self).function, facts=facts)

    def compiler(self):
        return self.compiler_class({"module": "kit_kernels", "name": "run", "file": ""})

    def open(self, index=0):
        super().open(index)
        return self.device_class(self._facts, self._function)


class AvailabilityRaises(Base):
    def availability(self):
        raise OSError("libpart.so: cannot open shared object file")


class AvailabilityNeedsAProgram(Base):
    def availability(self):
        if not os.environ["PATH"]:
            raise FileNotFoundError("part-smi")
        return Availability(True)


class UnavailableWithoutAReason(Base):
    def availability(self):
        return Availability(False)


class IsAbstract(Backend):
    name = "abstract"
    dialect = "python"

    def availability(self):
        return Availability(True)


class NeedsAnArgument(Base):
    def __init__(self, path):
        super().__init__()


def local():
    class Local(Base):
        pass

    return Local


Local = local()


class Random(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        results = super().compile(units, target, deadline_s=deadline_s)
        return [
            CompiledCode(it.code + b" " * next(_count), it.facts)
            if isinstance(it, CompiledCode)
            else it
            for it in results
        ]


class Refuses(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        return [XpuBuildError(f"{unit.kernel}: no such header") for unit in units]


class NothingCompiles(Base):
    compiler_class = Refuses


class TheCompilerRaises(Base):
    def compiler(self):
        raise OSError("part-cc: cannot be run")


class Boastful(NullCompiler):
    def knows(self, target):
        return True


class TheCompilerKnowsEverything(Base):
    compiler_class = Boastful


class CodeDiffersEachTime(Base):
    compiler_class = Random


class Raises(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        results = super().compile(units, target, deadline_s=deadline_s)
        for result in results:
            if isinstance(result, XpuBuildError):
                raise result
        return results


class AnErrorIsRaised(Base):
    compiler_class = Raises


class Swallows(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        plain = [attrs.evolve(unit, text=unit.text.replace("#error", "")) for unit in units]
        return super().compile(plain, target, deadline_s=deadline_s)


class AnErrorIsSwallowed(Base):
    compiler_class = Swallows


class Unnamed(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        results = super().compile(units, target, deadline_s=deadline_s)
        return [
            XpuBuildError("it failed") if isinstance(it, XpuBuildError) else it for it in results
        ]


class AnErrorNamesNothing(Base):
    compiler_class = Unnamed


class Reverses(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        return super().compile(units, target, deadline_s=deadline_s)[::-1]


class OrderIsLost(Base):
    compiler_class = Reverses


class Wanders(NullCompiler):
    def fingerprint(self, target):
        return str(next(_count))


class TheFingerprintWanders(Base):
    compiler_class = Wanders


class Zeros(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        results = super().compile(units, target, deadline_s=deadline_s)
        zero = KernelFacts(registers=0, stack_bytes=0)
        return [
            CompiledCode(it.code, zero) if isinstance(it, CompiledCode) else it for it in results
        ]


class ZeroForWhatWasNotRead(Base):
    compiler_class = Zeros


class TheCompilerAsksTheDevice(Base):
    def compiler(self):
        self.devices()
        return super().compiler()


class ZeroForAnAbsentFact(Base):
    further_facts = ("cache_bytes",)
    facts: ClassVar = {**FACTS, "further": {"cache_bytes": 0}}


class EmptyForAnAbsentFact(Base):
    facts: ClassVar = {**FACTS, "driver_version": ""}


class SentinelForAnAbsentFact(Base):
    facts: ClassVar = {**FACTS, "memory_bytes": 2**64 - 1}


class AFactIsUndeclared(Base):
    facts: ClassVar = {**FACTS, "further": {"bus_lanes": 16}}


class NoGeometry(Base):
    facts: ClassVar = {"name": "a part", "uuid": "1"}


class FactsDiffer(Base):
    def devices(self):
        return (DeviceFacts(backend="null", multiprocessors=2),)


class Half(Device):
    """A device that forgets most of what it is to do."""

    def synchronize(self):
        pass


class TheDeviceIsAbstract(Base):
    def open(self, index=0):
        return Half()


class AnyNumberIsADevice(Base):
    def open(self, index=0):
        return super().open(0)


class Unpoisoned(NullDevice):
    def allocate(self, nbytes, *, poisoned=False):
        return super().allocate(nbytes)


class MemoryIsNotPoisoned(Base):
    device_class = Unpoisoned


class Lends(NullDevice):
    def to_host(self, array):
        return array.owner if isinstance(array.owner, np.ndarray) else super().to_host(array)


class MemoryIsLent(Base):
    device_class = Lends


class Follows(NullDevice):
    def from_host(self, array):
        return DeviceArray(array.ctypes.data, array.shape, array.dtype.name, array)


class MemoryFollowsTheHost(Base):
    device_class = Follows


class TrimsAll(NullDevice):
    def from_host(self, array):
        self._last = super().from_host(array)
        return self._last

    def trim(self):
        self._last.owner[...] = 0


class TrimTakesWhatIsHeld(Base):
    device_class = TrimsAll


class Flattens(NullDevice):
    def from_host(self, array):
        return super().from_host(np.ascontiguousarray(array).reshape(-1))


class ShapesAreLost(Base):
    device_class = Flattens


class PoisonsAll(NullDevice):
    def poison(self, array):
        owner = array.owner.owner if isinstance(array.owner, DeviceArray) else None
        super().poison(array)
        if owner is not None:
            owner[...] = 0xFF


class PoisonSpreads(Base):
    device_class = PoisonsAll


class Copies(NullDevice):
    def import_array(self, value, *, writable):
        taken = super().import_array(value, writable=writable)
        return self.from_host(self.to_host(taken))


class ArraysAreCopied(Base):
    device_class = Copies


class Careless(NullDevice):
    def import_array(self, value, *, writable):
        array = value if isinstance(value, np.ndarray) else np.from_dlpack(value)
        return DeviceArray(array.ctypes.data, array.shape, array.dtype.name, (value, array))


class ArraysAreNotLookedAt(Base):
    device_class = Careless


class NumpyOnly(NullDevice):
    def import_array(self, value, *, writable):
        if not isinstance(value, np.ndarray):
            raise XpuLaunchException(f"a {type(value).__name__} is no numpy array")
        return super().import_array(value, writable=writable)


class DlpackIsRefused(Base):
    device_class = NumpyOnly


class AnyAddress(NullDevice):
    def import_array(self, value, *, writable):
        if isinstance(value, np.ndarray) and not value.flags.aligned:
            return DeviceArray(value.ctypes.data, value.shape, value.dtype.name, value)
        return super().import_array(value, writable=writable)


class MisalignedArraysAreTaken(Base):
    device_class = AnyAddress


class Terse(NullDevice):
    def import_array(self, value, *, writable):
        try:
            return super().import_array(value, writable=writable)
        except XpuLaunchException:
            raise XpuLaunchException("no") from None


class ARefusalSaysNothing(Base):
    device_class = Terse


class Anything(NullDevice):
    def load(self, code, entry):
        try:
            return super().load(code, entry)
        except Exception as error:
            raise RuntimeError(str(error)) from error


class LoadRaisesItsOwn(Base):
    device_class = Anything


def wrong(launch):
    RIGHT(launch)
    launch.buffers[-1][-1:] += 1


class TheLastNumberIsWrong(Base):
    function = staticmethod(wrong)


def wrong_when_large(launch):
    RIGHT(launch)
    if launch.buffers[-1].size > 4000:
        launch.buffers[-1][-1:] += 1


class LargeResultsAreWrong(Base):
    function = staticmethod(wrong_when_large)


def unwritten(launch):
    kept = launch.buffers[-1][-1:].copy()
    RIGHT(launch)
    launch.buffers[-1][-1:] = kept


class TheLastNumberIsNotWritten(Base):
    function = staticmethod(unwritten)


def swapped(launch):
    if "kit_table" in launch.kernel:
        first, second, last = launch.buffers
        launch = attrs.evolve(launch, buffers=(second, first, last))
    RIGHT(launch)


class BuffersAreSwapped(Base):
    function = staticmethod(swapped)


def scribbles(launch):
    RIGHT(launch)
    launch.buffers[0][...] = 0


class InputsAreWritten(Base):
    function = staticmethod(scribbles)


class Beyond(NullDevice):
    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        call = super().launcher(kernel, launch, buffers, sizes, stream)
        last = buffers[-1]

        def beyond():
            call()
            if isinstance(last.owner, DeviceArray):  # memory that is known to go on
                self.poison(DeviceArray(last.address + last.nbytes, (4,), "uint8", last))
                memory = last.owner.owner
                memory[last.address + last.nbytes - last.owner.address] = 0

        return beyond


class TooMuchIsWritten(Base):
    device_class = Beyond


class Once(NullDevice):
    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        call, made = super().launcher(kernel, launch, buffers, sizes, stream), []

        def once():
            if not made:
                made.append(call())

        return once


class ALaunchIsMadeOnce(Base):
    device_class = Once


class Keeps(NullDevice):
    """Clears no result before a launch."""

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        launch = attrs.evolve(launch, clears_result=False)
        return super().launcher(kernel, launch, buffers, sizes, stream)


class ResultsAreNotCleared(Base):
    device_class = Keeps


class Early(NullDevice):
    """Packs what the inputs hold, and not where they are."""

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        *inputs, last = buffers
        kept = [self.from_host(self.to_host(it)) for it in inputs]
        call = super().launcher(kernel, launch, [*kept, last], sizes, stream)
        call.kept = kept
        return call


class InputsAreCopiedOnce(Base):
    device_class = Early


class Shared(NullDevice):
    """Packs every launch into one place, as if there were one thread."""

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        call = super().launcher(kernel, launch, buffers, sizes, stream)

        def shared():
            self.call = call
            time.sleep(1e-3)
            self.call()

        return shared


class OneThreadOnly(Base):
    device_class = Shared


class Fast(NullTimer):
    def bracket_ns(self, launches):
        return super().bracket_ns(launches) / 10


class Constant(NullTimer):
    def bracket_ns(self, launches):
        super().bracket_ns(launches)
        return 5e6


class WithFastClock(NullDevice):
    def timer(self):
        return Fast(self._said)


class WithConstantClock(NullDevice):
    def timer(self):
        return Constant(self._said)


class TheClockIsFast(Base):
    device_class = WithFastClock


class TheClockStands(Base):
    device_class = WithConstantClock


class Percent(NullDevice):
    def foreign_load(self):
        return 37.0


class LoadIsInPercent(Base):
    device_class = Percent


class ClosesOnce(NullDevice):
    is_closed = False

    def close(self):
        assert not self.is_closed
        self.is_closed = True


class CloseRaises(Base):
    device_class = ClosesOnce


class Nobody(NullDevice):
    def identity(self):
        return {"device": ""}


class IdentityIsEmpty(Base):
    device_class = Nobody


class Each(NullDevice):
    def identity(self):
        return {"device": str(os.getpid())}


class IdentityOfTheProcess(Base):
    device_class = Each


def ends(launch):
    os._exit(3)


class AKernelEndsItsProcess(Base):
    function = staticmethod(ends)


def parent_only(launch):
    if "xpu.choice.worker_child" in sys.orig_argv:
        raise RuntimeError("no context in this process")
    RIGHT(launch)


class RunsInOneProcess(Base):
    function = staticmethod(parent_only)


REPEATED = "test_a_packed_launch_reads_what_its_memory_holds_each_time"
RUNS = "test_a_worker_process_runs_every_kernel_of_the_kit"
OPENS = "test_an_available_backend_opens_its_device"
MAKES = "test_its_class_is_found_by_name_and_called_without_arguments"
NUMPY = "test_a_numpy_array_that_cannot_be_used_is_refused_by_name"
DLPACK = "test_dlpack_is_taken_without_a_copy"
THREADS = "test_several_threads_may_launch"
NUMBERS = "test_the_numbers_are_right"
BATCH = "test_a_batch_keeps_its_order_and_an_error_its_place"
ABSENT = "test_a_fact_that_cannot_be_had_is_absent"
NO_COPY = "test_an_array_is_taken_without_a_copy"

# Backend, and the tests that find it.
FOUND = {
    AvailabilityRaises: {"test_availability_is_said_and_never_raised"},
    AvailabilityNeedsAProgram: {"test_availability_never_raises_in_a_bare_process"},
    UnavailableWithoutAReason: {"test_availability_is_said_and_never_raised"},
    IsAbstract: {MAKES},
    NeedsAnArgument: {MAKES},
    Local: {MAKES},
    NothingCompiles: {"test_every_kernel_of_the_kit_compiles"},
    TheCompilerRaises: {"test_the_compiler_says_what_a_build_rests_on"},
    TheCompilerKnowsEverything: {"test_its_compiler_knows_the_target_of_its_own"},
    CodeDiffersEachTime: {"test_the_same_input_gives_the_same_bytes"},
    AnErrorIsRaised: {BATCH, "test_an_unknown_target_is_an_error_in_its_place"},
    AnErrorIsSwallowed: {BATCH},
    AnErrorNamesNothing: {BATCH, "test_an_unknown_target_is_an_error_in_its_place"},
    OrderIsLost: {BATCH},
    TheFingerprintWanders: {
        "test_the_compiler_says_what_a_build_rests_on",
        "test_what_was_read_from_the_code_survives_the_cache",
    },
    ZeroForWhatWasNotRead: {"test_a_fact_of_the_code_is_read_or_absent"},
    TheCompilerAsksTheDevice: {"test_compiling_needs_no_device"},
    ZeroForAnAbsentFact: {ABSENT},
    EmptyForAnAbsentFact: {ABSENT},
    SentinelForAnAbsentFact: {ABSENT},
    AFactIsUndeclared: {ABSENT},
    NoGeometry: {"test_the_facts_name_a_geometry"},
    FactsDiffer: {"test_the_open_device_has_the_facts_that_were_listed"},
    TheDeviceIsAbstract: {OPENS},
    AnyNumberIsADevice: {"test_a_number_that_is_no_device_is_refused"},
    MemoryIsNotPoisoned: {"test_poisoned_memory_is_all_ones"},
    MemoryIsLent: {"test_a_copy_is_a_copy"},
    MemoryFollowsTheHost: {"test_a_copy_is_a_copy"},
    ShapesAreLost: {"test_an_array_comes_back_as_it_went"},
    TrimTakesWhatIsHeld: {"test_what_is_alive_outlives_a_trim"},
    PoisonSpreads: {"test_memory_within_an_allocation_can_be_copied_to_and_poisoned"},
    ArraysAreCopied: {NO_COPY, DLPACK},
    ArraysAreNotLookedAt: {
        "test_what_is_no_array_is_refused_by_name",
        "test_an_array_with_gaps_is_refused_by_name",
        NUMPY,
        "test_an_array_of_another_device_is_refused",
    },
    DlpackIsRefused: {DLPACK},
    MisalignedArraysAreTaken: {NUMPY},
    ARefusalSaysNothing: {
        "test_what_is_no_array_is_refused_by_name",
        "test_an_array_with_gaps_is_refused_by_name",
        NUMPY,
    },
    LoadRaisesItsOwn: {"test_code_that_is_none_is_refused"},
    TheLastNumberIsWrong: {RUNS},
    TheLastNumberIsNotWritten: {RUNS},
    BuffersAreSwapped: {RUNS},
    LargeResultsAreWrong: {NUMBERS, "test_memory_is_updated_in_place", THREADS},
    InputsAreWritten: {"test_nothing_but_the_result_is_written"},
    TooMuchIsWritten: {"test_nothing_but_the_result_is_written"},
    ALaunchIsMadeOnce: {REPEATED},
    InputsAreCopiedOnce: {REPEATED},
    ResultsAreNotCleared: {"test_a_result_is_cleared_before_each_launch_that_says_so"},
    AKernelEndsItsProcess: {RUNS},
    OneThreadOnly: {THREADS},
    TheClockIsFast: {"test_the_clock_agrees_with_the_hosts"},
    TheClockStands: {"test_more_launches_take_longer"},
    LoadIsInPercent: {"test_the_share_of_others_is_a_share_or_unknown"},
    CloseRaises: {"test_it_can_be_closed_twice_and_opened_again"},
    IdentityIsEmpty: {"test_the_identity_is_the_same_each_time"},
    IdentityOfTheProcess: {"test_another_process_has_the_same_identity"},
    RunsInOneProcess: {RUNS},
}
# Those whose whole suite is run: what fails there is all that fails, and the rest is skipped.
WHOLE = {
    "IsAbstract",
    "NeedsAnArgument",
    "NothingCompiles",
    "TheCompilerRaises",
    "TheDeviceIsAbstract",
    "AKernelEndsItsProcess",
    "TheLastNumberIsWrong",
    "RunsInOneProcess",
}
