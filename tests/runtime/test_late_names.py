"""Names that are imported when somebody asks for them."""

import sys
from types import ModuleType

import pytest

from tensor_reshape.runtime.late_names import build_getters

HOMES = {"Fraction": "fractions", "Missing": "fractions"}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_package")
    vars(module)["__getattr__"], vars(module)["__dir__"] = build_getters("a_package", HOMES)
    monkeypatch.setitem(sys.modules, "a_package", module)
    return module


def test_a_name_is_found_where_it_lives(package: ModuleType):
    assert package.Fraction(1, 2) == 0.5


def test_a_name_that_was_found_is_kept(package: ModuleType):
    found = package.Fraction
    assert vars(package)["Fraction"] is found


def test_all_names_are_listed_before_they_are_found(package: ModuleType):
    assert {"Fraction", "Missing"} <= {*dir(package)}


@pytest.mark.parametrize("name", ["Fractoin", "Missing", "__path__"])
def test_a_name_that_is_not_there_is_an_attribute_error(package: ModuleType, name: str):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(package, name)
