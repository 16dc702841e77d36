"""Targets of clients: the valid ones, and invalid ones that gRPC would interpret in an unexpected way."""

import pytest

from both_clients import CLIENTS, open_client
from tensor_reshape.client import Client
from tensor_reshape.client.targets import check_target

GOOD = [
    "localhost:50051",
    "127.0.0.1:1",
    "[::1]:65535",
    "tensor-reshape.default.svc.cluster.local:50051",
    "dns:///host:50051",
    "dns:host",
    "dns://8.8.8.8/host:50051",
    "unix:relative/path",
    "unix:///run/socket",
    "unix-abstract:name",
    "ipv4:127.0.0.1:1,127.0.0.1:2",
    "ipv6:[::1]:1",
    "xds:///service",
]
# the target, the suggested target
BAD = {
    "http://localhost:50051": "write 'localhost:50051' without the scheme; for TLS, pass credentials=",
    "https://example.com:443/": "write 'example.com:443' without the scheme; for TLS",
    "grpc://localhost:50051": "'localhost:50051'",
    "localhost": "add a port, as in 'localhost:50051'",
    "": "add a port, as in 'localhost:50051'",
    "50051": "write 'localhost:50051'",
    ":50051": "write 'localhost:50051'",
    "::1:50051": r"in brackets, '\[::1\]:50051'",
    "host:1,host:2": "end it with a port from 1 to 65535",
    "localhost:0": "end it with a port from 1 to 65535",
    "localhost:99999": "end it with a port from 1 to 65535",
    "localhost:50051/path": "end it with a port from 1 to 65535",
}


def test_valid_grpc_targets_are_accepted():
    assert [check_target(target) for target in GOOD] == GOOD


@pytest.mark.parametrize(("target", "advice"), BAD.items(), ids=BAD)
def test_error_for_an_ambiguous_target_suggests_a_valid_target(target: str, advice: str):
    with pytest.raises(ValueError, match=advice) as caught:
        check_target(target)
    assert repr(target) in str(caught.value)


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (50051, "write 'localhost:50051'"),
        (True, "write text such as"),
        (("example.com", 1), "write 'example.com:1'"),
        (b"localhost:1", "write text such as 'localhost:50051'"),
        (None, "write text such as"),
    ],
    ids=str,
)
def test_grpc_target_must_be_text(target: object, advice: str):
    with pytest.raises(TypeError, match=advice):
        check_target(target)


@pytest.mark.parametrize("kind", CLIENTS)
def test_client_rejects_an_invalid_target_on_creation(kind: str):
    with pytest.raises(ValueError, match="add a port"), open_client(kind, "localhost"):
        pass


def test_default_target_address_is_valid():
    with Client() as client:
        assert "localhost:50051" in repr(client)
