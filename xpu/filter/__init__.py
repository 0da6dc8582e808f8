"""The filter at bind: drops what a device cannot run, by rules over facts."""

from xpu.filter.occupancy import RESIDENT_GROUPS, Occupancy, occupancy
from xpu.filter.shape_filter import ShapeFilter

__all__ = ["RESIDENT_GROUPS", "Occupancy", "ShapeFilter", "occupancy"]
