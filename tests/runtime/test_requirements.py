"""The line about packages that are missing or have a wrong version."""

import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError

import pytest

from tensor_reshape.runtime import requirements
from tensor_reshape.runtime.requirements import describe_unmet_requirements

OWN = ["googleapis-common-protos<2,>=1.69.2", "numpy<3,>=2.1", "protobuf<8,>=6.31.1", "onnx>=1.21; extra == 'onnx'"]
GOOGLES = ["protobuf!=6.32,<7.0.0,>=6.33.5"]
FITS: Mapping[str, str | None] = {
    "tensor-reshape": "0.1.0",
    "googleapis-common-protos": "1.76.0",
    "numpy": "1.0",
    "protobuf": "6.33.5",
}

Describe = Callable[[Mapping[str, str | None]], str]


@pytest.fixture
def describe(monkeypatch: pytest.MonkeyPatch) -> Describe:
    """Returns the line for the packages of `FITS` with other versions. A package with the version None is missing."""

    def describe(versions: Mapping[str, str | None]) -> str:
        installed = {**FITS, **versions}

        def find_version(name: str) -> str:
            found = installed[name]
            if found is None:
                raise PackageNotFoundError(name)
            return found

        def find_requirements(name: str) -> list[str]:
            find_version(name)
            return {"tensor-reshape": OWN, "googleapis-common-protos": GOOGLES}[name]

        monkeypatch.setattr(requirements, "version", find_version)
        monkeypatch.setattr(requirements, "requires", find_requirements)
        return describe_unmet_requirements()

    return describe


def test_installed_packages_meet_the_requirements():
    assert describe_unmet_requirements() == ""


@pytest.mark.parametrize("version", ["6.33.5", "6.33.10", "7.0", "7.99.0rc1"])
def test_allowed_protobuf_versions_give_no_line(describe: Describe, version: str):
    assert describe({"protobuf": version}) == ""


@pytest.mark.parametrize("version", ["8.0.0", "10.1"])
def test_too_new_protobuf_is_named_with_the_command(describe: Describe, version: str):
    line = f'tensor-reshape does not work with protobuf {version}. Run pip install "protobuf<8,>=6.31.1"'
    assert describe({"protobuf": version}) == line


def test_protobuf_that_only_a_dependency_rejects_is_named(describe: Describe):
    line = f'googleapis-common-protos does not work with protobuf 6.33.4. Run pip install "{GOOGLES[0]}"'
    assert describe({"protobuf": "6.33.4"}) == line


def test_missing_generated_modules_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.v1", None)
    line = "tensor_reshape.v1 is missing. Run pip install --force-reinstall --no-deps tensor-reshape"
    assert describe_unmet_requirements() == line


def test_every_unmet_requirement_is_in_one_command(describe: Describe):
    line = describe({"googleapis-common-protos": None, "numpy": None, "protobuf": "5.29.6"})
    faults, _, command = line.partition(". Run ")
    assert faults.split(", ") == [
        "googleapis-common-protos is not installed",
        "numpy is not installed",
        "tensor-reshape does not work with protobuf 5.29.6",
    ]
    assert command == f'pip install "{OWN[0]}" "{OWN[1]}" "{OWN[2]}"'
