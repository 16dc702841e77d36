"""ServerInfo describes a server, and the SDK uses it to explain limits."""

from collections.abc import Callable

import grpc
import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from in_process import run_stock
from server_processes import ServerProcess
from tensor_reshape.client import Feature, LimitError, Reason
from tensor_reshape.rules.limits import MAX_TENSOR_BYTES
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc

KIBIBYTE = np.zeros(256, np.float32)
LARGE = np.zeros(2048, np.float32)  # twice the largest message of the small server


@pytest.mark.parametrize("kind", CLIENTS)
def test_both_clients_read_the_limits_and_features(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address) as client:
        info = client.server_info()
    assert (info.limits.max_message_bytes, info.limits.max_tensor_bytes) == (4096, MAX_TENSOR_BYTES)
    assert info.operations.keys() == {"static_reshape", "dynamic_reshape", "reshape"}
    assert {Feature.OPEN_INFERENCE, Feature.REFLECTION} <= info.features


def test_server_info_reports_the_core(stub: reshape_pb2_grpc.ReshapeServiceStub):
    assert stub.ServerInfo(reshape_pb2.ServerInfoRequest()).grpc_api == "core"


@pytest.mark.parametrize("kind", CLIENTS)
def test_size_error_names_the_remedy(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address, chunk_bytes=1024) as client:
        with pytest.raises(LimitError, match=r'above the server\'s 4 KiB: use transfer="stream"') as caught:
            client.static_reshape(LARGE, [-1])
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE
        np.testing.assert_array_equal(client.static_reshape(LARGE, [-1], transfer="stream"), LARGE)
    with open_client(kind, small_server.address, chunk_bytes=4096) as client:  # too large with its header
        with pytest.raises(
            LimitError, match="but the server's limit is 4 KiB: create the client with smaller"
        ) as caught:
            client.static_reshape(LARGE, [-1], transfer="stream")
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE


Methods = dict[str, Callable[[bytes, grpc.ServicerContext], bytes]]


def reject_tensors(asked: list[bytes], *, explains: bool = True, loses: bool = False) -> Methods:
    """Returns a server that rejects all tensors and records calls of ServerInfo. If `loses`, it first loses one."""
    lost = [None] * loses

    def reject(_: bytes, context: grpc.ServicerContext) -> bytes:
        while lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"lost {lost.pop()}")
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 1)")

    def describe(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked.append(request)
        if not explains:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")
        limits = reshape_pb2.ServerLimits(max_message_bytes=512)
        return reshape_pb2.ServerInfoResponse(limits=limits).SerializeToString()

    return {"StaticReshape": reject, "ServerInfo": describe}


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"loses": True}, "but the server's limit is 512 B"),
        ({"explains": False}, r"Received message larger than max \(9 vs. 1\)$"),
    ],
    ids=["explained", "not explained"],
)
def test_client_requests_server_info_once_and_only_after_an_error(kind: str, how: dict[str, bool], message: str):
    asked: list[bytes] = []
    with run_stock(reject_tensors(asked, **how)) as address, open_client(kind, address) as client:
        assert asked == []
        for _ in range(2):
            with pytest.raises(LimitError, match=message):
                client.static_reshape(KIBIBYTE, [-1])
    assert asked == [b""]
