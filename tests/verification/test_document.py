"""The generated parts of the reference name all of their subjects."""

import re

import click

from tensor_reshape.cli.__main__ import COMMANDS as LAZY_COMMANDS
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.client import Reason
from tensor_reshape.server.__main__ import serve
from tensor_reshape.server.options import SettingOption
from verification.document import CONNECTION, build_commands, build_configuration
from verification.explanations import EXPLANATIONS

SETTINGS = [option for option in serve.params if isinstance(option, SettingOption)]


def read_sections() -> dict[str, str]:
    """Returns the sections on commands by their headings."""
    return dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", "\n".join(build_commands()), re.M | re.S))


def test_configuration_page_has_a_row_for_each_setting():
    text = "\n".join(build_configuration())

    assert [
        one.name for one in SETTINGS if not re.search(rf"^\| `{one.opts[0]}`.*{re.escape(str(one.help))}", text, re.M)
    ] == []


def test_commands_page_has_each_command_with_its_options():
    settings = {option.name for option in SETTINGS}
    sections = read_sections()

    assert [
        (name, option.opts)
        for name, command in load_all(LAZY_COMMANDS).items()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and option.name not in settings - CONNECTION
        if f"`{option.opts[0]}`" not in sections["Connection options" if option.name in CONNECTION else name]
    ] == []


def test_client_commands_link_to_the_connection_options():
    commands = load_all(LAZY_COMMANDS).items()
    calling = {name for name, command in commands if {option.name for option in command.params} >= CONNECTION}

    assert {name for name, text in read_sections().items() if "(#connection-options)" in text} == calling


def test_errors_page_explains_every_error_reason():
    assert set(EXPLANATIONS) == set(Reason)
