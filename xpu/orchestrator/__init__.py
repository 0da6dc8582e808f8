"""The way into XPU for a program: filter, choice and compiled member behind one `bind`."""

from xpu.building.building import Building, chosen_families, write_bundle
from xpu.building.considering import considered, launch_parameters
from xpu.building.family_build import FamilyBuild
from xpu.building.startup import availability_of, pick_backend, settings_for
from xpu.building.targets import Target, targets_of
from xpu.orchestrator.bound import BoundKernel
from xpu.orchestrator.calibrator import Calibrator, Measurement
from xpu.orchestrator.events import Event
from xpu.orchestrator.op import Op
from xpu.orchestrator.orchestrator import Orchestrator
from xpu.orchestrator.policy import forced_member
from xpu.orchestrator.tuning import Answer, Tuning
from xpu.orchestrator.unseen import considered_by_facts
from xpu.orchestrator.weights import PreparedWeights

__all__ = [
    "Answer",
    "BoundKernel",
    "Building",
    "Calibrator",
    "Event",
    "FamilyBuild",
    "Measurement",
    "Op",
    "Orchestrator",
    "PreparedWeights",
    "Target",
    "Tuning",
    "availability_of",
    "chosen_families",
    "considered",
    "considered_by_facts",
    "forced_member",
    "launch_parameters",
    "pick_backend",
    "settings_for",
    "targets_of",
    "write_bundle",
]
