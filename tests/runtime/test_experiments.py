"""Releases of grpcio with known experiments."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from tensor_reshape.runtime import experiments

KNOWN = ["1.80.0", "1.85.1", "1.85.2.dev0"]
UNKNOWN = ["1.79.9", "1.82.0", "1.86.0rc1", "1.800.0", "2.80.0", "0.81.0", "", "unknown"]


def test_only_tested_grpcio_releases_are_known(monkeypatch: pytest.MonkeyPatch):
    versions = iter(KNOWN + UNKNOWN)
    monkeypatch.setattr(experiments, "find_version", lambda: next(versions))
    assert [version for version in KNOWN + UNKNOWN if experiments.are_known()] == KNOWN


def test_experiments_are_unknown_without_grpcio(monkeypatch: pytest.MonkeyPatch):
    def find_nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", find_nothing)
    assert (experiments.find_version(), experiments.are_known()) == ("", False)


def test_finding_the_grpcio_version_does_not_import_grpc():
    program = (
        "import sys; from tensor_reshape.runtime import experiments as e; print(e.are_known(), 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "False"]
