"""The group of commands, and the one place where an error becomes a message and a status.

0: done; 1: the work failed, with a named cause; 2: wrong usage or configuration; 3: `xpu tune`
has left something; 130: interrupted. No traceback reaches a user.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from xpu import __version__
from xpu.cli.groups import NamingGroup
from xpu.errors import XpuConfigError, XpuError

_COMMANDS: Final = {
    "bench": "xpu.cli.bench:bench",
    "build": "xpu.cli.build:build",
    "calibrate": "xpu.cli.calibrate:calibrate",
    "completion": "xpu.cli.completion:completion",
    "device": "xpu.cli.device:device",
    "doctor": "xpu.cli.doctor:doctor",
    "explain": "xpu.cli.explain:explain",
    "families": "xpu.cli.families:families",
    "manifest": "xpu.cli.manifest:manifest",
    "plugin": "xpu.cli.plugin:plugin",
    "probe": "xpu.cli.probe:probe",
    "store": "xpu.cli.store:store",
    "tune": "xpu.cli.tune:tune",
}
_KEPT: Final = "what was finished is kept"


class _Group(NamingGroup):
    """Imports a command when it is asked for, so that each costs only what it needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xpu")
def xpu() -> None:
    """Find the right shape of a compute kernel on this machine, and remember it.

    Not related to the device that PyTorch calls "xpu".
    """


def run(arguments: list[str]) -> int:
    """Run the command line and return its status."""
    _ready_streams()
    logging.basicConfig(format="xpu: %(message)s", level=logging.WARNING)
    try:
        return _status(arguments)
    finally:
        _drop_unwritable()


def _status(arguments: list[str]) -> int:
    try:
        status: Any = xpu.main(arguments, prog_name="xpu", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort as stop:
        return _fail(f"interrupted; {str(stop) or _KEPT}", 130)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except KeyboardInterrupt:
        return _fail(f"interrupted; {_KEPT}", 130)
    except BrokenPipeError:
        return 1  # whoever read the output is gone: nobody is left to say it to
    except XpuError as error:
        return _fail(_told(error), 2 if isinstance(error, XpuConfigError) else 1)
    except OSError as error:
        return _fail(f"a file or the output cannot be read or written: {error}", 1)
    except MemoryError as error:
        return _fail(f"the memory does not suffice: {error}; give smaller sizes", 1)
    except Exception as error:
        return _unexpected(error)
    return status if isinstance(status, int) else 0


def _ready_streams() -> None:
    """Make the standard streams such that any text can be written to them.

    A closed one is the null device: else the next file opened would get its number, and
    output meant for nobody would land in it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_unwritable() -> None:
    """Point a stream that nobody takes at nothing: leaving must not fail on what it holds."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _told(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def _fail(message: str, status: int) -> int:
    with suppress(OSError):
        click.echo(f"xpu: {message}", err=True)
    return status


def _unexpected(error: Exception) -> int:
    if os.environ.get("XPU_TRACEBACK") == "1":
        raise error
    kind = type(error).__name__
    return _fail(
        f"a fault of XPU's own, {kind}: {error}; set XPU_TRACEBACK=1 to see where, and report it", 1
    )
