"""The reference of the command line: what `--help` of every command says, from click itself."""

import inspect
from collections.abc import Iterator

import click

from tensor_reshape.cli.__main__ import COMMANDS, commands
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.server.__main__ import SettingOption
from verification.document.tables import collapse_lines, escape, join_cells

PROGRAM = "tensor-reshape"


def build_commands() -> Iterator[str]:
    """Yields a section for each command."""
    parent = click.Context(commands, info_name=PROGRAM)
    for name, command in sorted(load_all(COMMANDS).items()):
        yield from _build_command(name, command, parent)


def _build_command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """Yields the section of a command, and those of the commands that it has."""
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
    """Yields the table of what a command takes, but for settings of the server: they have a page."""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    rows = [_build_row(option, context) for option in options if not isinstance(option, SettingOption)]
    if len(rows) < len(options):
        yield from ("And every setting of [the configuration](configuration.md) as a flag.", "")
    if rows:
        yield from ("| option | default | meaning |", "|---|---|---|", *rows, "")


def _build_row(option: click.Option, context: click.Context) -> str:
    flags = " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    default = "required" if option.required else _describe_default(option, context)
    return join_cells((flags + value, default, escape(collapse_lines(option.help or ""))))


def _describe_default(option: click.Option, context: click.Context) -> str:
    extra = option.get_help_extra(context)
    return f"`{extra['default']}`" if "default" in extra else ""
