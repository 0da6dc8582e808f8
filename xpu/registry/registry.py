"""The frozen view of everything that plugins brought.

A name belongs to the first plugin that brings it; one that comes later with the same
name contributes nothing and is a ``conflict`` that names both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import attrs

from xpu.errors import XpuConfigError
from xpu.model import DEVICE_FACT_NAMES, Family, PluginRecord, Problem, nearest
from xpu.registry.claims import claim, claims_of
from xpu.registry.contribution import Contribution, Found, collect, log
from xpu.registry.guard import Owner, guarded
from xpu.registry.made_of import note_loaded
from xpu.spec.backend import Backend
from xpu.spec.design import Design, KernelSource, Launch
from xpu.spec.probe import Probe
from xpu.spec.source import ProblemSource

T = TypeVar("T")


def _frozen(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(dict(mapping))


@attrs.frozen(eq=False)
class Registry:
    """What the plugins of this process bring, by name.

    The mappings hold it as it was brought. What is looked up by name is at arm's length: a
    fault in it is an `XpuPluginError` that names the plugin.

    Attributes
    ----------
    records
        What became of each plugin, by plugin name, then distribution.
    backends, designs, probes, problem_sources
        What the loaded ones bring.
    config_files
        TOML files that plugins ship, with the plugin's name, in loading order.
    kernel_sources
        Further dialects of designs, by (design, dialect).
    owners
        Whose each of them is, by kind and name.
    """

    records: tuple[PluginRecord, ...] = ()
    backends: Mapping[str, Backend] = attrs.field(factory=dict, converter=_frozen)
    designs: Mapping[str, Design] = attrs.field(factory=dict, converter=_frozen)
    probes: Mapping[str, Probe] = attrs.field(factory=dict, converter=_frozen)
    problem_sources: Mapping[str, ProblemSource] = attrs.field(factory=dict, converter=_frozen)
    config_files: tuple[tuple[str, Path], ...] = ()
    kernel_sources: Mapping[tuple[str, str], KernelSource] = attrs.field(
        factory=dict, converter=_frozen
    )
    owners: Mapping[tuple[str, object], Owner] = attrs.field(factory=dict, converter=_frozen)

    @classmethod
    def from_plugins(cls, plugins: Iterable[tuple[str, object, str]]) -> Registry:
        """Make a registry of plugin objects at hand, without entry points.

        Parameters
        ----------
        plugins
            Name, module (or object) and distribution of each, in loading order.
        """
        return assemble(
            Found(name, distribution, f"object at {id(plugin):#x}", _at_hand(plugin))
            for name, plugin, distribution in plugins
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Every plugin that is not loaded, with its state, for messages."""
        return tuple(
            f"{record.name} ({record.state})" for record in self.records if record.state != "loaded"
        )

    @property
    def device_facts(self) -> frozenset[str]:
        """Names of device facts: the common ones and those that backends declare."""
        further = (name for backend in self.backends.values() for name in backend.further_facts)
        return DEVICE_FACT_NAMES.union(further)

    @property
    def dialects(self) -> frozenset[str]:
        """Every source dialect that a backend takes or a design has."""
        own = (dialect for design in self.designs.values() for dialect in design.dialects())
        taken = (backend.dialect for backend in self.backends.values())
        return frozenset({*own, *taken, *(dialect for _, dialect in self.kernel_sources)})

    def backend(self, name: str) -> Backend:
        """Return a backend by name.

        Raises
        ------
        XpuConfigError
            No loaded plugin brings it; the message gives the nearest name.
        """
        return self._owned("backend", self.backends, name)

    def design(self, name: str) -> Design:
        """Return a design by name; raises as `backend` does."""
        return self._owned("design", self.designs, name)

    def design_of(self, family: Family) -> Design:
        """Return a family's design, as its constants make it; raises as `backend` does."""
        return self.design(family.design).for_constants(family.constants)

    def probe(self, name: str) -> Probe:
        """Return a probe by name; raises as `backend` does."""
        return self._named("probe", self.probes, name)

    def problem_source(self, name: str) -> ProblemSource:
        """Return a reader of model files by name; raises as `backend` does."""
        return self._owned("problem source", self.problem_sources, name)

    def source_for(self, design: str, dialect: str) -> KernelSource | None:
        """Return a design's source in a dialect, its own or one that a plugin adds.

        Returns
        -------
        KernelSource or None
            None when there is no such design or no source in that dialect.

        Raises
        ------
        XpuPluginError
            The design cannot give a source that it announces.
        """
        if design not in self.designs:
            return None
        own = self.design(design)
        if dialect in own.dialects():
            return own.source(dialect)
        return self.kernel_sources.get((design, dialect))

    def preparation_for(self, design: str, dialect: str) -> KernelSource | None:
        """Return a design's preparing kernel in a dialect; None where weights stay as they are.

        Raises
        ------
        XpuPluginError
            The design cannot give a source that it announces.
        """
        own = self.design(design)
        if own.preparation is None:
            return None
        if dialect not in own.dialects():
            added = self.kernel_sources.get((design, dialect))
            return None if added is None else added.preparation
        return own.preparation.source(dialect)

    def launch_for(
        self, family: Family, dialect: str, member: Mapping[str, int], problem: Problem
    ) -> Launch:
        """Return how a member is launched, as the design or the added source says."""
        own, source = self.design_of(family), (family.design, dialect)
        added = self.kernel_sources.get(source)
        if dialect in own.dialects() or added is None or added.launch is None:
            return own.launch(dialect, member, problem)
        owner = self.owners.get(("kernel source", source))
        launch = cast("Callable[..., Launch]", guarded(added, owner).launch)
        return launch(member, problem)

    def _owned(self, kind: str, mapping: Mapping[str, T], name: str) -> T:
        return guarded(self._named(kind, mapping, name), self.owners.get((kind, name)))

    def _named(self, kind: str, mapping: Mapping[str, T], name: str) -> T:
        if name in mapping:
            return mapping[name]
        message = f"no {kind} is called {name!r}; {nearest(name, mapping)}"
        if self.missing:
            message += f"; plugins not loaded: {', '.join(self.missing)} (see `xpu doctor`)"
        raise XpuConfigError(message)


def _at_hand(plugin: object) -> Callable[[], object]:
    return lambda: plugin


def assemble(founds: Iterable[Found], records: Iterable[PluginRecord] = ()) -> Registry:
    """Load plugins in the order given and keep what each may bring.

    Parameters
    ----------
    founds
        The plugins, none of them blocked.
    records
        Records of those that are not to be loaded at all.
    """
    kept = list(records)
    accepted: list[Contribution] = []
    claims: dict[tuple[str, object], Contribution] = {}
    for outcome in _collected(founds):
        if isinstance(outcome, PluginRecord):
            record = outcome
        else:
            record = claim(outcome, claims)
            if record.state == "loaded":
                accepted.append(outcome)
        kept.append(record)
        _warn(record)
    kept.sort(key=lambda record: (record.name, record.distribution))
    return _registry(kept, accepted)


def _collected(founds: Iterable[Found]) -> list[Contribution | PluginRecord]:
    outcomes: list[Contribution | PluginRecord] = []
    seen: set[int] = set()
    for found in founds:
        began_ns = time.time_ns()
        outcome = collect(found)
        if isinstance(outcome, Contribution):
            judging: list[Backend | Design] = [*outcome.backends, *outcome.designs]
            for item in judging:
                note_loaded(item, began_ns)
            if id(outcome.plugin) in seen:
                continue
            seen.add(id(outcome.plugin))
        outcomes.append(outcome)
    # An added source must not take a dialect from the design that has it itself, whatever
    # the order of the plugins: those that only add come last.
    return sorted(outcomes, key=lambda it: isinstance(it, Contribution) and bool(it.kernel_sources))


def _warn(record: PluginRecord) -> None:
    if record.state not in ("loaded", "blocked"):
        log.warning(
            "plugin %r of %s is set aside: %s at %s: %s",
            record.name,
            record.distribution,
            record.state,
            record.stage,
            record.cause,
        )


def _registry(records: list[PluginRecord], accepted: list[Contribution]) -> Registry:
    return Registry(
        records=tuple(records),
        backends={it.name: it for given in accepted for it in given.backends},
        designs={it.name: it for given in accepted for it in given.designs},
        probes={it.name: it for given in accepted for it in given.probes},
        problem_sources={it.name: it for given in accepted for it in given.problem_sources},
        config_files=tuple((given.found.name, path) for given in accepted for path in given.config),
        kernel_sources={
            (it.design or "", it.dialect): it for given in accepted for it in given.kernel_sources
        },
        owners={
            (kind, name): Owner(given.found.name, given.found.distribution, f"{kind} {name!r}")
            for given in accepted
            for kind, name in claims_of(given)
        },
    )
