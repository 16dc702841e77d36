"""Commands that are imported when they are run: what the others need costs them nothing.

Laws:

- The help of the group, its version and a mistaken command import no command.
- Whatever is asked of one command, its help and its completion included, imports that one.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

import click

from tensor_reshape.cli.help_pages import HelpContext


class LazyCommand(click.Command):
    """A name and a line of help, until the command itself is asked for."""

    def __init__(self, name: str, summary: str, load: Callable[[], click.Command]) -> None:
        """Keeps how to get the command.

        Args:
            name: on the command line.
            summary: the first sentence of the command's own help.
            load: returns the command.
        """
        super().__init__(name, help=summary)
        self.load = load


class LazyGroup(click.Group):
    """A group whose help is drawn on terminals, and whose commands may be lazy."""

    context_class = HelpContext

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command that is to be run, or completed, itself."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command = command.load()
            command.context_class = HelpContext  # also those of the server, which know nothing of it
        return name, command, rest


def find_module(name: str, extra: str = "") -> Callable[[], click.Command]:
    """Returns what loads the command of a module of this package.

    Args:
        name: of the module, and in it: `commands:health`.
        extra: what to install, if a module that it imports is missing.
    """

    def load() -> click.Command:
        module, _, attribute = name.partition(":")
        try:
            command: click.Command = getattr(import_module(f"tensor_reshape.cli.{module}"), attribute)
        except ModuleNotFoundError as error:
            if not extra:
                raise
            raise _refuse_missing(attribute, extra, error) from None
        return command

    return load


def find_extra(name: str, extra: str) -> Callable[[], click.Command]:
    """Returns what loads a command that an extra adds.

    Args:
        name: of its entry point. The command line never imports the server by name: it is an extra.
        extra: what to install, if its modules are missing.
    """

    def load() -> click.Command:
        from importlib.metadata import entry_points  # noqa: PLC0415 - it takes as long as all of click

        (entry_point,) = entry_points(group="tensor_reshape.commands", name=name)
        try:
            command: click.Command = entry_point.load()
        except ModuleNotFoundError as error:
            raise _refuse_missing(name, extra, error) from None
        return command

    return load


def _refuse_missing(name: str, extra: str, error: ModuleNotFoundError) -> click.ClickException:
    message = f"{name} needs an extra: pip install 'tensor-reshape[{extra}]' (missing: {error.name})"
    return click.ClickException(message)


def load_all(commands: Sequence[click.Command]) -> dict[str, click.Command]:
    """Returns all commands themselves, by their names: for whoever writes about them."""
    return {str(command.name): command.load() if isinstance(command, LazyCommand) else command for command in commands}
