"""The filter at bind: drops what a device cannot run, by rules over facts."""

from xpu.filter.shape_filter import ShapeFilter

__all__ = ["ShapeFilter"]
