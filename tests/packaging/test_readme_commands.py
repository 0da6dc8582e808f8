"""The README's commands: the scripts take the one for the tests from there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

BLOCK = re.compile(r"<!-- (\w+)-command -->\n```sh\n(.*?)```\n<!-- /\1-command -->", re.DOTALL)


def test_ci_runs_exactly_the_test_command_of_the_readme(root: Path) -> None:
    blocks = dict(BLOCK.findall((root / "README.md").read_text("utf-8")))
    shown = subprocess.run(
        [root / ".ci" / "run", "--show-test-command"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == blocks["test"]
    assert "pytest" in blocks["test"]
    assert list(blocks) == ["first", "test"]


def test_ci_fails_when_the_readme_has_no_test_command(root: Path, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "run"
    script.write_bytes((root / ".ci" / "run").read_bytes())
    script.chmod(0o755)
    (tmp_path / "README.md").write_text("# Nothing\n")
    for arguments in (["--show-test-command"], []):
        done = subprocess.run(
            [script, *arguments], check=False, capture_output=True, text=True, timeout=20
        )
        assert done.returncode != 0
        assert "README.md" in done.stderr


@pytest.mark.parametrize("given", [[], ["plugins"], ["plugins/backends/nonesuch"], ["xpu/cli"]])
def test_what_is_no_plugin_folder_is_refused_and_those_that_are_named(
    root: Path, plugin_folders: list[Path], given: list[str]
) -> None:
    done = subprocess.run(
        [root / ".ci" / "without", *given], check=False, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 2
    named = done.stderr.split("there are: ")[1].split()
    assert named == [str(folder.relative_to(root)) for folder in plugin_folders]


@pytest.mark.parametrize("script", ["run", "without"])
def test_the_script_can_be_run(root: Path, script: str) -> None:
    assert os.access(root / ".ci" / script, os.X_OK)
