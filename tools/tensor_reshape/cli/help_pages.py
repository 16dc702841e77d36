"""Shows the `--help` pages, which rich-click draws on a terminal and click writes to a pipe.

The command classes of rich-click would also draw in pipes, and every command would have to use them. This module
therefore draws the help of all commands.
"""

import sys
from collections.abc import Iterable

import click

from tensor_reshape.cli.consoles import find_console

_LEAST_COLUMNS = 60
"""On a narrower terminal, the description of an option is below the option, because a table would be cut off."""


class HelpContext(click.Context):
    """The context of a click command whose help is drawn on a terminal."""

    def get_help(self) -> str:
        """Returns the help of the command."""
        console = find_console(sys.stdout)
        if console is not None and console.width >= _LEAST_COLUMNS:
            return _draw_help(self)
        if console is not None:
            self.terminal_width = console.width  # without this setting, click writes help in at least 50 columns
            self.formatter_class = _NarrowFormatter
        return super().get_help()


class _NarrowFormatter(click.HelpFormatter):
    """Writes the description of an option on the line below the option."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 6, col_spacing: int = 2) -> None:
        """Writes a list of options or commands with their descriptions."""
        super().write_dl(rows, col_max, col_spacing)


def _draw_help(context: click.Context) -> str:
    import rich_click  # noqa: PLC0415 - plain output does not need it

    command = context.command
    twin: rich_click.RichCommand = rich_click.RichCommand(
        name=command.name,
        params=command.params,
        help=command.help,
        epilog=command.epilog,
        add_help_option=command.add_help_option,
    )
    if isinstance(command, click.Group):
        twin = rich_click.RichGroup(
            name=command.name,
            params=command.params,
            help=command.help,
            epilog=command.epilog,
            commands=command.commands,
        )
    drawn = rich_click.RichContext(
        twin,
        info_name=context.info_name,
        parent=context.parent,
        auto_envvar_prefix=context.auto_envvar_prefix,
        help_option_names=context.help_option_names,
        rich_help_config={"max_width": 100, "text_markup": None, "theme": "default-nu"},
    )
    return twin.get_help(drawn)
