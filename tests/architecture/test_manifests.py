"""The project files: every plugin folder has the one shape, and the root repeats them all."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import first_party
import tomli_w

PACKAGE_KINDS = {
    "backends": ("backend",),
    "families": ("family",),
    "probes": ("probe", "source"),
}


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0] for requirement in requirements}


def test_every_folder_is_a_plugin(root: Path, plugin_folders: list[Path]) -> None:
    folders = [path for path in (root / "plugins").iterdir() if path.is_dir()]
    kinds = [path for path in folders if path.name != "__pycache__"]
    assert {path.name for path in kinds} <= set(PACKAGE_KINDS)
    inside = {path for kind in kinds for path in kind.iterdir() if path.is_dir()}
    assert inside == set(plugin_folders)


def test_every_folder_has_the_one_shape(plugin_folders: list[Path]) -> None:
    for folder in plugin_folders:
        (package,) = folder.glob("xpu_*")
        kind = package.name.split("_")[1]
        assert kind in PACKAGE_KINDS[folder.parent.name], package
        assert package.name == f"xpu_{kind}_{folder.name}"
        for needed in ("README.md", f"{package.name}/__init__.py", f"{package.name}/plugin.py"):
            assert (folder / needed).is_file(), folder / needed
        assert list((folder / "tests").glob("test_*.py")), folder


def test_every_folder_declares_itself_alike(root: Path, plugin_folders: list[Path]) -> None:
    ours = project(root)
    for folder in plugin_folders:
        theirs = project(folder)
        (package,) = (path.name for path in folder.glob("xpu_*"))
        declared = theirs["project"]
        assert theirs["build-system"] == ours["build-system"]
        assert declared["name"] == package.replace("_", "-")
        assert declared["requires-python"] == ours["project"]["requires-python"]
        assert declared["license"] == ours["project"]["license"]
        assert "xpu-orchestrator" in names(declared["dependencies"])
        assert declared["entry-points"] == {"xpu": {folder.name: f"{package}.plugin"}}
        assert theirs["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [package]


def test_the_roots_tables_are_the_union_of_the_folders(
    root: Path, plugin_folders: list[Path]
) -> None:
    """Of the whole suite only this test may fail where a plugin folder is gone."""
    packages = [next(iter(folder.glob("xpu_*"))) for folder in plugin_folders]
    entries = [project(folder)["project"]["entry-points"]["xpu"] for folder in plugin_folders]
    names = {"xpu", *(package.name for package in packages)}
    tools = project(root)["tool"]
    assert {
        "entry points": set(project(root)["project"]["entry-points"]["xpu"].items()),
        "wheel": set(tools["hatch"]["build"]["targets"]["wheel"]["packages"]),
        "mypy": set(tools["mypy"]["packages"]),
        "mypy path": set(tools["mypy"]["mypy_path"].split(":")),
        "import-linter": set(tools["importlinter"]["root_packages"]),
    } == {
        "entry points": {entry for table in entries for entry in table.items()},
        "wheel": {"xpu", *(str(package.relative_to(root)) for package in packages)},
        "mypy": names,
        "mypy path": {str(folder.relative_to(root)) for folder in plugin_folders},
        "import-linter": names,
    }


def test_tables_without_a_folder_name_it_nowhere_and_the_others_as_before(
    root: Path, plugin_folders: list[Path]
) -> None:
    packages = [next(iter(folder.glob("xpu_*"))).name for folder in plugin_folders]
    before = tomli_w.dumps(project(root))
    for gone in packages:
        left = tomli_w.dumps(first_party.without({gone}, project(root)))
        assert gone not in left
        for other in set(packages) - {gone}:
            assert left.count(other) == before.count(other)


def test_the_root_depends_on_what_the_folders_do(root: Path, plugin_folders: list[Path]) -> None:
    ours = project(root)["project"]
    needed: set[str] = set()
    for folder in plugin_folders:
        needed |= names(project(folder)["project"]["dependencies"])
    assert needed - {ours["name"]} <= names(ours["dependencies"])
