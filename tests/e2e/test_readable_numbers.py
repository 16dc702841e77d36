"""Every reader in use takes the numbers of each request and of its answer."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st

from dim_strategies import LAWFUL_REQUESTS, REQUESTS
from hypothesis_profiles import examples
from remote_refusals import read_trailing, send_raw
from server_processes import ServerProcess
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.batches import encode_batch_item, join_items
from tensor_reshape.wire.health import CHECK_METHOD, encode_check_request
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.methods import OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import ReshapeCall, encode_reshape_request
from tensor_reshape.wire.status import DETAILS_KEY
from tensor_reshape.wire.streams import encode_begin, encode_chunk
from tensor_reshape.wire.tensors import TensorView
from tensor_strategies import reshape_calls
from tests.oracles.varints import find_unreadable

SECONDS = 60

requests = LAWFUL_REQUESTS | LAWFUL_REQUESTS | REQUESTS
items = st.builds(BatchItem, requests, st.sampled_from([None, None, None, 0, 1, -1]))


@pytest.fixture(scope="session")
def raw_channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


def find_in_refusal(error: grpc.RpcError) -> list[str]:
    """Returns what some reader would not take of the details of a refusal."""
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


def find_classes(method: str) -> tuple[type[Message], type[Message]]:
    """Returns the classes of the requests and of the answers of a method."""
    return getattr(reshape_pb2, f"{method}Request"), getattr(reshape_pb2, f"{method}Response")


def ask(channel: grpc.Channel, method: str, request: bytes) -> list[str]:
    """Returns what some reader would not take of a request, and of its answer."""
    sent, received = find_classes(method)
    findings = find_unreadable(sent, request)
    try:
        return findings + find_unreadable(received, send_raw(channel, method, request))
    except grpc.RpcError as error:
        return findings + find_in_refusal(error)


def stream(channel: grpc.Channel, messages: list[bytes]) -> list[str]:
    """Returns what some reader would not take of the messages of a stream, to either side."""
    sent, received = find_classes(STREAM_RESHAPE.name)
    findings = [finding for message in messages for finding in find_unreadable(sent, message)]
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM_RESHAPE.path)
    try:
        for answer in method(iter(messages), timeout=SECONDS):
            findings += find_unreadable(received, answer)
    except grpc.RpcError as error:
        findings += find_in_refusal(error)
    return findings


@pytest.mark.parametrize("operation", OPERATION_METHODS, ids=str)
@examples(100)
@given(data=st.data())
def test_every_reader_takes_an_answer_with_a_tensor(
    raw_channel: grpc.Channel, operation: Operation, data: st.DataObject
):
    call, shape = data.draw(reshape_calls(operation))
    assert ask(raw_channel, OPERATION_METHODS[operation].name, encode_reshape_request(call, shape)) == []


@examples(100)
@given(call=reshape_calls(), chunk_bytes=st.integers(1, 2**18))
def test_every_reader_takes_the_messages_of_a_stream(
    raw_channel: grpc.Channel, call: tuple[ReshapeCall, TensorView | None], chunk_bytes: int
):
    payload = call[0].data.payload
    size = max(chunk_bytes, len(payload) // 50)
    chunks = [encode_chunk(begin, payload[begin : begin + size]) for begin in range(0, len(payload), size)]
    assert stream(raw_channel, [encode_begin(*call), *chunks]) == []


@examples(200)
@given(request=requests)
def test_every_reader_takes_a_shape(raw_channel: grpc.Channel, request: ShapeRequest):
    assert ask(raw_channel, "InferShape", build_infer_request(request).SerializeToString()) == []


@examples(100)
@given(batch=st.lists(items, max_size=30))
def test_every_reader_takes_a_batch(raw_channel: grpc.Channel, batch: list[BatchItem]):
    assert ask(raw_channel, "BatchInferShape", join_items([encode_batch_item(item) for item in batch])) == []


@pytest.mark.parametrize("service", ["", "tensor_reshape.v1.ReshapeService"])
def test_every_reader_takes_the_health(raw_channel: grpc.Channel, service: str):
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = raw_channel.unary_unary(CHECK_METHOD)
    request = encode_check_request(service)
    assert find_unreadable(health_pb2.HealthCheckRequest, request) == []
    assert find_unreadable(health_pb2.HealthCheckResponse, call(request, timeout=SECONDS)) == []
