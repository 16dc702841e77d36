"""Common protobuf readers accept the numbers of each request and response."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from plain_requests import encode_reshape_request, read_trailing, send_raw
from server_processes import ServerProcess
from strategies import LAWFUL_REQUESTS, REQUESTS, reshape_calls
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.batches import encode_batch_item, join_items
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, OPERATION_METHODS, SERVICE, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import ReshapeCall, encode_begin, encode_chunk
from tensor_reshape.wire.servers import CHECK_METHOD, encode_check_request
from tensor_reshape.wire.status import DETAILS_KEY
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.varints import find_unreadable

SECONDS = 60

requests = LAWFUL_REQUESTS | LAWFUL_REQUESTS | REQUESTS
items = st.builds(BatchItem, requests, st.sampled_from([None, None, None, 0, 1, -1]))


@pytest.fixture(scope="session")
def raw_channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


def find_in_rejection(error: grpc.RpcError) -> list[str]:
    """Returns the details of an error that some reader would not accept."""
    raw = read_trailing(error).get(DETAILS_KEY, b"")
    assert isinstance(raw, bytes)
    details = [
        finding
        for detail in Status.FromString(raw).details
        for kind in (ErrorInfo, BadRequest, RetryInfo)
        if detail.Is(kind.DESCRIPTOR)
        for finding in find_unreadable(kind, detail.value)
    ]
    return [*find_unreadable(Status, raw), *details]


def exchange(channel: grpc.Channel, method: str, messages: list[bytes]) -> list[str]:
    """Returns the parts of the messages that some reader would not accept. A unary call is a stream of one message."""
    sent: type[Message] = getattr(reshape_pb2, f"{method}Request")
    received: type[Message] = getattr(reshape_pb2, f"{method}Response")
    findings = [finding for message in messages for finding in find_unreadable(sent, message)]
    call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/{method}")
    try:
        for answer in call(iter(messages), timeout=SECONDS):
            findings += find_unreadable(received, answer)
    except grpc.RpcError as error:
        findings += find_in_rejection(error)
    return findings


def encode_stream(call: tuple[ReshapeCall, TensorView | None], chunk_bytes: int) -> list[bytes]:
    payload = call[0].data.payload
    size = max(chunk_bytes, len(payload) // 50)
    chunks = [encode_chunk(begin, payload[begin : begin + size]) for begin in range(0, len(payload), size)]
    return [encode_begin(*call), *chunks]


# method, messages of a call
CALLS: dict[str, st.SearchStrategy[list[bytes]]] = {
    **{
        method.name: reshape_calls(operation).map(lambda call: [encode_reshape_request(*call)])
        for operation, method in OPERATION_METHODS.items()
    },
    STREAM_RESHAPE.name: st.builds(encode_stream, reshape_calls(), st.integers(1, 2**18)),
    INFER_SHAPE.name: requests.map(lambda request: [build_infer_request(request).SerializeToString()]),
    BATCH_INFER_SHAPE.name: st.lists(items, max_size=30).map(
        lambda batch: [join_items([encode_batch_item(item) for item in batch])]
    ),
}


@pytest.mark.parametrize("method", CALLS)
@examples(200)
@given(data=st.data())
def test_every_protobuf_parser_reads_the_server_responses(raw_channel: grpc.Channel, method: str, data: st.DataObject):
    assert exchange(raw_channel, method, data.draw(CALLS[method])) == []


@pytest.mark.parametrize("service", ["", SERVICE])
def test_every_protobuf_parser_reads_the_health_responses(raw_channel: grpc.Channel, service: str):
    request = encode_check_request(service)
    assert find_unreadable(health_pb2.HealthCheckRequest, request) == []
    assert find_unreadable(health_pb2.HealthCheckResponse, send_raw(raw_channel, CHECK_METHOD, request)) == []
