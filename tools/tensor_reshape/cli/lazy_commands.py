"""Commands that are imported when they run, so that they do not slow down other commands.

- The help of the group, its version and an unknown command import no command.
- The help and the completion of one command import only that command.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

import click

from tensor_reshape.cli.help_pages import HelpContext


class LazyCommand(click.Command):
    """The name and the summary of a command that is not imported yet."""

    def __init__(self, name: str, summary: str, load: Callable[[], click.Command]) -> None:
        """Creates the command.

        Args:
            name: the name on the command line.
            summary: the first sentence of the command's help.
            load: returns the command.
        """
        super().__init__(name, help=summary)
        self.load = load


class LazyGroup(click.Group):
    """A group with drawn help, whose commands may be lazy."""

    context_class = HelpContext

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command to run or to complete."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command = command.load()
            command.context_class = HelpContext  # also for commands of the server, which do not set it
        return name, command, rest


def find_module(name: str, extra: str = "") -> Callable[[], click.Command]:
    """Returns a function that loads a command of this package.

    Args:
        name: the module and the command in it, for example `commands:health`.
        extra: the extra to install if an import fails.
    """

    def load() -> click.Command:
        module, _, attribute = name.partition(":")
        try:
            command: click.Command = getattr(import_module(f"tensor_reshape.cli.{module}"), attribute)
        except ModuleNotFoundError as error:
            if not extra:
                raise
            raise _reject_missing(attribute, extra, error) from None
        return command

    return load


def find_extra(name: str, extra: str) -> Callable[[], click.Command]:
    """Returns a function that loads a command of an extra.

    Args:
        name: the name of its entry point. The command line never imports the server by name, because it is an extra.
        extra: the extra to install if an import fails.
    """

    def load() -> click.Command:
        from importlib.metadata import entry_points  # noqa: PLC0415 - it takes as long as all of click

        (entry_point,) = entry_points(group="tensor_reshape.commands", name=name)
        try:
            command: click.Command = entry_point.load()
        except ModuleNotFoundError as error:
            raise _reject_missing(name, extra, error) from None
        return command

    return load


def _reject_missing(name: str, extra: str, error: ModuleNotFoundError) -> click.ClickException:
    message = f"{name} needs an extra: pip install 'tensor-reshape[{extra}]' (missing: {error.name})"
    return click.ClickException(message)


def load_all(commands: Sequence[click.Command]) -> dict[str, click.Command]:
    """Returns all commands by name, for example for the documentation."""
    return {str(command.name): command.load() if isinstance(command, LazyCommand) else command for command in commands}
