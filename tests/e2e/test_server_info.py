"""A server tells what it is, and the SDK what to do about its limits."""

from collections.abc import Callable

import grpc
import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from in_process import run_stock
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Feature, LimitError, Reason
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc

KIBIBYTE = np.zeros(256, np.float32)
LARGE = np.zeros(2048, np.float32)  # twice what the small server takes


@pytest.mark.parametrize("kind", CLIENTS)
def test_both_clients_are_told_the_limits_that_the_server_was_started_with(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address) as client:
        told = client.server_info()

    assert (told.limits.max_message_bytes, told.limits.max_tensor_bytes) == (4096, 300000)
    assert told.operations.keys() == {"static_reshape", "dynamic_reshape", "reshape"}
    assert {Feature.OPEN_INFERENCE, Feature.REFLECTION} <= told.features


def test_the_way_of_serving_is_told(serving: str, stub: reshape_pb2_grpc.ReshapeServiceStub):
    assert stub.ServerInfo(reshape_pb2.ServerInfoRequest()).serving == serving


def test_garbage_in_place_of_the_request_is_refused(channel: grpc.Channel):
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        "/tensor_reshape.v1.ReshapeService/ServerInfo"
    )
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("how", [{}, {"transfer": "inline"}], ids=["auto", "inline"])
def test_a_message_above_the_servers_limit_is_told_with_what_to_do(
    kind: str, how: dict[str, str], small_server: ServerProcess
):
    with open_client(kind, small_server.address, chunk_bytes=1024) as client:
        with pytest.raises(LimitError, match=r'above the server\'s 4 KiB: use transfer="stream"') as caught:
            client.static_reshape(LARGE, [-1], **how)
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE
        np.testing.assert_array_equal(client.static_reshape(LARGE, [-1], transfer="stream"), LARGE)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("chunk_bytes", [8192, 4096])  # with its header the second is above the limit, too
def test_a_stream_whose_messages_are_above_the_servers_limit_is_told_of_its_chunks(
    kind: str, chunk_bytes: int, small_server: ServerProcess
):
    said = pytest.raises(LimitError, match="above the server's 4 KiB: make the client with smaller chunk_bytes")
    with open_client(kind, small_server.address, chunk_bytes=chunk_bytes) as client, said:
        client.static_reshape(LARGE, [-1], transfer="stream")


def count_questions(asked: list[bytes], limit: int) -> dict[str, Callable[[bytes, grpc.ServicerContext], bytes]]:
    """Returns a server that refuses all tensors, and counts who asks what it is."""

    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 1)")

    def tell(request: bytes, _: grpc.ServicerContext) -> bytes:
        asked.append(request)
        limits = reshape_pb2.ServerLimits(max_message_bytes=limit)
        return reshape_pb2.ServerInfoResponse(limits=limits).SerializeToString()

    return {"StaticReshape": refuse, "ServerInfo": tell}


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_asks_once_and_only_for_an_error(kind: str):
    asked: list[bytes] = []
    with run_stock(count_questions(asked, 512)) as address, open_client(kind, address) as client:
        assert asked == []
        for _ in range(2):
            with pytest.raises(LimitError, match="above the server's 512 B"):
                client.static_reshape(KIBIBYTE, [-1])
    assert asked == [b""]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_server_that_does_not_tell_gets_no_hint(kind: str):
    asked: list[bytes] = []

    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked.append(request)
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")

    behaviors = {**count_questions([], 512), "ServerInfo": refuse}
    with run_stock(behaviors) as address, open_client(kind, address) as client:
        for _ in range(2):
            with pytest.raises(LimitError) as caught:
                client.static_reshape(KIBIBYTE, [-1])
            assert caught.value.message == "Received message larger than max (9 vs. 1)"
    assert asked == [b""]  # nor is it asked again


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_call_that_was_sent_again_has_its_hint(kind: str):
    behaviors, attempts = count_questions([], 512), [0]
    refuse = behaviors["StaticReshape"]

    def lose_first(request: bytes, context: grpc.ServicerContext) -> bytes:
        attempts[0] += 1
        if attempts[0] == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        return refuse(request, context)

    behaviors["StaticReshape"] = lose_first
    said = pytest.raises(LimitError, match="above the server's 512 B")
    with run_stock(behaviors) as address, open_client(kind, address) as client, said:
        client.static_reshape(KIBIBYTE, [-1])


def test_the_log_says_on_one_line_how_it_serves(serving: str):
    with run_server("--serving", serving, "--max-message-bytes", "1MiB", "--memory-budget-bytes", "64MiB") as server:
        (record,) = server.await_records(1, "serving")

    assert (record["serving"], record["workers"], record["addresses"]) == (serving, 1, server.address)
    assert (record["max_message_bytes"], record["memory_budget_bytes"]) == (2**20, 2**26)
    assert record["version"]
