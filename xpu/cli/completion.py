"""``xpu completion``: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script: eval "$(xpu completion bash)"."""
    from click.shell_completion import get_completion_class

    from xpu.cli.app import xpu

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    # bash's version is asked by running it, which needs none of the program.
    click.echo(kind(xpu, {}, "xpu", "_XPU_COMPLETE").source())
