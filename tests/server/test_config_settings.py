"""Declarations of settings."""

from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

from tensor_reshape.server.config import declare, list_settings


@dataclass
class Sample:
    """A setting of each form."""

    max_items: int = declare("Items.", default=5, least=1, most=9)
    stall_timeout_seconds: float = declare("Waits.", default=1.0, least=0.5)
    kind: str = declare("Modes.", default="safe", choices=("fast", "safe"))
    places: tuple[str, ...] = declare("Places.", default=("here",))
    file: Path | None = declare("A file.", default=None)
    tracing: bool = declare("Tells.", default=True)


SETTINGS = {setting.name: setting for setting in list_settings(Sample)}


def test_declared_settings_match_the_config_fields():
    assert {name: (setting.type, setting.is_repeatable) for name, setting in SETTINGS.items()} == {
        "max_items": (int, False),
        "stall_timeout_seconds": (float, False),
        "kind": (str, False),
        "places": (str, True),
        "file": (Path, False),
        "tracing": (bool, False),
    }
    assert list(SETTINGS) == list(vars(Sample()))
    assert {name: setting.default for name, setting in SETTINGS.items()} == vars(Sample())


def test_setting_flag_and_variable_are_derived_from_the_field_name():
    setting = SETTINGS["max_items"]
    assert (setting.flag, setting.variable) == ("--max-items", "TENSOR_RESHAPE_MAX_ITEMS")


def test_settings_accept_only_values_within_their_bounds():
    accepted: dict[str, list[Any]] = {
        "max_items": [1, 9],
        "stall_timeout_seconds": [0.5, inf],
        "kind": ["fast", "safe"],
    }
    rejected: dict[str, list[Any]] = {
        "max_items": [0, 10],
        "stall_timeout_seconds": [0.4, nan],
        "kind": ["slow"],
    }
    assert {
        name: [one for one in values if SETTINGS[name].admits(one)] for name, values in accepted.items()
    } == accepted
    assert [one for name, values in rejected.items() for one in values if SETTINGS[name].admits(one)] == []


def test_setting_bounds_are_described_in_words():
    bounds = {
        "max_items": "1 to 9",
        "stall_timeout_seconds": "at least 0.5",
        "kind": "fast or safe",
        "places": "",
        "file": "",
    }
    assert {name: SETTINGS[name].bounds for name in bounds} == bounds
