"""A group of commands that says which there are when one is asked for that is not."""

from __future__ import annotations

import click

from xpu.model import nearest


class NamingGroup(click.Group):
    """Names the nearest command in place of one that there is not."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown name, and say what was likely meant or what is allowed."""
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            raise click.UsageError(
                f"no command is called {args[0]!r}; {nearest(args[0], names)}", ctx
            )
        return super().resolve_command(ctx, args)
