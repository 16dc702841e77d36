"""What is known of a setting by its declaration."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from tensor_reshape.server.settings.declarations import Declaration, Setting, list_settings


@dataclass
class Sample:
    """A setting of each form."""

    max_items: Annotated[int, Declaration(help="Items.", least=1, most=9)] = 5
    stall_seconds: Annotated[float, Declaration(help="Waits.", least=0.5)] = 1.0
    serving: Annotated[str, Declaration(help="Modes.", choices=("fast", "safe"))] = "safe"
    places: Annotated[tuple[str, ...], Declaration(help="Places.")] = ("here",)
    file: Annotated[Path | None, Declaration(help="A file.")] = None
    tells: Annotated[bool, Declaration(help="Tells.")] = True


SETTINGS = {setting.name: setting for setting in list_settings(Sample)}


def test_settings_are_listed_in_the_order_of_the_fields():
    assert list(SETTINGS) == ["max_items", "stall_seconds", "serving", "places", "file", "tells"]


@pytest.mark.parametrize(
    ("name", "kind", "repeatable"),
    [
        ("max_items", int, False),
        ("stall_seconds", float, False),
        ("serving", str, False),
        ("places", str, True),
        ("file", Path, False),
        ("tells", bool, False),
    ],
)
def test_the_type_is_that_of_one_value(name: str, kind: type, repeatable: bool):
    assert (SETTINGS[name].type, SETTINGS[name].is_repeatable) == (kind, repeatable)


def test_the_default_is_the_fields():
    assert {name: setting.default for name, setting in SETTINGS.items()} == vars(Sample())


def test_a_flag_and_a_variable_have_the_name_of_the_field():
    setting = SETTINGS["max_items"]
    assert (setting.flag, setting.variable) == ("--max-items", "TENSOR_RESHAPE_MAX_ITEMS")


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("max_items", "1 to 9"),
        ("stall_seconds", "at least 0.5"),
        ("serving", "fast or safe"),
        ("places", ""),
        ("file", ""),
    ],
)
def test_the_bounds_are_told_in_words(name: str, bounds: str):
    assert SETTINGS[name].bounds == bounds


@pytest.mark.parametrize(
    ("name", "admitted", "others"),
    [
        ("max_items", [1, 9], [0, 10]),
        ("stall_seconds", [0.5, 1e300, math.inf], [0.49, -math.inf, math.nan]),
        ("serving", ["fast", "safe"], ["", "SAFE", "slow"]),
        ("places", [(), ("anywhere",)], []),
        ("file", [None, Path("any")], []),
    ],
)
def test_values_within_the_bounds_are_admitted(name: str, admitted: list[object], others: list[object]):
    setting: Setting = SETTINGS[name]
    assert [value for value in (*admitted, *others) if setting.admits(value)] == admitted
