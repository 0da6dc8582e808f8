"""What a plugin sees of XPU: hooks, base classes and the probe context.

A plugin imports `xpu.model`, `xpu.spec` and `xpu.errors`, nothing else.
"""

from xpu.spec.accesses import PRIVATE, UNUSED, Step, buffer_accesses, derive_modes
from xpu.spec.backend import Availability, Backend
from xpu.spec.calibration import CalibrationDesign
from xpu.spec.compiler import CompiledCode, Compiler, KernelUnit
from xpu.spec.declarations import (
    fast_math,
    instantiate,
    occupancy,
    requires,
    unbounded,
    unlowered,
    wave,
)
from xpu.spec.design import Argument, Design, KernelSource, Launch, Preparation
from xpu.spec.device import Device, DeviceArray, LoadedKernel, TimerTier
from xpu.spec.elements import host_dtype, is_float
from xpu.spec.hooks import ENTRY_POINT_GROUP, PROJECT, hookimpl, hookspec
from xpu.spec.host_arrays import numpy_view
from xpu.spec.movable import MovableLaunch
from xpu.spec.places import build_cache_directory, expanded
from xpu.spec.prelude import simt_prelude
from xpu.spec.probe import Probe, ProbeContext
from xpu.spec.remembered import remembered
from xpu.spec.routines import GEMM_NT_BF16
from xpu.spec.source import ModelMatrix, OpenModel, ProblemSource
from xpu.spec.tiers import DEMOTED, NATIVE, SOFTWARE, in_tiers
from xpu.spec.version import SPEC_VERSION

__all__ = [
    "DEMOTED",
    "ENTRY_POINT_GROUP",
    "GEMM_NT_BF16",
    "NATIVE",
    "PRIVATE",
    "PROJECT",
    "SOFTWARE",
    "SPEC_VERSION",
    "UNUSED",
    "Argument",
    "Availability",
    "Backend",
    "CalibrationDesign",
    "CompiledCode",
    "Compiler",
    "Design",
    "Device",
    "DeviceArray",
    "KernelSource",
    "KernelUnit",
    "Launch",
    "LoadedKernel",
    "ModelMatrix",
    "MovableLaunch",
    "OpenModel",
    "Preparation",
    "Probe",
    "ProbeContext",
    "ProblemSource",
    "Step",
    "TimerTier",
    "buffer_accesses",
    "build_cache_directory",
    "derive_modes",
    "expanded",
    "fast_math",
    "hookimpl",
    "hookspec",
    "host_dtype",
    "in_tiers",
    "instantiate",
    "is_float",
    "numpy_view",
    "occupancy",
    "remembered",
    "requires",
    "simt_prelude",
    "unbounded",
    "unlowered",
    "wave",
]
