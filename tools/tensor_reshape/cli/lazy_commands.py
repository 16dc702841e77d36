"""Draws `--help` pages, and imports a command only when it runs, so that no command slows down another one.

- If the program shows its help or its version, or rejects an unknown command, it imports no command.
- If the program shows the help or the completion of one command, it imports only the module of this command.
- On a terminal, rich-click draws the help. In a pipe, click writes the help as plain text. The command classes of
  rich-click are not used, because they would also draw in pipes, and every command would need such a class. This module
  therefore draws the help of all commands.
"""

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

import click

from tensor_reshape.cli.consoles import find_console
from tensor_reshape.runtime.lazy_imports import describe_missing

_LEAST_COLUMNS = 60
"""On a narrower terminal, the description of an option is below the option, because a table would be cut off."""


class HelpContext(click.Context):
    """The context of a click command whose help is drawn on a terminal."""

    def get_help(self) -> str:
        """Returns the help of the command as a drawing or as plain text."""
        console = find_console(sys.stdout)
        if console is not None and console.width >= _LEAST_COLUMNS:
            return _draw_help(self)
        if console is not None:
            self.terminal_width = console.width  # without this setting, click writes help in at least 50 columns
            self.formatter_class = _NarrowFormatter
        return super().get_help()


class _NarrowFormatter(click.HelpFormatter):
    """Writes the help of a command, with the description of an option on the line below the option."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 6, col_spacing: int = 2) -> None:
        """Writes a list of options or commands with their descriptions."""
        super().write_dl(rows, col_max, col_spacing)


def _draw_help(context: click.Context) -> str:
    import rich_click  # noqa: PLC0415 - plain output does not need it

    command = context.command
    settings = {name: getattr(command, name) for name in ("name", "params", "help", "epilog", "add_help_option")}
    twin = (
        rich_click.RichGroup(**settings, commands=command.commands)
        if isinstance(command, click.Group)
        else rich_click.RichCommand(**settings)
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


class LazyCommand(click.Command):
    """A command that is not imported yet, with its name and its summary."""

    def __init__(self, name: str, summary: str, location: str, extra: str = "") -> None:
        """Creates the command.

        Args:
            name: the name on the command line.
            summary: the first sentence of the command's help.
            location: the module and the name of the command in it, for example `tensor_reshape.cli.commands:health`.
                The location is text, because the command line must not import the server, which is an extra.
            extra: the extra that the user must install if the import of the module fails.
        """
        super().__init__(name, help=summary)
        self._summary, self._location, self._extra = summary, location, extra

    def load(self) -> click.Command:
        """Imports and returns the command.

        If the import fails only because the extra of the command is not installed, the function returns a command whose
        help and error name this extra.
        """
        module, _, attribute = self._location.partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            from tensor_reshape.runtime.requirements import describe_unmet_requirements  # noqa: PLC0415 - a slow import

            if not self._extra or describe_unmet_requirements():
                raise
            rejection = reject_missing_extra(error, str(self.name), self._extra)

            def fail() -> None:
                raise rejection from None

            settings = {"ignore_unknown_options": True, "allow_extra_args": True}
            text = (
                f"{self._summary}\n\n\b\n{rejection.message}"  # \\b keeps click from breaking the commands into lines
            )
            command = click.Command(self.name, callback=fail, help=text, context_settings=settings)
        command.context_class = HelpContext  # the server package creates its commands without this class
        return command


class LazyGroup(click.Group):
    """A command group whose help is drawn on a terminal. Its commands may be instances of `LazyCommand`."""

    context_class = HelpContext

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command that the arguments name, and imports it if it is lazy."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


def reject_missing_extra(error: ModuleNotFoundError, name: str, extra: str) -> click.ClickException:
    """Returns the error to raise if the extra of a command is not installed."""
    return click.ClickException(describe_missing(name, extra, error))


def load_all(commands: Sequence[click.Command]) -> dict[str, click.Command]:
    """Returns all commands by name, for example for the documentation."""
    return {str(command.name): command.load() if isinstance(command, LazyCommand) else command for command in commands}
