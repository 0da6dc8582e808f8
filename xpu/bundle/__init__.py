"""Bundles: what `xpu build --out` leaves in a directory, from which kernels bind uncompiled.

A bundle holds code objects, their manifests, the configuration they were built by and what
backends load beside kernels, for one or several targets. The orchestrator and the command line
write and read it. The plugins' host code is not in it: designs, launches and references come
from the plugins that are installed where it is used.
"""

from xpu.bundle.adaptor import BundleAdaptor
from xpu.bundle.bundle import Bundle
from xpu.bundle.contents import BUNDLE_SCHEMA, Carried, Kernel
from xpu.bundle.pick import picked
from xpu.bundle.writer import BundleWriter

__all__ = [
    "BUNDLE_SCHEMA",
    "Bundle",
    "BundleAdaptor",
    "BundleWriter",
    "Carried",
    "Kernel",
    "picked",
]
