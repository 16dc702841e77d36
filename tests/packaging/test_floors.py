"""The environment of `scripts/verify floor` contains the wheel and the oldest releases that pyproject.toml allows."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tensor_reshape import cli, client, rules, runtime, server, v1, wire

pytestmark = pytest.mark.skipif(
    "config.getoption('hypothesis_profile') != 'few'", reason="scripts/verify floor makes the environment"
)


def test_minimum_version_environment_has_the_oldest_allowed_dependencies(floors: dict[str, Version]):
    assert {name: Version(version(name)) for name in floors} == floors


def test_minimum_version_tests_import_the_installed_wheel():
    portions = (cli, client, rules, runtime, server, v1, wire)
    files = [Path(str(portion.__file__)) for portion in portions]

    assert [file for file in files if not file.is_relative_to(Path(sys.prefix) / "lib")] == []
