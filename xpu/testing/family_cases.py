"""What the suite of a family looks at: its families, their designs, problems to try them on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model import Family, Problem
from xpu.orchestrator import settings_for
from xpu.registry import Registry, default_registry
from xpu.settings import Settings
from xpu.spec import Design
from xpu.testing.plugins import registry_of

_LADDER: Final = (
    *(1, 2, 3, 5, 7, 16, 17, 31, 33, 48, 64, 96, 128, 129),
    *(256, 257, 384, 512, 768, 1024, 2048, 4096),
)
_SHORT_LADDER: Final = (1, 2, 3, 7, 16, 17, 32, 33, 64, 256)
_MOST_BYTES: Final = 1 << 19
_MOST_OPERATIONS: Final = 1 << 22
"""A problem of a suite takes at most this much: a test is to be done at once, on a backend too
that looks at every access."""
_SOME_BYTES: Final = 1 << 15


@attrs.frozen(eq=False)
class Case:
    """One family under test.

    `dialects` are those that the plugin has a source for, `problems` what members run on.
    """

    family: Family
    design: Design
    dialects: tuple[str, ...]
    problems: tuple[Problem, ...]


@attrs.frozen(eq=False)
class Cases:
    """A plugin's families, in a registry with the backends that are installed."""

    registry: Registry
    settings: Settings
    dialects: Mapping[str, tuple[str, ...]]
    _made: dict[str, Case] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, plugin: object, config: Iterable[Path]) -> Cases:
        """Load a plugin beside the installed backends.

        A plugin that only adds sources is tried on the installed design that it adds them to.
        """
        own, installed = registry_of(plugin), default_registry()
        dialects = {name: tuple(design.dialects()) for name, design in own.designs.items()}
        for design, dialect in own.kernel_sources:
            dialects[design] = (*dialects.get(design, ()), dialect)
        foreign = [installed.design(name) for name in dialects if name not in own.designs]
        backends = [one for name, one in installed.backends.items() if name not in own.backends]
        registry = registry_of(plugin, *foreign, *backends, *config)
        return cls(registry, settings_for(registry), dialects)

    def families(self, names: Sequence[str] | None) -> list[Family]:
        """Return the families of the plugin's designs; only the named ones unless None."""
        designed = [it for it in self.settings.families.values() if not it.routes]
        found = [family for family in designed if family.design in self.dialects]
        return [family for family in found if names is None or family.name in names]

    def pairs(self, names: Sequence[str] | None) -> list[tuple[str, str]]:
        """Return every family with every backend that takes one of its dialects."""
        return [
            (family.name, backend.name)
            for family in self.families(names)
            for backend in self.registry.backends.values()
            if backend.dialect in self.dialects[family.design]
            and family.for_dialect(backend.dialect)
        ]

    def case(self, name: str, problems: Sequence[Mapping[str, int]]) -> Case:
        """Return one family; `problems` stand for those that are found where it is empty."""
        if name not in self._made:
            family = self.settings.family(name)
            design = self.registry.designs[family.design].for_constants(family.constants)
            given = tuple(Problem(**sizes).ordered(family.problem) for sizes in problems)
            found = given or sample_problems(design, family)
            self._made[name] = Case(family, design, self.dialects[family.design], found)
        return self._made[name]


def sample_problems(design: Design, family: Family) -> tuple[Problem, ...]:
    """Find a least problem that a design accepts, an odd one, and a larger one.

    Raises
    ------
    XpuConfigError
        It accepts none of those that were tried.
    """
    names = family.problem
    ladder = _LADDER if len(names) <= 3 else _SHORT_LADDER
    found: list[tuple[int, Problem]] = []
    for values in itertools.product(ladder, repeat=len(names)):
        problem = Problem(**dict(zip(names, values, strict=True)))
        if not design.check_problem(problem, family.constants):
            nbytes = design.bytes_touched(problem, family.constants)
            if nbytes <= _MOST_BYTES and design.operations(problem) <= _MOST_OPERATIONS:
                found.append((nbytes, problem))
    if not found:
        raise XpuConfigError(
            f"family {family.name!r}: of the problems that were tried, check_problem accepts none "
            f"whose bytes_touched are at most {_MOST_BYTES} and operations {_MOST_OPERATIONS}; set "
            f"problems = {{{family.name!r}: ({dict.fromkeys(names, 64)},)}} in the suite"
        )

    def oddness(item: tuple[int, Problem]) -> tuple[int, int]:
        sizes = item[1].sizes.values()
        return sum(size % 2 and size > 1 for size in sizes), len(set(sizes))

    least = min(found, key=lambda item: item[0])
    oddest = max(oddness(item) for item in found)
    odd = [item for item in found if oddness(item) == oddest]
    middle = min(odd, key=lambda item: abs(item[0] - _SOME_BYTES))
    large = max(odd, key=lambda item: item[0])
    chosen: dict[str, Any] = {item[1].key: item[1] for item in (least, middle, large)}
    return tuple(chosen.values())
