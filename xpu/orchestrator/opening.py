"""What an orchestrator stands on: settings, an open device, and a compile step or a bundle."""

from __future__ import annotations

from pathlib import Path

import attrs

from xpu.adaptor import Adaptor, BuildCache
from xpu.building.startup import pick_backend, settings_for
from xpu.bundle import Bundle, BundleAdaptor, picked
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Backend, Device


@attrs.frozen(eq=False)
class Opened:
    """Settings, a backend with one of its devices, and its compile step."""

    settings: Settings
    backend: Backend
    device: Device
    adaptor: Adaptor


def opened(
    registry: Registry,
    backend: str | None,
    device: int,
    config: str | Path | None,
    bundle: str | Path | None,
    build_cache: str | Path | None,
) -> Opened:
    """Read the configuration and open a device, with a compiler or from a bundle.

    With a bundle the configuration is the bundle's own, under `config`, and nothing asks for
    a compiler.

    Raises
    ------
    XpuConfigError
        The configuration is not acceptable, or there is no bundle at that place.
    XpuLaunchException
        The backend is not available, or the bundle holds nothing for its device.
    XpuBuildError
        The bundle is damaged.
    """
    cache = BuildCache(build_cache)
    if bundle is None:
        settings = settings_for(registry, config)
        chosen = pick_backend(registry, backend)
        opened_device = chosen.open(device)
        return Opened(settings, chosen, opened_device, Adaptor(chosen, registry, cache))
    carrier = Bundle(bundle)
    settings = settings_for(registry, config, resolved=carrier.config)
    chosen, carried = picked(carrier, registry, backend, device)
    adaptor = BundleAdaptor(chosen, registry, cache, carrier, carried)
    return Opened(settings, chosen, chosen.open(device), adaptor)
