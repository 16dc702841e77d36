"""Computes in this process the responses of a server with default limits, with the same rules and the same encoders.

Invariants: requests and responses are bytes, as in a server. If a server would reject a request, this module rejects it
with the same reason, field and values as the server. Calls are not limited, queued or counted, so there are no
concurrency limits.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version

from google.protobuf.wrappers_pb2 import Int32Value, StringValue
from grpc import StatusCode

from tensor_reshape.client.errors import ServiceError
from tensor_reshape.rules.batches import answer_batch
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.inference import answer_question, infer_shape
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import (
    DEFAULT_LIMITS,
    MAX_BATCH_BYTES,
    MAX_BATCH_ITEMS,
    MAX_HEADER_BYTES,
    MAX_MESSAGE_BYTES,
)
from tensor_reshape.rules.operations import Operation
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.arrays import gather
from tensor_reshape.wire.health import CHECK_METHOD, HealthStatus
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, OPERATION_METHODS, SERVER_INFO, SERVICE
from tensor_reshape.wire.servers import ServerInfo, ServerLimits, describe_operation, encode_server_info
from tensor_reshape.wire.streams import Chunk, decode_stream_request, encode_accept
from tensor_reshape.wire.tensors import TensorView

INFO = ServerInfo(
    version=version("tensor-reshape"),
    limits=ServerLimits(
        max_message_bytes=MAX_MESSAGE_BYTES,
        max_output_bytes=DEFAULT_LIMITS.max_output_bytes,
        max_tensor_bytes=DEFAULT_LIMITS.max_tensor_bytes,
        max_header_bytes=MAX_HEADER_BYTES,
        max_batch_bytes=MAX_BATCH_BYTES,
        max_batch_items=MAX_BATCH_ITEMS,
    ),
    operations={
        operation.name: describe_operation(operation, DEFAULT_LIMITS.max_rank) for operation in OPERATION_METHODS
    },
    features=frozenset(),
)
"""The server info of a fake client."""

_NO_BYTES = memoryview(b"")


def respond(path: str, request: bytes) -> bytes:
    """Returns the response of a server for a unary method.

    Raises:
        ReshapeError: a server would reject the request.
        ServiceError: the request is for the health of an unknown service.
    """
    if len(request) > MAX_MESSAGE_BYTES:
        # If a message is too large, gRPC's core reports this error text.
        text = f"Received message larger than max ({len(request)} vs. {MAX_MESSAGE_BYTES})"
        raise LimitError.of(Reason.MESSAGE_TOO_LARGE, text, "data")
    return _METHODS[path](request)


def respond_to_stream(messages: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the response messages of a stream with one dense tensor, which is the only kind that the SDK sends.

    Raises:
        ReshapeError: a server would reject the request.
    """
    for message in messages:
        part = decode_stream_request(message)
        if isinstance(part, Chunk):
            # a reshape does not change the order of elements in a dense tensor, so the chunk is sent back unchanged
            yield message
        else:
            dims = infer_shape(part.question)
            yield encode_accept(TensorView(part.data.data_type, dims, None, _NO_BYTES))


def _reshape(operation: Operation, request: bytes) -> bytes:
    call = reshapes.decode_reshape_request(operation, request)
    dims = infer_shape(call.question)
    call.data.check_layout("data")
    size, limit = count_bytes(call.data.data_type, dims), DEFAULT_LIMITS.max_output_bytes
    if size > limit:
        message = f"the output has {size} bytes; this server allows up to {limit}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, "data", size=size, limit=limit)
    return reshapes.encode_reshape_response(TensorView(call.data.data_type, dims, None, gather(call.data)))


def _infer(request: bytes) -> bytes:
    answer = answer_question(inference.decode_infer_request(request))
    return inference.build_infer_response(answer).SerializeToString()


def _infer_batch(request: bytes) -> bytes:
    items = batches.decode_batch_items(batches.decode_batch_request(request))
    return batches.encode_batch_response(answer_batch(items), DEFAULT_LIMITS.max_output_bytes)


def _check_health(request: bytes) -> bytes:
    if StringValue.FromString(request).value not in {"", SERVICE}:
        text = "unknown service"
        raise ServiceError(text, StatusCode.NOT_FOUND)
    return Int32Value(value=HealthStatus.SERVING).SerializeToString()


_METHODS: Mapping[str, Callable[[bytes], bytes]] = {
    **{method.path: partial(_reshape, operation) for operation, method in OPERATION_METHODS.items()},
    INFER_SHAPE.path: _infer,
    BATCH_INFER_SHAPE.path: _infer_batch,
    SERVER_INFO.path: lambda _request: encode_server_info(INFO),
    CHECK_METHOD: _check_health,
}
