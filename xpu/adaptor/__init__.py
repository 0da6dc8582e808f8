"""The compile step: a family's members become code objects with manifests.

It asks a backend's compiler half to compile, keeps what comes out by content, and never
touches a device. The orchestrator and ``xpu build`` call it.
"""

from xpu.adaptor.adaptor import Adaptor
from xpu.adaptor.batch import BatchAdaptor
from xpu.adaptor.built import Built, Called
from xpu.adaptor.cache import LISTING, BuildCache
from xpu.adaptor.manifest_file import manifest_from_toml, manifest_to_toml

__all__ = [
    "LISTING",
    "Adaptor",
    "BatchAdaptor",
    "BuildCache",
    "Built",
    "Called",
    "manifest_from_toml",
    "manifest_to_toml",
]
