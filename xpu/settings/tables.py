"""What each configuration file may hold: the one declaration of keys and kinds.

The validator reads it, and `xpu.settings.schema` makes JSON Schemas of it.
"""

from __future__ import annotations

from typing import Final

from xpu.model import LOWERING_GATES
from xpu.settings.kinds import (
    Constant,
    Count,
    Entries,
    Flag,
    Formula,
    Key,
    Kind,
    ListOf,
    MapOf,
    Table,
    Text,
    Whole,
)

# Names become parts of file names, symbols and store keys.
NAME: Final = Text(
    r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}",
    wanted="a name of at most 100 letters, digits and _ . + -",
)
# Sizes, parameters and dialects are written in expressions and in calls.
IDENTIFIER: Final = Text(
    r"[A-Za-z_][A-Za-z0-9_]{0,63}",
    wanted="a word of at most 64 letters, digits and _, not starting with a digit",
)
_DIALECT: Final = Text(r"\*|[A-Za-z_][A-Za-z0-9_]{0,63}", wanted="a dialect, or * for every one")
_TEXT: Final = Text()

MEMBER: Final = Table(
    {
        "name": Key(NAME, "What this member is called in answers and overrides.", True),
        "dialects": Key(
            ListOf(IDENTIFIER, least=1),
            "The source dialects that it exists in; every dialect of the design when absent.",
        ),
    },
    others=Whole(),
)

ROUTE: Final = Table(
    {
        "family": Key(NAME, "The family that serves in this route.", True),
        "when": Key(
            Text(wanted="an expression over problem.* in quotes"),
            "On which problems it takes part; on all of them when absent.",
        ),
    }
)

_ITEM: Final = Key(_TEXT, "The plan item that tracks it.", True)
_OF_MEMBERS: Final = Key(
    ListOf(NAME, least=1),
    "Of which members, or `prepare` for the weight preparation; of any when absent.",
)

UNLOWERED: Final = Table(
    {
        "item": _ITEM,
        "backend": Key(NAME, "The backend that does not lower it as it should.", True),
        "gate": Key(Text(choices=LOWERING_GATES), "The gate that is tracked; no-code if absent."),
        "targets": Key(ListOf(_TEXT, least=1), "For which targets; for each when absent."),
        "members": _OF_MEMBERS,
        "compilers": Key(
            ListOf(_TEXT, least=1),
            "With which compilers: name and version, or its beginning; with any when absent.",
        ),
    }
)

UNBOUNDED: Final = Table({"item": _ITEM, "members": _OF_MEMBERS})

OCCUPANCY: Final = Table(
    {
        "max_threads": Key(Count(), "The most threads of a block in any launch."),
        "max_waves": Key(Count(), "The most waves of a block in any launch."),
    }
)

FAMILY: Final = Table(
    {
        "like": Key(NAME, "Another family: what is not stated here is as there."),
        "design": Key(_TEXT, "The kernel design, from a plugin.", is_needed=True),
        "problem": Key(
            ListOf(IDENTIFIER, least=1), "The sizes, in the order of a key.", is_needed=True
        ),
        "constants": Key(
            MapOf(Constant(), IDENTIFIER), "What all members share, such as the weight format."
        ),
        "buckets": Key(MapOf(NAME, IDENTIFIER), "A bucket policy for each size; exact if absent."),
        "default": Key(
            MapOf(NAME, _DIALECT),
            "For each dialect the member that serves until something is measured.",
        ),
        "cap": Key(Whole(least=1), "The most members that are built for one target."),
        "requires": Key(
            ListOf(Text(wanted="an expression over member.* in quotes")),
            "Expressions over member.* that hold for every member.",
        ),
        "occupancy": Key(OCCUPANCY, "What bounds a block that depends on the problem."),
        "wave": Key(Count(), "The width of a wave that the indexing assumes; any when absent."),
        "fast_math": Key(Flag(), "Whether arithmetic may be reassociated and approximated."),
        "unlowered": Key(
            Entries(UNLOWERED, "item"), "What a backend does not lower as it should, tracked."
        ),
        "unbounded": Key(
            Entries(UNBOUNDED, "item"), "Launches whose block nothing bounds, tracked."
        ),
        "members": Key(
            Entries(MEMBER, "name"), "The shapes to choose from, in order.", is_needed=True
        ),
        "routes": Key(
            Entries(ROUTE, "family"),
            "Families to choose from, in order, in place of a design and members.",
        ),
    }
)

RULE: Final = Table(
    {
        "id": Key(_TEXT, "R0, R1, ...; several entries may share one.", True),
        "title": Key(_TEXT, "What it looks at; with the id it names the rule.", True),
        "need": Key(Formula(), "What a candidate needs."),
        "limit": Key(Formula(), "What the device has."),
        "prune_when": Key(
            Text(wanted="an expression in quotes"), "When it prunes, in need and limit."
        ),
        "records": Key(
            MapOf(Formula(), IDENTIFIER), "What stays on the verdict, pruned or not, by name."
        ),
    }
)

POLICY: Final = Table(
    {
        "kind": Key(
            Text(choices=("exact", "pow2", "list", "linear")), "How it rounds.", is_needed=True
        ),
        "round": Key(Text(choices=("up", "down", "nearest")), "Which way; up when absent."),
        "least": Key(Whole(), "The smallest size in a bucket."),
        "most": Key(Whole(), "The largest size in a bucket; no limit when absent."),
        "values": Key(ListOf(Whole(), least=1), "The buckets of a list policy."),
        "step": Key(Whole(least=1), "The width of a linear policy's buckets."),
    }
)

PROBE: Final = Table(
    {
        "families": Key(ListOf(NAME, least=1), "What it looks at, in order.", is_needed=True),
        "problems": Key(
            ListOf(Text(wanted="a problem's key such as '64x1024x1024'")),
            "Keys of the problems to look at, sizes in the families' order.",
        ),
        "memory": Key(
            Text(choices=("warm", "cold")), "Whether inputs stay cached; warm if absent."
        ),
    }
)

FILES: Final[dict[str, Kind]] = {
    "families": MapOf(FAMILY, NAME),
    "rules": Entries(RULE, "id"),
    "buckets": MapOf(POLICY, NAME),
    "probes": MapOf(PROBE, NAME),
}
"""The top-level table of each file; ``NAME.toml`` holds table ``NAME``."""
