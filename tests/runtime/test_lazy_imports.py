"""Names that are imported at their first use."""

import sys
from types import ModuleType

import pytest

from tensor_reshape.runtime.lazy_imports import advise_install, build_getters

HOMES = {"Fraction": "fractions", "Missing": "fractions"}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_package")
    vars(module)["__getattr__"], vars(module)["__dir__"] = build_getters("a_package", HOMES)
    monkeypatch.setitem(sys.modules, "a_package", module)
    return module


def test_lazily_imported_name_is_in_dir_and_cached(package: ModuleType):
    assert {"Fraction", "Missing"} <= {*dir(package)}
    found = package.Fraction
    assert found(1, 2) == 0.5
    assert vars(package)["Fraction"] is found


@pytest.mark.parametrize("name", ["Fractoin", "Missing", "__path__"])
def test_missing_lazily_imported_name_raises_attribute_error(package: ModuleType, name: str):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(package, name)


def test_install_advice_is_one_command():
    assert advise_install("onnx") == 'pip install "tensor-reshape[onnx]"'
