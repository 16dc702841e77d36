"""The choice of the I/O engine by the addresses and the environment, and the supported releases of grpcio."""

import re
import sys
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from tensor_reshape.runtime import experiments
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.process.engines import TESTED, check_release, choose_engine, name_engine

LOCAL = ("127.0.0.1:50051", "unix:/run/server.sock")
PUBLIC = ("127.0.0.1:50051", "0.0.0.0:50051")
LISTENER = "-event_engine_listener"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without the variable and without grpc, and with a tested release."""
    monkeypatch.setenv(experiments.VARIABLE, "")  # so that a value that a test sets does not remain
    monkeypatch.delenv(experiments.VARIABLE)
    monkeypatch.delitem(sys.modules, "grpc", raising=False)
    monkeypatch.setattr(experiments, "are_known", lambda: True)
    return monkeypatch


@pytest.mark.parametrize(
    ("address", "engine"),
    [
        ("127.0.0.1:0", "polling"),
        ("unix:server.sock", "polling"),
        ("0.0.0.0:0", "event"),
        ("reshape.example:0", "event"),
        ("nowhere", "event"),
    ],
)
def test_polling_io_engine_is_chosen_only_for_local_addresses(address: str, engine: str):
    choose_engine([address])
    assert name_engine() == engine


@pytest.mark.parametrize("addresses", [PUBLIC, PUBLIC[::-1]])
def test_one_network_address_selects_the_event_io_engine(addresses: tuple[str, ...]):
    choose_engine(addresses)
    assert name_engine() == "event"


def test_empty_grpc_experiments_variable_counts_as_not_set(environment: pytest.MonkeyPatch):
    environment.setenv(experiments.VARIABLE, "")
    choose_engine(LOCAL)
    assert name_engine() == "polling"


@pytest.mark.parametrize(
    ("variable", "engine"),
    [
        ("-other", "event"),
        ("event_engine_listener", "event"),
        (LISTENER, "polling"),
        (f"other, {LISTENER}", "polling"),
    ],
)
@pytest.mark.parametrize("addresses", [LOCAL, PUBLIC])
def test_grpc_experiments_variable_of_the_operator_selects_the_engine(
    addresses: tuple[str, ...], variable: str, engine: str, environment: pytest.MonkeyPatch
):
    environment.setenv(experiments.VARIABLE, variable)
    choose_engine(addresses)
    assert name_engine() == engine


def test_untested_grpcio_keeps_its_default_io_engine(environment: pytest.MonkeyPatch):
    environment.setattr(experiments, "are_known", lambda: False)
    choose_engine(LOCAL)
    assert name_engine() == "event"


def test_already_imported_grpc_keeps_its_io_engine(environment: pytest.MonkeyPatch):
    environment.setitem(sys.modules, "grpc", sys)
    choose_engine(LOCAL)
    assert name_engine() == "event"


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
