"""Which grpcio is one that calls can be taken from."""

import pytest
from grpc import _server
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.core_calls import is_supported


def test_the_installed_grpcio_is_supported():
    assert is_supported()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (_server, "_RPCState"),
        (_server, "_unary_response_in_pool"),
        (_server, "_stream_response_in_pool"),
        (_server, "_possibly_finish_call"),
        (_server, "_is_rpc_state_active"),
        (cygrpc, "ReceiveMessageOperation"),
        (cygrpc, "SendStatusFromServerOperation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_grpcio_without_one_of_the_parts_is_not_supported(place: object, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(place, name)
    assert not is_supported()


@pytest.mark.parametrize("name", ["_unary_response_in_pool", "_possibly_finish_call", "_is_rpc_state_active"])
def test_a_grpcio_with_a_part_of_another_form_is_not_supported(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_server, name, lambda other: other)
    assert not is_supported()


def test_a_grpcio_whose_calls_have_another_state_is_not_supported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_server, "_RPCState", object)
    assert not is_supported()
