"""Each setting is an option and an environment variable; `e2e` tests their effects."""

from pathlib import Path
from typing import Any

import click
import pytest

from tensor_reshape.server.__main__ import serve
from tensor_reshape.server.config import SETTINGS, Config, Setting

OTHER_VALUES: dict[type, str] = {bool: "0", str: "another", Path: __file__}


def parse(*flags: str) -> dict[str, Any]:
    """Returns the parsed arguments of the command."""
    return serve.make_context("serve", list(flags)).params


def choose_other(setting: Setting) -> str:
    """Returns a valid value other than the default, as text."""
    if setting.choices:
        return setting.choices[-1] if setting.choices[-1] != setting.default else setting.choices[0]
    if setting.type in {int, float}:
        return str(setting.default + 1 if setting.most is None or setting.default < setting.most else setting.least)
    return OTHER_VALUES[setting.type]


def convert(setting: Setting, text: str) -> object:
    value = False if setting.type is bool else setting.type(text)
    return (value,) if setting.is_repeatable else value


def reject(*flags: str) -> click.BadParameter:
    with pytest.raises(click.BadParameter) as caught:
        parse(*flags)
    return caught.value


def test_serve_command_options_match_the_settings():
    assert [option.name for option in serve.params] == [*(setting.name for setting in SETTINGS), "check_config"]
    text = " ".join(serve.get_help(click.Context(serve, **serve.context_settings)).split())
    assert [setting.name for setting in SETTINGS if setting.help not in text] == []


def test_each_server_setting_has_a_flag_and_environment_variable():
    for setting in SETTINGS:
        name, value = setting.name, choose_other(setting)
        flags = [setting.flag.replace("--", "--no-")] if setting.type is bool else [setting.flag, value]
        expected = convert(setting, value)
        assert parse(*flags)[name] == expected, name
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting.variable, value)
            assert parse()[name] == expected, name
        default = None if setting.system_default else getattr(Config(), name)
        assert parse()[name] == default, name


def test_size_options_accept_units():
    for setting in (setting for setting in SETTINGS if setting.is_size):
        assert parse(setting.flag, "64KiB")[setting.name] == 64 * 2**10
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting.variable, "1 MiB")
            assert parse()[setting.name] == 2**20
        assert "write 64MiB (67108864 bytes) or 64000000" in reject(setting.flag, "64M").message
    reject("--max-calls", "1KiB")  # this setting is a number without units


def test_log_level_option_ignores_case_unlike_log_format():
    assert {parse("--log-level", value)["log_level"] for value in ("DEBUG", "Debug", "debug")} == {"debug"}
    reject("--log-format", "JSON")
