"""Files that are not there, not TOML, or hold what no file may hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xpu.errors import XpuConfigError
from xpu.settings import load_settings

Refused = Callable[..., str]
Load = Callable[..., Any]


def test_a_syntax_error_gives_line_and_column(refused: Refused) -> None:
    said = refused("rules.toml", '[[rules]]\nid = "R1\n')
    assert "this is not TOML" in said
    assert "at line 2, column 9" in said


def test_a_key_that_stands_twice_is_a_syntax_error(refused: Refused) -> None:
    said = refused("families.toml", ('design    = "gemm"', 'design = "gemm"\ndesign = "vec"'))
    assert "at line 4" in said


def test_bad_utf8_gives_line_and_byte(refused: Refused) -> None:
    said = refused("buckets.toml", b'# one\n# two\n[buckets."caf\xe9"]\nkind = "exact"\n')
    assert "line 3 is not UTF-8: found byte 0xe9" in said


@pytest.mark.parametrize(
    "text",
    [
        "families = " + "[" * 5000 + "]" * 5000,
        "[families.q]\ncap = " + "9" * 5000,
        "[families.q]\ncap = 0x" + "f" * 5000,
        "\x00",
        "binary \x01\x02",
        "[probes.p]\nproblems = [nan, 1979-05-27T07:32:00Z, inf]",
    ],
    ids=["nested", "huge", "huge hexadecimal", "NUL", "binary", "odd values"],
)
def test_hostile_text_is_one_message(refused: Refused, text: str) -> None:
    assert len(refused("families.toml", text)) < 500


def test_a_byte_order_mark_is_passed_over(base: Path, load: Load) -> None:
    path = base / "rules.toml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(load().rules) == 2


def test_a_directory_in_place_of_a_file(base: Path, load: Load) -> None:
    (base / "rules.toml").unlink()
    (base / "rules.toml").mkdir()
    with pytest.raises(XpuConfigError, match=r"rules\.toml: this is a directory; allowed: a TOML"):
        load()


def test_a_pipe_is_not_waited_for(base: Path, load: Load) -> None:
    (base / "rules.toml").unlink()
    os.mkfifo(base / "rules.toml")
    with pytest.raises(XpuConfigError, match=r"rules\.toml: this is not a regular file"):
        load()


def test_a_link_to_nowhere_is_not_passed_over(base: Path, load: Load) -> None:
    (base / "rules.toml").unlink()
    (base / "rules.toml").symlink_to(base / "gone.toml")
    with pytest.raises(XpuConfigError, match=r"rules\.toml: it cannot be read: No such file"):
        load()


def test_a_file_that_may_not_be_read(
    base: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def denied(path: Path, *given: Any, **named: Any) -> Any:
        if path == base / "rules.toml":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", denied)  # root reads everything, so a mode proves nothing
    with pytest.raises(XpuConfigError) as raised:
        load()
    assert str(base / "rules.toml") in str(raised.value)
    assert "Permission denied" in str(raised.value)


def test_a_file_of_many_megabytes_is_not_parsed(refused: Refused) -> None:
    assert "has more than 4194304 bytes" in refused("rules.toml", "#" * (4 * 2**20 + 1))


@pytest.mark.parametrize(
    ("file", "text", "path", "hint"),
    [
        ("families.toml", "[familys.q]", "familys", "did you mean 'families'? allowed: families"),
        ("families.toml", "[[rules]]", "rules", "it belongs in rules.toml; allowed: families"),
        ("families.toml", "name = 1", "name", "found the unknown table 'name'"),
        ("rules.toml", "[rule]", "rule", "did you mean 'rules'?"),
        ("probes.toml", '["a b"]', "'a b'", "found the unknown table 'a b'; allowed: probes"),
    ],
)
def test_an_unknown_table(refused: Refused, file: str, text: str, path: str, hint: str) -> None:
    assert hint in refused(file, text, path)


def test_a_base_directory_that_is_not_there(tmp_path: Path, user: Path) -> None:
    gone = str(tmp_path / "gone")
    for named in (gone, str(user.parent / "x\0y"), "~nobody-of-this-name/x"):
        with pytest.raises(XpuConfigError) as raised:
            load_settings(environ={"XPU_CONFIG_DIR": named})
        assert f"XPU_CONFIG_DIR={named}: there is no such directory" in str(raised.value)


def test_a_directory_that_cannot_be_looked_into(
    load: Load, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may look everywhere, so the system's answer is given here."""
    shut, listdir = {str(user), str(tmp_path)}, os.listdir

    def refuse(path: Any) -> list[str]:
        if str(path) in shut:
            raise PermissionError(13, "Permission denied", path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    said = "it cannot be looked into: Permission denied; check the path and its mode"
    with pytest.raises(XpuConfigError, match=f"{user}: {said}"):
        load()
    shut.remove(str(user))
    with pytest.raises(XpuConfigError, match=f"config={tmp_path}: {said}"):
        load(config=tmp_path)
    with pytest.raises(XpuConfigError, match=f"XPU_CONFIG_DIR={tmp_path}: {said}"):
        load_settings(environ={"XPU_CONFIG_DIR": str(tmp_path)})


def test_a_toml_file_that_nobody_reads_is_told_of_once(
    load: Load, user: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (user / "mine.toml").write_text("this is no TOML")
    (user / "notes.txt").touch()
    for _ in range(2):
        load()
    assert [record.getMessage() for record in caplog.records] == [
        f"{user / 'mine.toml'} is not read; call it one of families.toml, rules.toml, "
        "buckets.toml, probes.toml"
    ]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("gone", "there is no such file or directory"),
        ("empty", "it holds none of families.toml, rules.toml, buckets.toml, probes.toml"),
        ("notes.txt", "allowed: a directory or a .toml file"),
        ("", "allowed: a directory or a .toml file"),
        (7, "allowed: a directory or a .toml file"),
    ],
)
def test_a_config_argument_that_is_of_no_use(
    config: Any, said: str, load: Load, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    given = tmp_path / config if isinstance(config, str) and config else config
    for form in (given, [given]):
        with pytest.raises(XpuConfigError) as raised:
            load(config=form)
        assert str(raised.value).startswith(f"config={given!s}" if given else "config=")
        assert said in str(raised.value)


def test_a_plugins_file_is_named_with_its_plugin(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[[rules]]\nid = 3\n")
    with pytest.raises(XpuConfigError) as raised:
        load(plugin_files=[("acme", path)])
    said = str(raised.value)
    assert said.startswith(f"{path} (of plugin 'acme'; XPU_PLUGINS=-acme blocks it): rules.#1.id: ")
