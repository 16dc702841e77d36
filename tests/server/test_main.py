"""Each setting is an option and an environment variable, by its declaration alone. What they do is in `e2e`."""

from pathlib import Path
from typing import Any

import click
import pytest

from tensor_reshape.server.__main__ import serve
from tensor_reshape.server.config import SETTINGS, Config
from tensor_reshape.server.settings.declarations import Setting

OTHER_VALUES: dict[type, str] = {bool: "0", str: "another", Path: __file__}


def parse(*flags: str) -> dict[str, Any]:
    """Returns what the command is called with."""
    return serve.make_context("serve", list(flags)).params


def choose_other(setting: Setting) -> str:
    """Returns a value that is taken and is not the default, as text."""
    declared = setting.declaration
    if declared.choices:
        return declared.choices[-1] if declared.choices[-1] != setting.default else declared.choices[0]
    if setting.type in {int, float}:
        return str(setting.default + 1 if declared.most is None or setting.default < declared.most else declared.least)
    return str(Path(__file__).parent) if declared.is_directory else OTHER_VALUES[setting.type]


def convert(setting: Setting, text: str) -> object:
    value = False if setting.type is bool else setting.type(text)
    return (value,) if setting.is_repeatable else value


def test_every_setting_is_an_option_and_every_option_but_one_a_setting():
    assert [option.name for option in serve.params] == [*(setting.name for setting in SETTINGS), "check_config"]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_flag_sets_its_field(setting: Setting):
    value = choose_other(setting)
    flags = [setting.flag.replace("--", "--no-")] if setting.type is bool else [setting.flag, value]
    assert parse(*flags)[setting.name] == convert(setting, value)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_variable_sets_its_field(monkeypatch: pytest.MonkeyPatch, setting: Setting):
    value = choose_other(setting)
    monkeypatch.setenv(setting.variable, value)
    assert parse()[setting.name] == convert(setting, value)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_without_either_the_default_is_the_fields_or_the_systems(setting: Setting):
    by_system = bool(setting.declaration.system_default)
    assert parse()[setting.name] == (None if by_system else getattr(Config(), setting.name))


@pytest.mark.parametrize(
    "setting", [one for one in SETTINGS if one.declaration.least is not None], ids=lambda setting: setting.name
)
def test_a_number_below_its_least_is_a_mistake_of_usage(setting: Setting):
    assert setting.declaration.least is not None
    with pytest.raises(click.BadParameter) as caught:
        parse(f"{setting.flag}={setting.declaration.least - 1}")
    assert caught.value.param is not None
    assert caught.value.param.name == setting.name


SIZES = [setting for setting in SETTINGS if setting.is_size]


@pytest.mark.parametrize("setting", SIZES, ids=lambda setting: setting.name)
def test_a_size_is_taken_with_its_unit(monkeypatch: pytest.MonkeyPatch, setting: Setting):
    assert parse(setting.flag, "64KiB")[setting.name] == 64 * 2**10
    monkeypatch.setenv(setting.variable, "1 MiB")
    assert parse()[setting.name] == 2**20


@pytest.mark.parametrize("setting", SIZES, ids=lambda setting: setting.name)
def test_an_ambiguous_size_is_refused_with_what_to_write(setting: Setting):
    with pytest.raises(click.BadParameter, match=r"write 64MiB \(67108864 bytes\) or 64000000"):
        parse(setting.flag, "64M")


def test_numbers_that_are_no_sizes_have_no_units():
    with pytest.raises(click.BadParameter):
        parse("--max-calls", "1KiB")


@pytest.mark.parametrize("value", ["DEBUG", "Debug", "debug"])
def test_the_level_of_the_log_is_taken_in_capitals(value: str):
    assert parse("--log-level", value)["log_level"] == "debug"


def test_other_words_are_taken_as_they_are_written_alone():
    with pytest.raises(click.BadParameter):
        parse("--log-format", "JSON")


def test_the_help_says_what_each_setting_means():
    text = " ".join(serve.get_help(click.Context(serve)).split())
    assert all(setting.declaration.help in text for setting in SETTINGS)
