"""Which backend and which target of a bundle serve a device."""

from __future__ import annotations

from xpu.bundle.bundle import Bundle
from xpu.bundle.contents import Carried
from xpu.errors import XpuError, XpuLaunchException
from xpu.registry import Registry
from xpu.spec import Availability, Backend


def picked(
    bundle: Bundle, registry: Registry, name: str | None, device: int
) -> tuple[Backend, Carried]:
    """Return a backend that serves without a compiler, and what the bundle holds for its device.

    Parameters
    ----------
    name
        The backend; None: the first one of the bundle that is available and serves unnamed.

    Raises
    ------
    XpuConfigError
        No plugin brings the backend that is named.
    XpuLaunchException
        The bundle holds nothing for it or for its device, or it is not available.
    XpuBuildError
        A file that the backend needs is damaged.
    """
    reasons = []
    names = registry.backends if name is None else [name]
    for backend in map(registry.backend, names):
        if name is None and backend.is_by_name_only:
            continue
        held = [each for each in bundle.targets if each.backend == backend.name]
        if not held:
            reasons.append(f"{backend.name}: the bundle holds nothing for it")
            continue
        state = _availability(backend.prebuilt(bundle.runtime(held[0])))
        if state.is_available:
            return _for_device(bundle, backend, held, device)
        reasons.append("; ".join(filter(None, (f"{backend.name}: {state.reason}", state.fix))))
    raise XpuLaunchException(
        f"bundle {bundle.directory} serves no device here: it holds {bundle.held}; "
        + "; ".join(reasons)
    )


def _for_device(
    bundle: Bundle, backend: Backend, held: list[Carried], device: int
) -> tuple[Backend, Carried]:
    runs = backend.code_targets(device)
    by_name = {each.carried: each for each in held}
    best = next((by_name[target] for target in runs if target in by_name), None)
    if best is None:
        raise XpuLaunchException(
            f"bundle {bundle.directory} holds no code for {backend.name} device {device}, which "
            f"runs {', '.join(runs) or 'nothing'}; it holds {bundle.held}; build it here: "
            f"xpu build --backend {backend.name} --out DIR, or elsewhere with --target"
        )
    return backend.prebuilt(bundle.runtime(best)), best


def _availability(backend: Backend) -> Availability:
    try:
        return backend.availability()
    except XpuError as error:
        return Availability(False, str(error))
