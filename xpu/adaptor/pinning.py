"""The block that a kernel is compiled for: the largest at any place that launches it.

Host code is scanned, and a member's own ``threads`` in the configuration is what the rules
take for its block. A declared occupancy bounds what depends on the problem, and speaks for
launches that were not found; nothing else does. One below a block that was found is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from xpu.adaptor.launch_sites import FoundSite
from xpu.errors import XpuBuildError, XpuConfigError
from xpu.expressions import constant
from xpu.model import Declarations, LaunchSite, Value


@attrs.frozen
class Pinned:
    """What the compiler is told, and where it comes from; see `xpu.model.Manifest`."""

    max_threads: int | None
    launch_sites: tuple[LaunchSite, ...]


def pinned_block(
    kernel: str,
    sites: Sequence[LaunchSite],
    declared: Declarations,
    parameters: Mapping[str, int],
    wave_width: int | None,
) -> Pinned:
    """Return the block of a kernel.

    Parameters
    ----------
    sites
        Where it is launched with a block; none of them in a dialect that has no blocks.
    parameters
        Of the member, for what is declared.
    wave_width
        Of the target, in lanes.

    Raises
    ------
    XpuBuildError
        A launch is known to be larger than the declared occupancy, or that is not constant.
    """
    if not sites:
        return Pinned(None, ())
    most = _most_threads(kernel, declared, parameters, wave_width)
    known = [site for site in sites if site.threads is not None]
    if most is not None:
        for site in known:
            if (site.threads or 0) > most:
                raise XpuBuildError(
                    f"{kernel}: a block of {site.threads} threads at {site.where} is larger than "
                    f"its declared occupancy of {most}; raise the occupancy, or make the block "
                    "smaller"
                )
    largest = max((site.threads or 0 for site in known), default=0)
    is_found = len(known) == len(sites)
    if most is not None and (not is_found or most > largest):
        # Whoever launches more than host code shows says so here: a larger launch is refused.
        return Pinned(most, (*sites, LaunchSite("declared occupancy", most)))
    return Pinned(largest if is_found else None, tuple(sites))


def sites_of(
    found: Sequence[FoundSite], member: str, parameters: Mapping[str, int], *, has_waves: bool
) -> tuple[LaunchSite, ...]:
    """Return the launches of a member that have a block.

    Where host code states none, that is the member's own ``threads`` on a target with waves; a
    host has no blocks.

    Parameters
    ----------
    member
        Key of the member in the configuration.
    """
    own = parameters.get("threads")
    sites = [
        LaunchSite(each.where, each.threads if each.has_block else own)
        for each in found
        if each.has_block or has_waves
    ]
    if sites and own is not None:
        # What the rules take for the block, whatever the code makes of it.
        sites.append(LaunchSite(f"{member}.threads", own))
    return tuple(sites)


def _most_threads(
    kernel: str, declared: Declarations, parameters: Mapping[str, int], wave_width: int | None
) -> int | None:
    if declared.max_threads is not None:
        return _constant(declared.max_threads, parameters, f"{kernel}: occupancy in threads")
    if declared.max_waves is None:
        return None
    waves = _constant(declared.max_waves, parameters, f"{kernel}: occupancy in waves")
    if wave_width is None:
        raise XpuBuildError(
            f"{kernel}: occupancy of {waves} waves: nobody says how wide a wave of the target is; "
            "declare @wave(width=…), or the occupancy in threads"
        )
    return waves * wave_width


def wave_of(
    kernel: str, declared: Declarations, parameters: Mapping[str, int], of_target: int | None
) -> int | None:
    """Return the width of a wave for which a kernel is compiled, in lanes; None: not known.

    Raises
    ------
    XpuBuildError
        The declared one is not the target's, or not constant.
    """
    if declared.wave is None:
        return of_target
    width = _constant(declared.wave, parameters, f"{kernel}: width of a wave")
    if of_target is not None and width != of_target:
        raise XpuBuildError(
            f"{kernel}: its indexing assumes waves of {width} lanes, as it declares, and the "
            f"target's have {of_target}; write it for xpu::wave_width lanes"
        )
    return width


def _constant(value: Value, parameters: Mapping[str, int], what: str) -> int:
    try:
        return constant(value, parameters)
    except XpuConfigError as error:
        raise XpuBuildError(f"{what}: {error}") from None
