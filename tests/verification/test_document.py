"""The generated parts of the reference name everything that they are about."""

import re

import click

from tensor_reshape.cli.__main__ import COMMANDS as LAZY_COMMANDS
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.server.__main__ import SettingOption, serve
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from verification.document.commands import build_commands
from verification.document.configuration import build_configuration
from verification.document.contract import build_contract, read_sources

SETTINGS = [option for option in serve.params if isinstance(option, SettingOption)]


def test_configuration_has_a_row_with_the_help_of_each_setting():
    text = "\n".join(build_configuration())

    assert [
        one.name for one in SETTINGS if not re.search(rf"^\| `{one.opts[0]}`.*{re.escape(str(one.help))}", text, re.M)
    ] == []


def test_commands_have_a_section_with_each_option():
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", "\n".join(build_commands()), re.M | re.S))
    shared = {option.name for option in SETTINGS}

    assert [
        (name, option.opts)
        for name, command in load_all(LAZY_COMMANDS).items()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and option.name not in shared
        if f"`{option.opts[0]}`" not in sections[name]
    ] == []


def test_contract_has_each_method_message_field_and_value():
    sources = read_sources()
    for module, name in ((reshape_pb2, "reshape"), (tensor_pb2, "tensor")):
        text = "\n".join(build_contract(sources[f"tensor_reshape/v1/{name}.proto"]))
        sections = dict(re.findall(r"^###+ ([\w.]+)\n(.*?)(?=^###|\Z)", text, re.M | re.S))
        file = module.DESCRIPTOR
        outer = [*file.message_types_by_name.values()]
        for message in [
            *outer,
            *(nested for one in outer for nested in one.nested_types if not nested.GetOptions().map_entry),
        ]:
            shown = sections[message.full_name.removeprefix(f"{file.package}.")]
            fields = {(field.name, str(field.number)) for field in message.fields}
            assert set(re.findall(r"^- \*\*`(\w+)`\*\* = (\d+)", shown, re.M)) == fields, message.full_name
        methods = {method.name for service in file.services_by_name.values() for method in service.methods}
        assert methods | set(file.enum_types_by_name) <= sections.keys()
