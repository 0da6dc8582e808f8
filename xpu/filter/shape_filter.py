"""`ShapeFilter`: which candidates a device can run for a problem, and why not the others.

It reads facts and nothing else, prunes by rule, and keeps every pruned candidate with its
figures. `choice` takes the survivors; no survivor is a refusal, never a silent fallback.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xpu.errors import XpuConfigError
from xpu.filter.rule_set import SURVIVES, bind_rules
from xpu.model import DeviceFacts, KernelFacts, MemberResult, Problem, Rule, ShapeCandidate, Verdict

_NOTHING_KNOWN: Final = KernelFacts()


class ShapeFilter:
    """Rules applied to the candidates of one family, for one device and one problem.

    Parameters
    ----------
    name
        The family's name in messages and store keys: any text, nothing is looked up.
    facts
        What the device is known to be.
    problem
        The sizes.
    rules
        In order; the shipped ones unless given.
    default
        Name of the candidate that serves until something is measured; None when there is
        none.

    Raises
    ------
    XpuConfigError
        An expression of a rule is not acceptable.
    """

    def __init__(
        self,
        name: str,
        facts: DeviceFacts,
        problem: Problem,
        *,
        rules: Iterable[Rule] | None = None,
        default: str | None = None,
    ) -> None:
        if rules is None:
            from xpu.settings import shipped_rules

            rules = shipped_rules()
        self._rules = tuple(rules)
        self._judge = bind_rules(self._rules, facts.get, problem.sizes.get)
        self._name = name
        self._facts = facts
        self._problem = problem
        self._default = default
        self._seen: set[str] = set()
        self._verdicts: list[Verdict] = []
        self._aside: list[MemberResult] = []

    @property
    def name(self) -> str:
        """The family's name."""
        return self._name

    @property
    def facts(self) -> DeviceFacts:
        """The device's facts."""
        return self._facts

    @property
    def problem(self) -> Problem:
        """The sizes."""
        return self._problem

    @property
    def default(self) -> str | None:
        """Name of the default candidate, where there is one."""
        return self._default

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict, in the order considered."""
        return tuple(self._verdicts)

    @property
    def survivors(self) -> tuple[Verdict, ...]:
        """The verdicts on candidates that no rule pruned, in the order considered."""
        return tuple(verdict for verdict in self._verdicts if verdict.rule is None)

    @property
    def pruned(self) -> tuple[Verdict, ...]:
        """The verdicts on candidates that a rule pruned, in the order considered."""
        return tuple(verdict for verdict in self._verdicts if verdict.rule is not None)

    @property
    def aside(self) -> tuple[MemberResult, ...]:
        """Members that never reached the rules."""
        return tuple(self._aside)

    def consider(
        self,
        candidate: ShapeCandidate,
        kernel_facts: KernelFacts = _NOTHING_KNOWN,
        staging: Iterable[tuple[ShapeCandidate, KernelFacts]] = (),
    ) -> Verdict:
        """Judge a candidate by every rule and keep the verdict.

        The first rule that prunes is reported; the records of all rules are kept. What runs
        before each launch of it is `staging`, judged after it by the same rules: one that
        cannot be launched prunes the candidate, under a title with its own name.

        Raises
        ------
        XpuConfigError
            A candidate of that name was considered or set aside before.
        """
        self._admit(candidate.name)
        index, need, limit, records = self._judge(candidate.parameters.get, kernel_facts)
        whose = ""
        for before, facts in staging:
            if index != SURVIVES:
                break
            index, need, limit, _ = self._judge(before.parameters.get, facts)
            whose = f"{before.name}: "
        if index == SURVIVES:
            verdict = Verdict(candidate, kernel_facts, records=records)
        else:
            rule = self._rules[index]
            title = f"{whose}{rule.title}"
            verdict = Verdict(candidate, kernel_facts, rule.id, title, need, limit, records)
        self._verdicts.append(verdict)
        return verdict

    def set_aside(self, result: MemberResult) -> None:
        """Keep a member that never reaches the rules: capped, or not to be built.

        Raises
        ------
        XpuConfigError
            A candidate of that name was considered or set aside before.
        """
        self._admit(result.name)
        self._aside.append(result)

    def refusal(self) -> str:
        """Return the empty text when something survives, else why nothing does, by name."""
        if any(verdict.rule is None for verdict in self._verdicts):
            return ""
        head = f"{self._name}: nothing can be launched for {self._problem.key}"
        reasons = [str(verdict) for verdict in self._verdicts]
        reasons += [_aside_text(result) for result in self._aside]
        if not self._verdicts:
            reasons.insert(0, "no candidate was considered")
        return f"{head}: {'; '.join(reasons)}"

    def _admit(self, name: str) -> None:
        if name in self._seen:
            raise XpuConfigError(
                f"{self._name}: two candidates are called {name!r}; give each its own name"
            )
        self._seen.add(name)


def _aside_text(result: MemberResult) -> str:
    note = f" ({result.brief})" if result.note else ""
    return f"{result.name}: {result.status}{note}"
