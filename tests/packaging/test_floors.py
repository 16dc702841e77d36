"""The environment of `scripts/floor` is what its tests take it for."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tensor_reshape import cli, client, rules, runtime, server, v1, wire

pytestmark = pytest.mark.skipif(
    "config.getoption('hypothesis_profile') != 'few'", reason="scripts/floor makes the environment"
)


def test_all_that_the_project_stands_on_is_as_old_as_it_may_be(floors: dict[str, Version]):
    assert {name: Version(version(name)) for name in floors} == floors


def test_the_code_under_test_is_the_wheels():
    portions = (cli, client, rules, runtime, server, v1, wire)
    files = [Path(str(portion.__file__)) for portion in portions]

    assert [file for file in files if not file.is_relative_to(Path(sys.prefix) / "lib")] == []
