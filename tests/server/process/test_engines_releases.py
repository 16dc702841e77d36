"""The supported releases of grpcio, and the private names that the server needs."""

import re
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from tensor_reshape.runtime import experiments
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.process.engines import TESTED, check_release


def install(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates an installed release of grpcio."""
    monkeypatch.setattr(experiments, "find_version", lambda: version)


@pytest.mark.parametrize("version", ["1.80.0", "1.83.2", "1.85.1", "1.85.0rc1"])
def test_tested_grpcio_release_is_accepted(version: str, monkeypatch: pytest.MonkeyPatch):
    install(version, monkeypatch)
    check_release()


@pytest.mark.parametrize("version", ["1.79.3", "1.86.0", "1.86.0rc1", "0.99.0", "2.0.0", "unknown", ""])
def test_untested_grpcio_release_is_rejected(version: str, monkeypatch: pytest.MonkeyPatch):
    install(version, monkeypatch)
    with pytest.raises(ConfigError, match=rf"was not tested with this server\. Run pip install '{re.escape(TESTED)}'$"):
        check_release()


def test_pyproject_bounds_match_the_tested_grpcio_releases():
    (grpcio,) = [one for one in map(Requirement, requires("tensor-reshape") or ()) if one.name == "grpcio"]
    assert grpcio.specifier == Requirement(TESTED).specifier
