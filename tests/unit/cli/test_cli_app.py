"""Statuses and messages: no error of any kind reaches a user as a traceback."""

from __future__ import annotations

import os

import pytest

from xpu import XpuBuildError, XpuConfigError, XpuLaunchException, __version__
from xpu.cli.app import run


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (XpuConfigError("a key is wrong"), 2, "a key is wrong"),
        (XpuBuildError("no compiler"), 1, "no compiler"),
        (XpuLaunchException("nothing survives"), 1, "nothing survives"),
        (OSError(28, "No space left on device", "/place"), 1, "/place"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 1, ""),
        (MemoryError("Unable to allocate 3 TiB"), 1, "the memory does not suffice: Unable to"),
        (ZeroDivisionError("by zero"), 1, "a fault of XPU's own, ZeroDivisionError: by zero"),
    ],
)
def test_an_error_is_a_message_and_a_status(error, status, said, monkeypatch, capsys) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("xpu.registry.default_registry", fail)
    assert run(["families"]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tume"], "no command is called 'tume'; did you mean 'tune'?"),
        (["store", "lost"], "no command is called 'lost'; did you mean 'list'? allowed: "),
        (["probe", "go"], "no command is called 'go'; allowed: list, run"),
        (["plugin", "newer"], "no command is called 'newer'; did you mean 'new'? allowed: new"),
        (["manifest", "zzz"], "no command is called 'zzz'; allowed: diff, show"),
    ],
)
def test_a_command_that_there_is_not_is_named_with_those_that_are(arguments, said, capsys) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_notes_of_an_error_are_told(monkeypatch, capsys) -> None:
    error = XpuLaunchException("first")
    error.add_note("and then second")

    def fail() -> None:
        raise error

    monkeypatch.setattr("xpu.registry.default_registry", fail)
    assert run(["families"]) == 1
    assert capsys.readouterr().err == "xpu: first\nand then second\n"


def test_a_fault_of_ones_own_can_be_traced(monkeypatch) -> None:
    monkeypatch.setattr("xpu.registry.default_registry", lambda: 1 / 0)
    monkeypatch.setenv("XPU_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run(["families"])


def test_an_unknown_command_names_the_nearest(xpu) -> None:
    answer = xpu("famillies")
    assert answer.status == 2
    assert "did you mean 'families'?" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--nonsense"],
        [""],
        ["probe"],
        ["store"],
        ["probe", "run", "--batch", "1"],
        ["probe", "run", "--memory", "hot"],
        ["probe", "run", "--device", "-1"],
        ["explain"],
        ["explain", "toy"],
        ["explain", "toy", "256", "more"],
        ["bench", "toy"],
        ["completion", "tcsh"],
        ["store", "show"],
        ["store", "remove"],
        ["store", "remove", "a", "--all"],
    ],
)
def test_wrong_usage(arguments, xpu) -> None:
    answer = xpu(*arguments)
    assert answer.status == 2
    assert answer.out == ""
    assert "Usage: xpu" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "tou", "256"],
        ["bench", "toy", "1x2"],
        ["bench", "toy", "-"],
        ["bench", "toy", "9" * 5000],
        ["bench", "toy", str(2**63)],
        ["bench", "toy", "0"],
        ["build", "toy", "nonsense"],
        ["build", "--backend", "gpu"],
        ["device", "--backend", "gpu"],
        ["probe", "run", "tile_prewarn"],
        ["probe", "run", "--model", "/nonexistent"],
        ["probe", "run", "--model", "/"],
        ["probe", "run", "--model", "x" * 5000],
        ["probe", "run", "--model", os.devnull],
        ["probe", "run", "--model", __file__],
        ["probe", "run", "--model", __file__, "--batch", ""],
        ["probe", "run", "--model", __file__, "--batch", "9" * 5000],
        ["explain", "toy", "256", "--facts", "/nonexistent"],
    ],
)
def test_what_is_not_there_or_no_value_is_one_message(arguments, xpu) -> None:
    answer = xpu(*arguments, "--json")
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.startswith("xpu: ")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("command", ["families", "doctor", "device", "probe run", "explain toy 1"])
def test_a_wrong_configuration_ends_every_command_that_reads_it(command, config, xpu) -> None:
    (config / "families.toml").write_text('[families.toy]\ndesign = "toi"\n')
    answer = xpu(*command.split(), "--json")
    if command == "device":  # it reads none
        assert answer.status == 0
        return
    assert (answer.status, answer.out) == (2, "")
    assert str(config / "families.toml") in answer.err


def test_help_and_version(xpu) -> None:
    assert xpu("--version").out == f"xpu, version {__version__}\n"
    shown = xpu("-h").out
    for name in ("doctor", "device", "families", "build", "explain", "probe", "bench", "store"):
        assert f"\n  {name} " in shown
        assert xpu(name, "--help").status == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell, xpu) -> None:
    script = xpu("completion", shell).out
    assert f"_XPU_COMPLETE={shell}_complete" in script
