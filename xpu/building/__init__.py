"""Families built for targets, and the settings and members that this stands on.

Nothing here opens a device or chooses: ``xpu build`` needs no more than this, and the orchestrator
stands above it.
"""

from xpu.building.building import (
    Building,
    check_dialects,
    chosen_families,
    write_bundle,
)
from xpu.building.family_build import FamilyBuild
from xpu.building.startup import availability_of, pick_backend, settings_for
from xpu.building.targets import Target, targets_of

__all__ = [
    "Building",
    "FamilyBuild",
    "Target",
    "availability_of",
    "check_dialects",
    "chosen_families",
    "pick_backend",
    "settings_for",
    "targets_of",
    "write_bundle",
]
