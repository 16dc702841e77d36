"""A test call checks whether gRPC's core can serve."""

from collections.abc import Iterator

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.grpc import servers
from tensor_reshape.server.grpc.calls import CoreCall
from tensor_reshape.server.grpc.servers import NAMES, Server, check_core
from tensor_reshape.server.process.engines import TESTED

ADVICE = f". Run pip install --force-reinstall '{TESTED}'"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Clears the cached result of the process before and after the test."""
    check_core.cache_clear()
    yield
    check_core.cache_clear()


def reject() -> str:
    """Returns the fault that the check finds."""
    with pytest.raises(ConfigError) as caught:
        check_core()
    return str(caught.value).removeprefix(f"cannot serve with grpcio {grpc.__version__}: ")


def test_installed_grpcio_passes_the_test_call():
    check_core()


def test_test_call_runs_only_once_after_a_success(monkeypatch: pytest.MonkeyPatch):
    check_core()
    monkeypatch.delattr(cygrpc, "Server")
    check_core()


@pytest.mark.parametrize("name", NAMES)
def test_missing_name_in_the_grpcio_binding_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(cygrpc, name)
    assert reject() == f"it has no cygrpc.{name}{ADVICE}"


def test_exception_in_the_test_call_is_rejected_without_its_text(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> int:
        message = "a secret"
        raise OSError(message)

    monkeypatch.setattr(Server, "add_port", fail)
    assert reject() == f"a test call of the server to itself failed: OSError{ADVICE}"


def test_test_call_without_a_response_is_rejected_with_its_status(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "_SECONDS", 0.1)
    monkeypatch.setattr(CoreCall, "finish", lambda *_: None)
    assert reject() == f"a test call of the server to itself failed: DEADLINE_EXCEEDED{ADVICE}"


def test_test_call_with_a_wrong_response_is_rejected(monkeypatch: pytest.MonkeyPatch):
    finish = CoreCall.finish
    monkeypatch.setattr(CoreCall, "finish", lambda call, status, _: finish(call, status, b"another"))
    assert reject() == f"a test call had a wrong response or did not end{ADVICE}"
