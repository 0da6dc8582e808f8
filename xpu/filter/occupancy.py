"""How many blocks of a kernel a multiprocessor holds, what limits that, and which blocks fit.

There is no formula here: the rule that records ``resident_groups`` has it, and the blocks that
fit are those that no rule prunes. `xpu manifest` and the tables in the documentation ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from xpu.expressions import Expression
from xpu.filter.rule_set import SURVIVES, bind_rules
from xpu.model import DeviceFacts, Figure, KernelFacts, Rule

RESIDENT_GROUPS: Final = "resident_groups"
_DEVICE: Final = "device."


@attrs.frozen
class Occupancy:
    """What a device's facts say of a kernel.

    Attributes
    ----------
    resident_groups
        Blocks of the launched size that a multiprocessor holds at once; absent without facts.
    limiters
        The facts of the device that allow no more; several where they allow the same.
    feasible_blocks
        Threads of the blocks that no rule prunes, whole waves up to the largest that the code
        takes: those with the most threads resident first, of equals the larger. Empty where the
        largest, or the lanes of a wave, are not known.
    pruned
        The rule that prunes the launched size, with its figures; empty when none does.
    """

    resident_groups: Figure = None
    limiters: tuple[str, ...] = ()
    feasible_blocks: tuple[int, ...] = ()
    pruned: str = ""


def occupancy(
    rules: tuple[Rule, ...],
    facts: DeviceFacts,
    kernel: KernelFacts,
    parameters: Mapping[str, int],
) -> Occupancy:
    """Return what the rules say of a kernel on a device, whatever the problem.

    Parameters
    ----------
    parameters
        Of the member, with ``threads`` and ``dynamic_shared_bytes`` as it is launched; without
        the former the block that its code is bound to stands for it.
    """
    judge = bind_rules(rules, facts.get, _NO_SIZES.get)
    index, need, limit, records = judge(parameters.get, kernel)
    resident = records.get(RESIDENT_GROUPS)
    pruned = ""
    if index != SURVIVES:
        rule = rules[index]
        pruned = f"{rule.id} ({rule.title}): needs {need}, limit {limit}"
    blocks = _blocks(facts, kernel, parameters)

    def fit(threads: int) -> tuple[int, Figure]:
        found = judge({**parameters, "threads": threads}.get, kernel)
        return found[0], found[3].get(RESIDENT_GROUPS)

    limiters = () if resident is None else _limiters(rules, facts, kernel, parameters, resident)
    return Occupancy(resident, limiters, _feasible(blocks, fit), pruned)


_NO_SIZES: Final[Mapping[str, Any]] = {}


def _feasible(blocks: Iterable[int], fit: Callable[[int], tuple[int, Figure]]) -> tuple[int, ...]:
    fitting = {threads: fit(threads) for threads in blocks}
    kept = [threads for threads, (index, _) in fitting.items() if index == SURVIVES]
    return tuple(
        sorted(kept, key=lambda threads: ((fitting[threads][1] or 0) * threads, threads))[::-1]
    )


def _blocks(
    facts: DeviceFacts, kernel: KernelFacts, parameters: Mapping[str, int]
) -> Iterable[int]:
    largest = kernel.pinned_block or parameters.get("threads") or 0
    if facts.max_threads_per_block is not None:
        largest = min(largest, facts.max_threads_per_block)
    wave = facts.wave_width
    return range(wave, largest + 1, wave) if wave else ()


def _limiters(
    rules: tuple[Rule, ...],
    facts: DeviceFacts,
    kernel: KernelFacts,
    parameters: Mapping[str, int],
    resident: Figure,
) -> tuple[str, ...]:
    """Name, for each term of the rule's expression that is as low as all, its first fact."""
    source = next((rule for rule in rules if RESIDENT_GROUPS in rule.records), None)
    if source is None or source.records[RESIDENT_GROUPS] != "limit" or source.limit is None:
        return ()  # another rule set: which of its terms is which is not known
    terms = Expression(source.limit).terms("min")
    scope = _Scope(facts, kernel, parameters)
    return tuple(
        next(
            (name.removeprefix(_DEVICE) for name in term.names if name.startswith(_DEVICE)),
            term.text,
        )
        for term in terms
        if term.evaluate(scope) == resident
    )


class _Scope(dict[str, Any]):
    """Facts by dotted name, for one expression apart from a rule set."""

    def __init__(
        self, facts: DeviceFacts, kernel: KernelFacts, parameters: Mapping[str, int]
    ) -> None:
        static, dynamic = kernel.static_shared_bytes, parameters.get("dynamic_shared_bytes")
        super().__init__(
            {f"kernel.{name}": value for name, value in attrs.asdict(kernel).items()}
            | {f"member.{name}": value for name, value in parameters.items()}
        )
        self["launch.threads"] = parameters.get("threads", kernel.pinned_block)
        if static is not None or dynamic is not None:
            self["launch.shared_bytes"] = (static or 0) + (dynamic or 0)
        self._facts = facts

    def get(self, name: str, default: Any = None) -> Any:
        if name.startswith(_DEVICE):
            return self._facts.get(name.removeprefix(_DEVICE))
        return super().get(name, default)
