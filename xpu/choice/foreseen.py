"""What a choice would answer, without asking anything of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xpu.choice.case import Case
from xpu.choice.rests_on import grounds_of, store_name
from xpu.model import ChoiceResult
from xpu.store import Autotune

if TYPE_CHECKING:
    from xpu.filter import ShapeFilter


def foreseen(
    f: ShapeFilter, store: Autotune | None, *, identity: Mapping[str, str], memory: str
) -> ChoiceResult | None:
    """Return what `ShapeChoice.choose` would answer untimed; None where it would time.

    An answer that rests on another build stays in the store: whoever tunes drops it.
    """
    if not f.survivors:
        return Case(f, (), memory, "", notes=[f.refusal()]).result("", "refused")
    grounds = grounds_of(f, identity, memory)
    case = Case(f, f.survivors, memory, store_name(f, memory), grounds)
    if len(case.survivors) == 1:
        return case.result(case.default, "only")
    entry = None if store is None else store.peek(case.name, case.build_id)
    if entry is None or entry.value not in case.names:
        return None
    return case.result(entry.value, "stored", is_stored=True)
