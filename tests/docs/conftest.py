"""The pages of the guide, cut into blocks that tests run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import first_party
import pytest
import tomli_w

from xpu.errors import XpuError

# An optional comment, ``<!-- kind -->`` or ``<!-- kind: argument -->``, then a fenced block.
BLOCK = re.compile(
    r"^(?:<!-- (?P<kind>[a-z]+)(?:: (?P<argument>[^\n]*?))? -->\n)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
KEPT = {"q4k_tile": ("i8x16", "i8x64"), "q4k_matvec": ("plain", "two_row")}
PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))


@attrs.frozen
class Block:
    """A fenced block of a page, with the comment above it."""

    language: str
    kind: str
    argument: str
    text: str


def blocks_of(text: str) -> list[Block]:
    return [
        Block(found["language"], found["kind"] or "", found["argument"] or "", found["text"])
        for found in BLOCK.finditer(text)
    ]


class Page:
    """One page of the guide."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.text = path.read_text("utf-8")
        self.blocks = blocks_of(self.text)

    def of(self, kind: str) -> list[Block]:
        return [block for block in self.blocks if block.kind == kind]

    @property
    def files(self) -> dict[str, str]:
        """The files that the page spells out, by name."""
        return {block.argument: block.text for block in self.of("file")}

    def write_files(self, directory: Path) -> None:
        for name, text in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def run_python(self, space: dict[str, Any]) -> int:
        """Run the blocks that are no files in one namespace, as a reader would; count them.

        A block under ``raises: TEXT`` raises that error; a block ``output`` is what the one
        before it printed.
        """
        printed, count = "", 0
        for block in self.blocks:
            if block.kind == "output":
                assert printed == block.text
            if block.language != "python" or block.kind == "file":
                continue
            count += 1
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                if block.kind == "raises":
                    with pytest.raises(XpuError) as error:
                        exec(compile(block.text, self.name, "exec"), space)
                    assert str(error.value) == block.argument
                else:
                    exec(compile(block.text, self.name, "exec"), space)
            printed = stdout.getvalue()
        return count


@pytest.fixture(scope="session")
def page() -> Callable[[str], Page]:
    return lambda name: Page(next(path for path in PAGES if path.name == name))


@pytest.fixture(params=[path.name for path in PAGES])
def every_page(request: pytest.FixtureRequest, page: Callable[[str], Page]) -> Page:
    return page(request.param)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A directory whose modules can be imported here and in worker processes."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def shipped_plugins() -> list[tuple[str, object, str]]:
    """What the pages rest on, and the probes that are here; not what is installed."""
    probes = [
        name
        for name in ("calibration", "matvec_variant", "tile_prewarm")
        if first_party.package(name)
    ]
    names = ("cpu", "kquant", *probes)
    return [(name, first_party.plugin(name), "xpu-orchestrator") for name in names]


@pytest.fixture
def shell(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quiet_machine: None,
    shipped_plugins: list[tuple[str, object, str]],
) -> Callable[[str], int]:
    """Few families, members and problems: what the page names, and what compiles soon."""
    for name in ("matvec_variant", "tile_prewarm"):
        first_party.plugin(name)
    from xpu.cli.app import run
    from xpu.registry import Registry

    families = tomllib.loads((root / "config/families.toml").read_text("utf-8"))["families"]
    kept = {name: families[name] for name in KEPT}
    for name, family in kept.items():
        family["members"] = [m for m in family["members"] if m["name"] in KEPT[name]]
        assert len(family["members"]) == len(KEPT[name])
        family["default"] = {"c": KEPT[name][0]}
        family.pop("unlowered", None)  # it speaks of members that are not kept
    plans = {
        "tile_prewarm": {"families": ["q4k_tile"], "problems": ["8x64x256"]},
        "matvec_variant": {"families": ["q4k_matvec"], "problems": ["1x256x512", "1x64x256"]},
    }
    config = tmp_path / "config"
    config.mkdir()
    (config / "families.toml").write_text(tomli_w.dumps({"families": kept}))
    (config / "probes.toml").write_text(tomli_w.dumps({"probes": plans}))
    monkeypatch.setenv("XPU_CONFIG_DIR", str(config))
    monkeypatch.setenv("XPU_STORE", str(tmp_path / "store"))
    # Four caches' worth of small problems are tens of thousands of copies.
    monkeypatch.setattr("xpu.choice.kernel_trial.rotation_count", lambda *_: 3)
    registry = Registry.from_plugins(shipped_plugins)
    monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
    monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)

    def command(line: str) -> int:
        words = shlex.split(line, comments=True)
        with pytest.MonkeyPatch.context() as patch:
            while "=" in words[0]:
                patch.setenv(*words.pop(0).split("=", 1))
            assert words[0] == "xpu"
            return run(words[1:])

    return command
