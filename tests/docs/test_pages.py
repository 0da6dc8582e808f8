"""What holds for every page: links lead somewhere, and no code stands there unrun."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
LANGUAGES = {"python", "toml", "c", "sh", "text"}
RUN = {"file", "run", "raises", ""}  # what a python block may be; the pages' tests run them
PYTHON_PAGES = {
    "embedding.md",
    "simt-dialect.md",
    "testing-a-plugin.md",
    "writing-a-backend.md",
    "writing-a-family.md",
    "writing-a-probe.md",
}


def anchors(text: str) -> set[str]:
    """The names that a heading gets on a code host."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def test_links_lead_somewhere(every_page, root: Path) -> None:
    tools = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]
    folders = [root / folder for folder in tools["mypy"]["mypy_path"].split(":")]
    gone = [folder for folder in folders if not folder.is_dir()]
    for target, anchor in LINK.findall(every_page.text):
        path = (root / "docs" / (target or every_page.name)).resolve()
        if any(folder in path.parents for folder in gone):
            continue  # into a plugin that is not here
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.read_text("utf-8")), (target, anchor)


def test_every_page_is_on_the_map(every_page, page) -> None:
    assert every_page.name == "index.md" or f"]({every_page.name})" in page("index.md").text


def test_code_stands_where_a_test_runs_it(every_page) -> None:
    for block in every_page.blocks:
        assert block.language in LANGUAGES, block.text
        if block.language in ("toml", "c"):
            assert block.kind == "file", block.text
        if block.language == "python":
            assert block.kind in RUN, block.text
            assert every_page.name in PYTHON_PAGES


def test_no_fence_is_left_out_of_the_blocks(every_page) -> None:
    fences = re.findall(r"^```", every_page.text, flags=re.MULTILINE)
    assert len(fences) == 2 * len(every_page.blocks)
