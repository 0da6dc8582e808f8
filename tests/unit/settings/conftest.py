"""A small, complete configuration in a directory of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from xpu.errors import XpuConfigError
from xpu.model import DEVICE_FACT_NAMES
from xpu.settings import Settings, Vocabulary, load_settings
from xpu.spec import Argument, Design

FILES = {
    "families.toml": """
[families.q]
design    = "gemm"
problem   = ["m", "n"]
constants = { format = "a" }
buckets   = { m = "pow2_up" }
default   = { c = "small" }
cap       = 3
requires  = ["member.tile_m % 8 == 0"]

[[families.q.members]]
name   = "small"
tile_m = 8

[[families.q.members]]
name     = "large"
tile_m   = 64
threads  = 128
dialects = ["c"]

[families.v]
design  = "vec"
problem = ["n"]

[[families.v.members]]
name = "plain"
rows = 1
""",
    "rules.toml": """
[[rules]]
id    = "R1"
title = "spill bytes"
need  = "kernel.spill_bytes"
limit = 0
prune_when = "need > limit"

[[rules]]
id    = "R2"
title = "tiles"
need  = "ceil_div(problem.m, member.tile_m)"
limit = "device.multiprocessors"
records = { short = "need < limit" }
""",
    "buckets.toml": """
[buckets.pow2_up]
kind  = "pow2"
round = "up"
most  = 4096

[buckets.some]
kind   = "list"
values = [1, 2, 8]
""",
    "probes.toml": """
[probes.look]
families = ["q"]
problems = ["8x64", "16x64"]
""",
}


def _nothing(self: object, *given: object, **named: object) -> None:
    return None


def make_design(
    name: str, parameters: tuple[str, ...], problem: tuple[str, ...], **methods: Any
) -> Design:
    """Make a design that announces what it is given and does nothing."""
    body: dict[str, Any] = dict.fromkeys(Design.__abstractmethods__, _nothing)
    arguments = (Argument("y", "float32", "write"),)
    body |= {"name": name, "parameters": parameters, "problem": problem, "arguments": arguments}
    made: Design = type("MadeDesign", (Design,), body | methods)()
    return made


def _only_format(_self: object, constants: Mapping[str, object]) -> str:
    wrong = [key for key in constants if key != "format"]
    return f"{wrong[0]} is no constant of gemm; allowed: format" if wrong else ""


@pytest.fixture
def vocabulary() -> Vocabulary:
    gemm = make_design("gemm", ("tile_m", "depth"), ("m", "n"), check_constants=_only_format)
    return Vocabulary(
        designs={"gemm": gemm, "vec": make_design("vec", ("rows",), ("n",))},
        device_facts=DEVICE_FACT_NAMES | {"cores"},
        dialects=frozenset({"c"}),
    )


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's configuration directory, empty, away from the real one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    directory = tmp_path / "home" / "xpu"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def base(tmp_path: Path, user: Path) -> Path:
    """Return a base directory that holds `FILES`."""
    directory = tmp_path / "base"
    directory.mkdir()
    for name, text in FILES.items():
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def load(base: Path, vocabulary: Vocabulary) -> Callable[..., Settings]:
    """Load the base with whatever is put over it."""

    def loaded(
        config: Any = None,
        plugin_files: Sequence[tuple[str, Path]] = (),
        vocabulary: Vocabulary = vocabulary,
    ) -> Settings:
        return load_settings(
            config=config,
            plugin_files=plugin_files,
            vocabulary=vocabulary,
            environ={"XPU_CONFIG_DIR": str(base)},
        )

    return loaded


@pytest.fixture
def refused(base: Path, load: Callable[..., Settings]) -> Callable[..., str]:
    """Change one file of the base and return the message with which loading fails.

    The message must begin with the file and the key path.
    """

    def message(file: str, change: str | bytes | tuple[str, str], path: str = "") -> str:
        if isinstance(change, tuple):
            assert change[0] in FILES[file], "the test changes nothing"
            change = FILES[file].replace(*change, 1)
        if isinstance(change, str):
            change = change.encode()
        (base / file).write_bytes(change)
        with pytest.raises(XpuConfigError) as raised:
            load()
        said = str(raised.value)
        assert said.startswith(f"{base / file}: {path}: " if path else f"{base / file}: ")
        assert "\n" not in said
        return said

    return message
