"""Written for a spec of another time."""

XPU_SPEC_VERSION = 999
