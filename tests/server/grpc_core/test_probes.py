"""A probe with a real call checks whether gRPC's core can serve."""

from collections.abc import Iterator
from functools import wraps
from typing import Any

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.grpc_core.calls import Call
from tensor_reshape.server.grpc_core.probes import find_obstacle
from tensor_reshape.server.grpc_core.servers import Server


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Clears the cached result of the process before and after the test."""
    find_obstacle.cache_clear()
    yield
    find_obstacle.cache_clear()


def test_installed_grpcio_supports_the_core_server():
    assert find_obstacle() == ""


def test_grpcio_compatibility_probe_runs_only_once(monkeypatch: pytest.MonkeyPatch):
    find_obstacle()
    monkeypatch.delattr(cygrpc, "Server")
    assert find_obstacle() == ""


def make_server(*arguments: Any, **keywords: Any) -> grpc.Server:
    raise AssertionError(arguments, keywords)


@pytest.mark.parametrize("replacement", [wraps(grpc.server)(make_server), make_server], ids=["wrapped", "another"])
def test_replaced_grpc_server_function_disables_the_core_server(replacement: object, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grpc, "server", replacement)
    assert find_obstacle().startswith("grpc.server was replaced")


def test_core_server_is_not_used_if_grpcio_lacks_a_required_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(cygrpc, "ReceiveMessageOperation")
    assert find_obstacle() == f"grpcio {grpc.__version__} has no cygrpc.ReceiveMessageOperation"


def test_failed_grpcio_probe_hides_its_exception_text(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> int:
        message = "a secret"
        raise OSError(message)

    monkeypatch.setattr(Server, "add_port", fail)
    assert find_obstacle() == f"a call through grpcio {grpc.__version__} failed: OSError"


def test_wrong_probe_response_disables_the_core_server(monkeypatch: pytest.MonkeyPatch):
    send = Call.send
    monkeypatch.setattr(Call, "send", lambda call, _: send(call, b"another"))
    assert find_obstacle() == f"a test call through grpcio {grpc.__version__} had a wrong response or did not end"
