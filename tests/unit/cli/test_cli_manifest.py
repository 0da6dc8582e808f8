"""``manifest show`` and ``diff``: by name and by file, with and without a device's facts."""

from __future__ import annotations

import gzip
import shutil
import tomllib
import types
from pathlib import Path

import pytest

from xpu.spec import build_cache_directory

NO_TOOLS = types.SimpleNamespace(which=lambda _: None)
FACTS = """name = "a part"
wave_width = 8
max_threads_per_block = 64
max_threads_per_multiprocessor = 64
"""


@pytest.fixture
def built(xpu, tmp_path: Path) -> dict[str, Path]:
    """The manifests of two members as files, each with its code object."""
    rows = xpu("build", "toy", "--json").document
    hashes = {row["code_hash"]: row["member"] for row in rows if row.get("code_hash")}
    found = {}
    for path in build_cache_directory().rglob("manifest.toml"):
        name = hashes.get(tomllib.loads(path.read_text())["code_hash"])
        if name is not None:
            found[name] = tmp_path / f"{name}.toml"
            shutil.copy(path, found[name])
            shutil.copy(path.with_name("code"), found[name].with_suffix(".code"))
    return found


def test_a_kernel_is_shown_by_name_and_by_file_alike(xpu, built) -> None:
    by_name = xpu("manifest", "show", "toy.plain", "--json").document
    assert by_name == xpu("manifest", "show", built["plain"], "--json").document
    assert by_name["kernel"] == "toy.plain"
    assert by_name["buffers"] == [
        {"name": "x", "mode": "read", "is_derived": False},
        {"name": "y", "mode": "write", "is_derived": False},
    ]
    assert "occupancy" not in by_name
    shown = xpu("manifest", "show", f"toy.plain@{by_name['target']}").out
    for text in (by_name["code_hash"], "declared", "stack_bytes"):
        assert text in shown
    assert "registers" not in shown  # absent stays absent


def test_a_facts_file_says_what_fits(xpu, tmp_path) -> None:
    (tmp_path / "facts.toml").write_text(FACTS)
    answer = xpu("manifest", "show", "toy.plain", "--facts", tmp_path / "facts.toml", "--json")
    said = answer.document["occupancy"]
    # These rules record no resident groups, and the toy states no block.
    assert said == {
        "device": "a part",
        "resident_groups": None,
        "limiters": [],
        "feasible_blocks": [],
        "pruned": "",
    }


def test_what_differs_is_listed_by_field(xpu, built) -> None:
    answer = xpu("manifest", "diff", "toy.plain", built["coarse"], "--json")
    fields = {row["field"]: (row["first"], row["second"]) for row in answer.document["fields"]}
    assert fields["kernel"] == ("toy.plain", "toy.coarse")
    assert "code_hash" in fields
    assert "target" not in fields
    text = xpu("manifest", "diff", "toy.plain", "toy.coarse").out
    assert "toy.coarse" in text
    assert "the manifests say the same" in xpu("manifest", "diff", "toy.plain", "toy.plain").out


@pytest.mark.parametrize(("first", "second"), [((128, 256), (64, 256)), ((256,), (256, 256))])
def test_entries_of_one_name_are_all_compared(xpu, built, tmp_path, first, second) -> None:
    text = built["plain"].read_text().replace("launch_sites = []\n", "")
    for name, sizes in (("a", first), ("b", second)):
        sites = [f'[[launch_sites]]\nwhere = "host.py:3"\nthreads = {size}\n' for size in sizes]
        (tmp_path / f"{name}.toml").write_text("\n".join([text, *sites]))
    answer = xpu("manifest", "diff", tmp_path / "a.toml", tmp_path / "b.toml", "--json")
    shown = ["; ".join(map(str, sizes)) for sizes in (first, second)]
    assert answer.document["fields"] == [
        {"field": "launch_sites.host.py:3", "first": shown[0], "second": shown[1]}
    ]


def test_the_code_of_two_builds_stands_side_by_side(xpu) -> None:
    same = xpu("manifest", "diff", "toy.plain", "toy.plain", "--code").out
    assert same.rstrip().endswith("the same")
    answer = xpu("manifest", "diff", "toy.plain", "toy.coarse", "--code", "--json").document["code"]
    gone = [line for line in answer["diff"] if line.startswith("-") and line[1:2] != "-"]
    come = [line for line in answer["diff"] if line.startswith("+") and line[1:2] != "+"]
    assert gone
    assert any("512" in line or "0x200" in line for line in come)  # the grain of the second
    rows = xpu("manifest", "diff", "toy.plain", "toy.coarse", "--code").out
    assert any(f" {sign} " in rows for sign in "|<>")


def test_without_a_disassembler_the_compilers_text_is_compared(xpu, monkeypatch) -> None:
    monkeypatch.setattr("xpu_backend_cpu.disassembly.shutil", NO_TOOLS)
    answer = xpu("manifest", "diff", "toy.plain", "toy.coarse", "--code", "--json").document["code"]
    assert answer["form"] == "text that the compiler made the code of"
    assert any(".cfi" in line or "\t" in line or "mov" in line for line in answer["diff"])


def test_without_either_the_error_says_what_to_install(xpu, built, monkeypatch) -> None:
    monkeypatch.setattr("xpu_backend_cpu.disassembly.shutil", NO_TOOLS)
    answer = xpu("manifest", "diff", built["plain"], "toy.coarse", "--code")
    assert answer.status == 1
    assert "there is no objdump; install binutils" in answer.err
    assert "name the kernel in place of the file" in answer.err


def test_a_kernel_without_either_is_not_asked_for_by_name_again(xpu, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "own"))
    monkeypatch.setattr("xpu_backend_cpu.disassembly.shutil", NO_TOOLS)
    assert xpu("build", "toy").status == 1  # one of its members does not compile
    for listing in build_cache_directory().rglob("listing.gz"):
        listing.unlink()
    answer = xpu("manifest", "diff", "toy.plain", "toy.coarse", "--code")
    assert answer.status == 1
    assert "for its backend keeps none" in answer.err
    assert "in place of the file" not in answer.err


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"no gzip",
        lambda data: data[:40],
        lambda data: data[:30] + b"\xff" * 9 + data[39:],
        lambda data: b"",
        lambda data: gzip.compress(b"\xff"),
    ],
)
def test_a_damaged_text_of_the_compiler_is_one_error_and_built_again(
    xpu, monkeypatch, tmp_path, damage
):
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "own"))
    monkeypatch.setattr("xpu_backend_cpu.disassembly.shutil", NO_TOOLS)
    command = ("manifest", "diff", "toy.plain", "toy.coarse", "--code")
    right = xpu(*command)
    listing = next(build_cache_directory().rglob("listing.gz"))
    listing.write_bytes(damage(listing.read_bytes()))
    answer = xpu(*command)
    assert answer.status == 1
    assert f"the compiler's text {listing} is damaged" in answer.err
    listing.unlink()
    listing.with_name("code").unlink()
    assert xpu(*command) == right


@pytest.mark.parametrize(
    ("kernel", "status", "words"),
    [
        ("toy.plane", 2, "no kernel is called 'toy.plane'; did you mean 'toy.plain'"),
        ("tay.plain", 2, "did you mean 'toy'"),
        ("nowhere/x.toml", 2, "nowhere/x.toml: there is no such file"),
        ("toy.broken", 1, "this member does not compile"),
        ("toy.prepare", 1, "the family prepares no weights for cpu"),
        ("toy.plain.nope", 2, "no kernel is called 'toy.plain.nope'; did you mean 'toy.plain'"),
        ("toy.plain@sm_9", 2, "--target sm_9: no compiler knows it; allowed: what a backend"),
    ],
)
def test_what_is_not_there_is_said(xpu, kernel, status, words) -> None:
    answer = xpu("manifest", "show", kernel)
    assert answer.status == status
    assert words in answer.err
    assert "allowed: toy.prepare" not in answer.err
    assert ", toy.prepare" not in answer.err


def test_a_kernel_is_shown_only_where_it_exists(xpu, config) -> None:
    file = config / "families.toml"
    text = file.read_text()
    file.write_text(text.replace('name = "plain"', 'name = "plain"\ndialects = ["simt"]'))
    for how in (("toy.plain",), ("toy.plain@x86-64-v3",), ("toy.plain", "--target", "cpu")):
        answer = xpu("manifest", "show", *how)
        assert (answer.status, answer.out) == (2, "")
        assert "toy.plain: it does not exist in dialect 'c', which is that of target" in answer.err
        assert "with --target, or as toy.plain@TARGET" in answer.err


def test_a_backends_name_is_a_target_as_in_build(xpu) -> None:
    native = xpu("manifest", "show", "toy.plain", "--json").document
    for how in (("--target", "cpu"), ("--backend", "cpu"), ("--backend", "cpu", "--target", "cpu")):
        assert xpu("manifest", "show", "toy.plain", *how, "--json").document == native
    assert xpu("manifest", "show", "toy.plain@cpu", "--json").document == native


def test_another_schema_is_refused_with_what_to_type(xpu, built) -> None:
    text = built["plain"].read_text()
    built["plain"].write_text(text.replace("schema = 2", "schema = 7"))
    answer = xpu("manifest", "show", built["plain"])
    assert answer.status == 1
    assert "manifest schema 7; this version of XPU reads 2: xpu build toy --target" in answer.err
    assert f"xpu: {built['plain']}: manifest schema 7" in answer.err


def test_a_file_that_is_no_manifest_is_refused(xpu, tmp_path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    answer = xpu("manifest", "show", tmp_path / "x.toml")
    assert answer.status == 1
    assert "not a manifest" in answer.err
