"""``plugin new``: names and places that it takes, and those that it leaves alone."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import toy_family as toy

from xpu.spec import Probe, hookimpl
from xpu.testing import NullBackend

KINDS = ("backend", "family", "probe")


class Look(Probe):
    name = "look"
    summary = "looks"

    def run(self, context):
        return ()


class Other:
    """A plugin that is loaded, whatever its distribution."""

    @hookimpl
    def xpu_designs(self):
        return [type("Scaled", (toy.Toy,), {"name": "scaled"})()]

    @hookimpl
    def xpu_backends(self):
        return [NullBackend(name="quick")]

    @hookimpl
    def xpu_probes(self):
        return [Look()]


@pytest.fixture
def others(xpu, config: Path, tmp_path: Path, monkeypatch) -> None:
    registry = toy.toy_registry(("other", Other(), "other-xpu"))
    monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
    families = config / "families.toml"
    text = families.read_text()
    families.write_text(text + text.replace("families.toy", "families.declared"))
    for name, point in (("xpu-probe-there", "elsewhere"), ("toy", "toy")):
        installed = tmp_path / "site" / f"{name.replace('-', '_')}-1.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (installed / "entry_points.txt").write_text(f"[xpu]\n{point} = other\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_distribution_is_written(kind, xpu, tmp_path: Path) -> None:
    answer = xpu("plugin", "new", kind, "fast_part2", "--into", tmp_path / "new", "--json")
    assert answer.status == 0
    made = answer.document
    folder = tmp_path / "new" / f"xpu-{kind}-fast-part2"
    assert made["directory"] == str(folder)
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert written == set(made["files"])
    package = f"xpu_{kind}_fast_part2"
    assert {"pyproject.toml", "README.md", f"{package}/__init__.py"} <= written
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert (project["name"], made["distribution"]) == (folder.name, folder.name)
    assert project["entry-points"]["xpu"] == {"fast_part2": f"{package}.plugin"}
    assert not any("$" in path.read_text() for path in folder.rglob("*") if path.is_file())


def test_a_backend_can_be_read_in_one_go(xpu, tmp_path: Path) -> None:
    assert xpu("plugin", "new", "backend", "fast_part2", "--into", tmp_path).status == 0
    package = tmp_path / "xpu-backend-fast-part2" / "xpu_backend_fast_part2"
    lines = [line for path in package.iterdir() for line in path.read_text().splitlines()]
    assert len(lines) < 160


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_formatted_and_clean(kind, xpu, tmp_path: Path) -> None:
    assert xpu("plugin", "new", kind, "fast_part2", "--into", tmp_path).status == 0
    folder = tmp_path / f"xpu-{kind}-fast-part2"
    ruff = [sys.executable, "-m", "ruff"]
    checks = ["check", "--select", "B,D,E,F,I,SIM,UP,W", "--ignore", "D1,D203,D213"]
    for options in (checks, ["format", "--check"]):
        done = subprocess.run(
            [*ruff, *options, "--isolated", "--line-length", "100", "--no-cache"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_for_a_person_it_says_what_comes_next(xpu, tmp_path: Path) -> None:
    answer = xpu("plugin", "new", "probe", "mine", "--into", tmp_path)
    assert answer.status == 0
    assert answer.out.splitlines()[0] == str(tmp_path / "xpu-probe-mine")
    assert "pip install" in answer.out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("My-Part", "did you mean 'my_part'?"),
        ("2fast", "did you mean 'fast'?"),
        ("two__lines", "did you mean 'two_lines'?"),
        ("../up", "did you mean 'up'?"),
        ("été", "allowed: lower-case letters"),
        ("", "allowed: lower-case letters"),
        ("_", "allowed: lower-case letters"),
        ("a" * 41, "at most 40"),
        ("a\nb", "did you mean 'a_b'?"),
    ],
)
def test_what_is_no_name_is_refused(name, said, xpu, tmp_path: Path) -> None:
    answer = xpu("plugin", "new", "backend", name, "--into", tmp_path, "--json")
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err
    assert list(tmp_path.iterdir()) == [tmp_path / "config"]


def test_an_installed_plugins_name_is_refused(xpu, tmp_path: Path, monkeypatch) -> None:
    installed = tmp_path / "site" / "other-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[xpu]\ntaken = other\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    answer = xpu("plugin", "new", "probe", "taken", "--into", tmp_path)
    assert answer.status == 2
    assert "a plugin called 'taken' is installed by other" in answer.err


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("family", "toy", "a plugin called 'toy' is installed by toy"),
        ("family", "scaled", "design 'scaled' is brought by plugin 'other' of other-xpu"),
        ("backend", "quick", "backend 'quick' is brought by plugin 'other' of other-xpu"),
        ("probe", "look", "probe 'look' is brought by plugin 'other' of other-xpu"),
        ("family", "declared", "family 'declared' is declared (see xpu families)"),
        ("probe", "there", "distribution xpu-probe-there is installed"),
    ],
)
def test_a_name_that_somebody_has_is_refused(kind, name, said, xpu, others, tmp_path: Path) -> None:
    answer = xpu("plugin", "new", kind, name, "--into", tmp_path / "new", "--json")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err == f"xpu: {said}; give another name\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("kind", "name"), [("probe", "scaled"), ("family", "quick")])
def test_a_name_of_another_kind_is_free(kind, name, xpu, others, tmp_path: Path) -> None:
    assert xpu("plugin", "new", kind, name, "--into", tmp_path).status == 0


def test_a_configuration_that_is_wrong_is_no_hindrance(xpu, config, tmp_path: Path) -> None:
    (config / "families.toml").write_text("[families")
    assert xpu("plugin", "new", "family", "mine", "--into", tmp_path).status == 0


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_nothing_is_overwritten(kind, xpu, tmp_path: Path) -> None:
    place = tmp_path / "xpu-family-mine"
    if kind == "file":
        place.write_text("mine")
    elif kind == "folder":
        place.mkdir()
        (place / "README.md").write_text("mine")
    else:
        place.symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    answer = xpu("plugin", "new", "family", "mine", "--into", tmp_path)
    assert answer.status == 2
    assert f"{place} is there already" in answer.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_written_is_named_and_left_as_it_was(xpu, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = xpu("plugin", "new", "probe", "mine", "--into", tmp_path / "file")
    assert answer.status == 1
    assert f"{tmp_path / 'file' / 'xpu-probe-mine'} cannot be written" in answer.err


def test_a_template_that_fails_half_way_leaves_nothing(xpu, tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    answer = xpu("plugin", "new", "probe", "mine", "--into", tmp_path / "new")
    assert answer.status == 1
    assert "No space left" in answer.err
    assert list((tmp_path / "new").iterdir()) == []
