"""The names of gRPC's experiments, and the releases that they count for."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from tensor_reshape.runtime import experiments


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ()),
        ("", ()),
        (" , ,", ()),
        ("one", ("one",)),
        ("one, -two ,three", ("one", "-two", "three")),
    ],
)
def test_a_value_is_read_as_the_core_reads_it(value: str | None, names: tuple[str, ...]):
    assert experiments.split_names(value) == names


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.79.9", False),
        ("1.80.0", True),
        ("1.85.1", True),
        ("1.85.2.dev0", True),
        ("1.86.0rc1", False),
        ("2.80.0", False),
        ("0.81.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_the_names_count_for_the_releases_that_were_tried(monkeypatch: pytest.MonkeyPatch, version: str, known: bool):
    monkeypatch.setattr(experiments, "find_version", lambda: version)
    assert experiments.are_known() is known


def test_a_machine_without_grpcio_knows_none(monkeypatch: pytest.MonkeyPatch):
    def find_nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(experiments, "version", find_nothing)
    assert (experiments.find_version(), experiments.are_known()) == ("", False)


def test_to_ask_imports_no_grpc():
    program = (
        "import sys; from tensor_reshape.runtime import experiments as e; print(e.are_known(), 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.parametrize("name", [experiments.NO_CLIENT_ENGINE, experiments.NO_LISTENER_ENGINE])
def test_the_installed_grpcio_knows_both_names(name: str):
    # The core tells of names that it does not know, when it reads the variable.
    program = "import grpc; grpc.insecure_channel('localhost:1').close()"
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"GRPC_EXPERIMENTS": value, "GRPC_VERBOSITY": "ERROR"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stderr.count("Unknown experiment")
        for value in (name, "-unheard_of")
    ]
    assert said == [0, 1]
