"""Frozen classes that every other room shares. No I/O, no vendor, no policy."""

from xpu.model._facts import frozen_mapping
from xpu.model.calibration import FIGURES, Calibration, CalibrationKey
from xpu.model.candidate import ShapeCandidate
from xpu.model.declarations import LOWERING_GATES, Declarations, Gate, Unbounded, Unlowered, Value
from xpu.model.facts import (
    DEVICE_FACT_NAMES,
    KERNEL_FACT_NAMES,
    DeviceFacts,
    KernelFacts,
)
from xpu.model.family import BucketPolicy, Constant, Family, ProbePlan, Route, Rule
from xpu.model.manifest import MANIFEST_SCHEMA, BufferAccess, LaunchSite, Manifest, Operation
from xpu.model.matrix import MATRIX_SUMS, MatrixShape
from xpu.model.member import MEMBER_PARAMETERS, PREPARATION, Member
from xpu.model.names import nearest
from xpu.model.plugin import PluginRecord, PluginState
from xpu.model.problem import Problem
from xpu.model.result import CONTENDED_LOAD, ChoiceResult, MemberResult, Source, Status
from xpu.model.verdict import LAUNCH_RECORDS, Figure, Verdict, told_to_launch

__all__ = [
    "CONTENDED_LOAD",
    "DEVICE_FACT_NAMES",
    "FIGURES",
    "KERNEL_FACT_NAMES",
    "LAUNCH_RECORDS",
    "LOWERING_GATES",
    "MANIFEST_SCHEMA",
    "MATRIX_SUMS",
    "MEMBER_PARAMETERS",
    "PREPARATION",
    "BucketPolicy",
    "BufferAccess",
    "Calibration",
    "CalibrationKey",
    "ChoiceResult",
    "Constant",
    "Declarations",
    "DeviceFacts",
    "Family",
    "Figure",
    "Gate",
    "KernelFacts",
    "LaunchSite",
    "Manifest",
    "MatrixShape",
    "Member",
    "MemberResult",
    "Operation",
    "PluginRecord",
    "PluginState",
    "ProbePlan",
    "Problem",
    "Route",
    "Rule",
    "ShapeCandidate",
    "Source",
    "Status",
    "Unbounded",
    "Unlowered",
    "Value",
    "Verdict",
    "frozen_mapping",
    "nearest",
    "told_to_launch",
]
