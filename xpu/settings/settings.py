"""All configuration of one process, read and checked as a whole."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.expressions import Names
from xpu.model import (
    KERNEL_FACT_NAMES,
    MEMBER_PARAMETERS,
    BucketPolicy,
    Family,
    ProbePlan,
    Rule,
    nearest,
)
from xpu.settings.build import Vocabulary, build_buckets, build_families, build_probes
from xpu.settings.declared import take_shapes
from xpu.settings.files import BASE_VARIABLE, Config, Layer, base_file, layers, read
from xpu.settings.formulas import build_rules
from xpu.settings.like import completed, take_others
from xpu.settings.merge import Merged
from xpu.settings.routes import build_routes

# The shipped rules read these, so they are declared even where no plugin that uses them loads.
_SHIPPED_PARAMETERS: Final = frozenset({"tile_m", "tile_n", "tile_k"})
_SHIPPED_SIZES: Final = frozenset({"m", "n", "k"})


def _frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))


@attrs.frozen(eq=False)
class Settings:
    """What all layers of configuration say together.

    Attributes
    ----------
    families
        Families whose design is loaded, by name, and families of routes to them.
    rules
        Feasibility rules, in the order in which they are asked.
    buckets
        Bucket policies by name; ``exact`` always among them.
    probes
        What each probe is asked to look at, by the probe's name.
    origins
        The files that were read, the lowest layer first.
    dormant
        Families whose design no loaded plugin brings, and those all of whose routes are such,
        with the reason.
    """

    families: Mapping[str, Family] = attrs.field(factory=dict, converter=_frozen)
    rules: tuple[Rule, ...] = ()
    buckets: Mapping[str, BucketPolicy] = attrs.field(factory=dict, converter=_frozen)
    probes: Mapping[str, ProbePlan] = attrs.field(factory=dict, converter=_frozen)
    origins: tuple[Path, ...] = ()
    dormant: Mapping[str, str] = attrs.field(factory=dict, converter=_frozen)

    def family(self, name: str) -> Family:
        """Return a family by name.

        Raises
        ------
        XpuConfigError
            There is none, or it is dormant; the message gives the nearest name or the reason.
        """
        if name in self.families:
            return self.families[name]
        if name in self.dormant:
            raise XpuConfigError(f"family {name!r} cannot serve: {self.dormant[name]}")
        raise XpuConfigError(f"no family is called {name!r}; {nearest(name, self.families)}")


def load_settings(
    *,
    config: Config | Sequence[Config] | None = None,
    plugin_files: Iterable[tuple[str, Path]] = (),
    vocabulary: Vocabulary | None = None,
    environ: Mapping[str, str] | None = None,
    resolved: Path | None = None,
) -> Settings:
    """Read every layer of configuration and check all of it.

    Parameters
    ----------
    config
        A directory or TOML file over all other layers, or several, a layer each.
    plugin_files
        Plugin names and the TOML files that they ship.
    vocabulary
        What loaded plugins declare; nothing when None.
    environ
        Where ``XPU_CONFIG_DIR`` is read; the process's environment when None.
    resolved
        A directory of files as `written` gives them, in the place of all layers but `config`.

    Raises
    ------
    XpuConfigError
        Anything is wrong anywhere; the message gives file, key path, what was found and
        what is allowed.
    """
    vocabulary = vocabulary or Vocabulary()
    environ = os.environ if environ is None else environ
    read_from = layers(config, plugin_files, environ, resolved=resolved)
    merged = _merged(read_from, vocabulary)
    buckets = build_buckets(merged.buckets)
    families, dormant = build_families(merged.families, buckets, vocabulary)
    routed, asleep = build_routes(merged.families, families, dormant, vocabulary)
    families, dormant = families | routed, dormant | asleep
    return Settings(
        families=families,
        rules=build_rules(merged.rules, _names(merged, vocabulary)),
        buckets=buckets,
        probes=build_probes(merged.probes, families, dormant),
        origins=tuple(file.path for layer in read_from for file in layer),
        dormant=dormant,
    )


def _merged(read_from: Iterable[Layer], vocabulary: Vocabulary) -> Merged:
    merged = Merged()
    for layer in read_from:
        merged.add((file, read(file)) for file in layer)
        take_others(merged.families)
    merged.families = completed(merged.families)
    take_shapes(merged.families, vocabulary.designs)
    merged.complete()
    return merged


def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules of the base alone, with no plugin and no further layer.

    They are read once for each value of ``$XPU_CONFIG_DIR``.

    Raises
    ------
    XpuConfigError
        The base's ``rules.toml`` is wrong.
    """
    return _base_rules(os.environ.get(BASE_VARIABLE, ""))


@functools.cache
def _base_rules(directory: str) -> tuple[Rule, ...]:
    file = base_file("rules.toml", {BASE_VARIABLE: directory})
    return build_rules(_merged([[file]], Vocabulary()).rules)


def _names(merged: Merged, vocabulary: Vocabulary) -> Names:
    designs = vocabulary.designs.values()
    sizes = (entry.values["problem"] for entry in merged.families.values())
    return Names(
        device=vocabulary.device_facts,
        kernel=KERNEL_FACT_NAMES,
        member=MEMBER_PARAMETERS.union(_SHIPPED_PARAMETERS, *(it.parameters for it in designs)),
        problem=_SHIPPED_SIZES.union(*sizes, *(it.problem for it in designs)),
    )
