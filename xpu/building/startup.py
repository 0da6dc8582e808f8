"""What an orchestrator and the command line do first: settings and a backend."""

from __future__ import annotations

from pathlib import Path

from xpu.errors import XpuConfigError, XpuLaunchException
from xpu.registry import Registry
from xpu.settings import Settings, Vocabulary, load_settings
from xpu.spec import Availability, Backend


def settings_for(
    registry: Registry, config: str | Path | None = None, *, resolved: Path | None = None
) -> Settings:
    """Load and validate all configuration against what the plugins declare.

    `resolved` is a bundle's configuration, which stands in the place of all layers but `config`.

    Raises
    ------
    XpuConfigError
        A file is not acceptable; the message says where and what is.
    """
    vocabulary = Vocabulary(
        registry.designs, registry.device_facts, registry.dialects, registry.missing
    )
    return load_settings(
        config=config,
        plugin_files=registry.config_files,
        vocabulary=vocabulary,
        resolved=resolved,
    )


def pick_backend(registry: Registry, name: str | None) -> Backend:
    """Return a backend by name, or the first available one that serves unnamed.

    Raises
    ------
    XpuConfigError
        No plugin brings a backend of that name.
    XpuLaunchException
        It is not available, or none is.
    """
    if name is not None:
        backend = registry.backend(name)
        state = availability_of(backend)
        if not state.is_available:
            raise XpuLaunchException(f"backend {name!r}: {_why(state)}")
        return backend
    reasons = []
    for backend in map(registry.backend, registry.backends):
        if backend.is_by_name_only:
            continue
        state = availability_of(backend)
        if state.is_available:
            return backend
        reasons.append(f"{backend.name}: {_why(state)}")
    if not reasons:
        raise XpuConfigError("no backend that serves unnamed is installed; see: xpu doctor")
    raise XpuLaunchException("no backend is available. " + " ".join(reasons))


def availability_of(backend: Backend) -> Availability:
    """Ask a backend whether it can be used here; one that raises cannot, and is no one's end."""
    try:
        return backend.availability()
    except Exception as error:
        return Availability(False, str(error))


def _why(state: Availability) -> str:
    return "; ".join(text for text in (state.reason, state.fix) if text)
