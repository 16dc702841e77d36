"""The reference of the command line, from the help texts of click."""

import inspect
from collections.abc import Iterator

import click

from tensor_reshape.cli.__main__ import COMMANDS, commands
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.cli.options import connection_options
from tensor_reshape.server.config import SETTINGS
from tensor_reshape.server.options import SettingOption
from verification.document.tables import collapse_lines, escape, join_cells

PROGRAM = "tensor-reshape"


@click.command
@connection_options
def _connect() -> None:
    """Declares only the connection options, which most commands share."""


CONNECTION = frozenset(str(option.name) for option in _connect.params)


def build_commands() -> Iterator[str]:
    """Yields the table of connection options, and a section for each command."""
    parent = click.Context(commands, info_name=PROGRAM)
    yield from ("## Connection options", "", *_build_connection_options(click.Context(_connect, parent=parent)), "")
    for name, command in sorted(load_all(COMMANDS).items()):
        yield from _build_command(name, command, parent)


def _build_connection_options(context: click.Context) -> Iterator[str]:
    """Yields the table of the connection options, with their environment variables."""
    yield from ("You can use these options with every command that calls a server. A flag overrides its variable.", "")
    yield from ("| option | variable | default | meaning |", "|---|---|---|---|")
    for option in _connect.params:
        if isinstance(option, click.Option):
            yield join_cells(_list_cells(option, context, _list_variables(option)))


def _list_variables(option: click.Option) -> str:
    """Returns the environment variables of an option. click has one name or a list of names."""
    names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
    return " ".join(f"`{name}`" for name in names)


def _build_command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """Yields the section of a command and of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent)
    path = context.command_path.removeprefix(f"{PROGRAM} ")
    yield from (f"## {path}", "", "```text", f"{PROGRAM} {path} {' '.join(command.collect_usage_pieces(context))}")
    yield from ("```", "", *_build_paragraphs(command.help), *_build_options(command, context))
    yield from _build_paragraphs(command.epilog)
    for inner, following in sorted(command.commands.items()) if isinstance(command, click.Group) else ():
        yield from _build_command(inner, following, context)


def _build_paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b\n"):  # click's mark of lines that stay as they are
            yield from ("```text", *paragraph.splitlines()[1:], "```", "")
        elif paragraph:
            yield from (escape(collapse_lines(paragraph)), "")


def _build_options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yields the table of a command's options, without the settings of the server and the connection options."""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    own = [option for option in options if not (isinstance(option, SettingOption) or option.name in CONNECTION)]
    if own:
        rows = (join_cells(_list_cells(option, context)) for option in own)
        yield from ("| option | default | meaning |", "|---|---|---|", *rows, "")
    settings = {option.name for option in options if isinstance(option, SettingOption)}
    if settings:
        others = ", ".join(f"`{setting.flag}`" for setting in SETTINGS if setting.name not in settings)
        text = "You can also pass every setting of [the configuration](configuration.md) as a flag"
        yield from (f"{text}, except {others}." if others else f"{text}.", "")
    if {option.name for option in options} >= CONNECTION:
        yield from ("You can also pass the [connection options](#connection-options).", "")


def _list_cells(option: click.Option, context: click.Context, *more: str) -> tuple[str, ...]:
    """Returns the cells of an option: its flags, further cells, its default, and its help."""
    flags = " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    default = "required" if option.required else _describe_default(option, context)
    return flags + value, *more, default, escape(collapse_lines(option.help or ""))


def _describe_default(option: click.Option, context: click.Context) -> str:
    extra = option.get_help_extra(context)
    return f"`{extra['default']}`" if "default" in extra else ""
