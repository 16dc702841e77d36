"""The releases of grpcio whose experiments are known."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from tensor_reshape.runtime import experiments


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.79.9", False),
        ("1.80.0", True),
        ("1.82.0", False),
        ("1.85.1", True),
        ("1.85.2.dev0", True),
        ("1.86.0rc1", False),
        ("1.800.0", False),
        ("2.80.0", False),
        ("0.81.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_only_releases_that_were_tried_are_known(monkeypatch: pytest.MonkeyPatch, version: str, known: bool):
    monkeypatch.setattr(experiments, "find_version", lambda: version)
    assert experiments.are_known() is known


def test_without_grpcio_none_is_known(monkeypatch: pytest.MonkeyPatch):
    def find_nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", find_nothing)
    assert (experiments.find_version(), experiments.are_known()) == ("", False)


def test_to_ask_imports_no_grpc():
    program = (
        "import sys; from tensor_reshape.runtime import experiments as e; print(e.are_known(), 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "False"]
