"""Declarations of settings."""

from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any

from tensor_reshape.server.settings import Declaration, list_settings


@dataclass
class Sample:
    """A setting of each form."""

    max_items: Annotated[int, Declaration(help="Items.", least=1, most=9)] = 5
    stall_timeout_seconds: Annotated[float, Declaration(help="Waits.", least=0.5)] = 1.0
    kind: Annotated[str, Declaration(help="Modes.", choices=("fast", "safe"))] = "safe"
    places: Annotated[tuple[str, ...], Declaration(help="Places.")] = ("here",)
    file: Annotated[Path | None, Declaration(help="A file.")] = None
    tracing: Annotated[bool, Declaration(help="Tells.")] = True


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
