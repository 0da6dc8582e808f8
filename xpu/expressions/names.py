"""Which named facts an expression may read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model import nearest

LAUNCH_NAMES: Final = frozenset({"threads", "shared_bytes"})


def _allowed(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


@attrs.frozen
class Names:
    """The names allowed in each namespace; None allows any name there."""

    device: frozenset[str] | None = attrs.field(default=None, converter=_allowed)
    kernel: frozenset[str] | None = attrs.field(default=None, converter=_allowed)
    member: frozenset[str] | None = attrs.field(default=None, converter=_allowed)
    problem: frozenset[str] | None = attrs.field(default=None, converter=_allowed)
    launch: frozenset[str] | None = attrs.field(default=LAUNCH_NAMES, converter=_allowed)

    def check(self, dotted: str) -> None:
        """Accept a name such as ``device.multiprocessors``.

        Raises
        ------
        XpuConfigError
            There is no such name; the message gives the nearest one.
        """
        space, _, name = dotted.partition(".")
        if space not in NAMESPACES:
            raise XpuConfigError(
                f"{dotted!r} is in no namespace; {nearest(space, NAMESPACES)}, each with a "
                "name after a dot"
            )
        allowed = getattr(self, space)
        if allowed is None or name in allowed:
            return
        if not allowed:
            known = (
                f"{other}.{each}" for other in NAMESPACES for each in getattr(self, other) or ()
            )
            raise XpuConfigError(
                f"{dotted!r}: no fact of {space!r} is known here; {nearest(dotted, known)}"
            )
        hint = nearest(dotted, (f"{space}.{each}" for each in allowed))
        raise XpuConfigError(f"no fact is called {dotted!r}; {hint}")


NAMESPACES: Final = tuple(field.name for field in attrs.fields(Names))
