"""Plugins found: what is installed, what it brings, and what became of it.

Each plugin is imported and called on its own, so that a broken one is a record beside
working ones. The orchestrator and the command line ask here; nothing here reads TOML,
and nothing here asks a backend for a device.
"""

from xpu.registry.discover import default_registry, load_plugins
from xpu.registry.guard import Owner, bare, blaming, fault_of, guarded, owner_of
from xpu.registry.made_of import is_edited, made_of
from xpu.registry.read_by import read_by
from xpu.registry.registry import Registry
from xpu.registry.serving import (
    arithmetic_of,
    routes_in,
    speaks,
    staging_of,
    turned_away,
    why_not,
)

__all__ = [
    "Owner",
    "Registry",
    "arithmetic_of",
    "bare",
    "blaming",
    "default_registry",
    "fault_of",
    "guarded",
    "is_edited",
    "load_plugins",
    "made_of",
    "owner_of",
    "read_by",
    "routes_in",
    "speaks",
    "staging_of",
    "turned_away",
    "why_not",
]
