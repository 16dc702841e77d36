"""For each error reason, a request that a real server rejects with this reason.

docs/reference/errors.md therefore shows real messages. `tests/e2e/test_reasons.py` checks the same requests.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np

from inference_requests import INFER, build_request
from raw_streams import begin, chunk, open_stream
from tensor_reshape.client import (
    DataType,
    Dim,
    DimLike,
    Expression,
    Interval,
    Reason,
    ReshapeError,
    ShapeQuery,
    TensorReshapeError,
)
from tensor_reshape.client.connections import build_error
from tensor_reshape.server.oip.messages import InferMessage
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.methods import SERVICE
from verification.document.servers import MAX_MESSAGE_BYTES, TOKEN, Servers

_WHOLE = reshape_pb2.TargetShape(items=[-1])
_SIX = np.arange(6, dtype="<f4")


class Provocation(NamedTuple):
    """A rejected request.

    Attributes:
        send: sends the request, and raises or returns the error; None if no request can cause it.
        example: the message, if it is not this project's own or no request can cause it.
    """

    send: Callable[[Servers], object] | None
    example: str = ""


class Example(NamedTuple):
    """An error with a reason.

    Attributes:
        message: the message.
        keys: the keys of its metadata.
    """

    message: str
    keys: tuple[str, ...]


def provoke(reason: Reason, servers: Servers) -> Example:
    """Returns the error, or an example if no request can cause it.

    Raises:
        LookupError: the request was accepted, or rejected with another reason, rule or code.
    """
    send, example = PROVOCATIONS[reason]
    if send is None:
        return Example(example, ())
    rejection = _catch(lambda: send(servers))
    rule = "" if reason.rule is None else str(reason.rule)
    if (
        not isinstance(rejection, ReshapeError)
        or (rejection.reason, rejection.code_name) != (reason, reason.code_name)
        or rejection.metadata.get("rule", rule) != rule
    ):
        message = f"{reason} ({reason.code_name}, rule {rule}) expected, but the result was {rejection!r}"
        raise LookupError(message)
    return Example(example or rejection.message, tuple(rejection.metadata))


def _catch(send: Callable[[], object]) -> object:
    try:
        return send()
    except grpc.RpcError as status:
        return _read_status(status)
    except TensorReshapeError as error:
        return error


def _read_status(status: Any) -> TensorReshapeError:  # noqa: ANN401 - grpc's errors are also calls
    return build_error(status.code(), status.details(), status.trailing_metadata())


def _infer(
    data: Sequence[DimLike] | None,
    target: Sequence[DimLike] | None,
    *,
    special_zero: bool = False,
    operation: str = "static_reshape",
    **more: Any,
) -> Callable[[Servers], object]:
    """Returns a function that infers a shape with an explanation."""

    def send(servers: Servers) -> object:
        return servers.client.infer_shape(
            data, target, special_zero=special_zero, operation=operation, explain=True, **more
        )

    return send


def _infer_last(*queries: ShapeQuery) -> Callable[[Servers], object]:
    """Returns a function that infers a batch and returns the result of its last query."""
    return lambda servers: servers.client.infer_shapes(queries)[-1]


def _infer_model(request: InferMessage) -> Callable[[Servers], object]:
    """Returns a function that sends a request of the Open Inference Protocol."""
    return lambda servers: servers.channel.unary_unary(INFER)(request.SerializeToString(), timeout=20)


def _send(method: str, request: Any) -> Callable[[Servers], object]:  # noqa: ANN401 - any message
    """Returns a function that sends a request without the SDK."""

    def send(servers: Servers) -> object:
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = servers.channel.unary_unary(f"/{SERVICE}/{method}")
        return call(raw, timeout=20)

    return send


def _stream(*messages: bytes) -> Callable[[Servers], object]:
    """Returns a function that sends the messages of a stream."""

    def send(servers: Servers) -> object:
        with open_stream(servers.channel, *messages) as stream:
            return stream.reject()

    return send


def _call_guarded(servers: Servers, method: str, *metadata: tuple[str, str]) -> object:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = servers.guarded.unary_unary(f"/{SERVICE}/{method}")
    return call(b"", timeout=20, metadata=metadata)


def _stall(servers: Servers) -> object:
    with open_stream(servers.impatient) as stream:
        return stream.reject()


def _exceed_max_calls(servers: Servers) -> object:
    return _infer_during_two_streams(servers.full)


def _exceed_quota(servers: Servers) -> object:
    return _infer_during_two_streams(servers.strict)


def _infer_during_two_streams(channel: grpc.Channel) -> object:
    with open_stream(channel, begin()) as one, open_stream(channel, begin()) as other:
        one.accept()
        other.accept()
        with open_stream(channel) as stream:
            return stream.reject()


def _reshape_as_view(servers: Servers) -> object:
    transposed = _SIX.reshape(2, 3).T
    return servers.client.static_reshape(transposed, [-1], special_zero=False, transfer="view", copy="never")


def _reshape_large(servers: Servers) -> object:
    large = np.zeros(2 * MAX_MESSAGE_BYTES, np.uint8)
    return servers.client.reshape(large, [-1], special_zero=False, transfer="inline")


def _reshape_broadcast(servers: Servers) -> object:
    wide = np.broadcast_to(np.uint8(1), (2 * MAX_MESSAGE_BYTES,))
    return servers.client.reshape(wide, [-1], special_zero=False, transfer="inline")


def _build_tensor(**fields: Any) -> tensor_pb2.Tensor:
    values = {"data_type": tensor_pb2.DATA_TYPE_F32, "dims": [2, 3], "data": _SIX.tobytes(), **fields}
    return tensor_pb2.Tensor(**values)


def _build_static(**fields: Any) -> reshape_pb2.StaticReshapeRequest:
    return reshape_pb2.StaticReshapeRequest(shape=_WHOLE, special_zero=False, data=_build_tensor(**fields))


def _build_reshape(shape: tensor_pb2.Tensor, **fields: Any) -> reshape_pb2.ReshapeRequest:
    return reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=_build_tensor(**fields))


_FLAT = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=b"\x06")
_FAILED_LINK = (
    ShapeQuery(data_shape=[7], shape=[2, -1], special_zero=False),
    ShapeQuery(data_from=0, shape=[-1], special_zero=False),
)
_LONG_FIELD = b"\xaa\x1f\xf0\xa2\x04" + bytes(70000)  # the unknown field 501
_FUTURE_DIM = bytes.fromhex("0801 1000 1a0b 1209 0a0101 1204 0800 2801 2200")  # a dim with the unknown kind 5
_CONFLICT = reshape_pb2.InferShapeRequest(
    operation=reshape_pb2.OPERATION_RESHAPE,
    special_zero=False,
    data=tensor_pb2.TensorSpec(shape=tensor_pb2.Shape(dims=[2, 3])),
    shape=reshape_pb2.TargetShape(items=[2, 3], partial=[tensor_pb2.PartialDim(index=1)]),
).SerializeToString()

PROVOCATIONS: dict[Reason, Provocation] = {
    Reason.DATA_TYPE_UNSUPPORTED: Provocation(_infer([2, 3], [6], data_type=DataType.F64)),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: Provocation(
        _send("Reshape", _build_reshape(_build_tensor(dims=[1], data=bytes(4)))),
    ),
    Reason.SHAPE_RANK_INVALID: Provocation(
        _send("Reshape", _build_reshape(_build_tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[], data=b"\x06"))),
    ),
    Reason.SPECIAL_ZERO_MISSING: Provocation(
        _send("StaticReshape", reshape_pb2.StaticReshapeRequest(shape=_WHOLE, data=_build_tensor())),
    ),
    Reason.RANK_UNSUPPORTED: Provocation(_infer([1] * 13, [1])),
    Reason.DIM_OUT_OF_RANGE: Provocation(
        _infer([2, -3], [6]),
    ),
    Reason.INVALID_TARGET_VALUE: Provocation(_infer([2, 3], [-2, 3])),
    Reason.COPY_INDEX_OUT_OF_RANGE: Provocation(_infer([2, 3], [6, 1, 0], special_zero=True)),
    Reason.MULTIPLE_MINUS_ONE: Provocation(_infer([2, 3], [-1, -1])),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: Provocation(_infer([0, 3], [0, -1])),
    Reason.NOT_DIVISIBLE: Provocation(_infer([2, 3], [4, -1])),
    Reason.DIM_OVERFLOW: Provocation(_infer([2**62, 4], [-1])),
    Reason.VOLUME_MISMATCH: Provocation(_infer([2, 3], [4, 2])),
    Reason.EXPECTED_SHAPE_MISMATCH: Provocation(_infer([2, 3], [-1], expected_shape=[7])),
    Reason.STRIDES_UNSUPPORTED: Provocation(
        _send("Reshape", _build_reshape(_FLAT, data_type=tensor_pb2.DATA_TYPE_U4, strides=[3, 1], data=bytes(3))),
    ),
    Reason.STRIDES_RANK_MISMATCH: Provocation(_send("StaticReshape", _build_static(strides=[1], data=bytes(24)))),
    Reason.STRIDE_NEGATIVE: Provocation(_send("StaticReshape", _build_static(strides=[-3, 1], data=bytes(24)))),
    Reason.STRIDES_OVERLAP: Provocation(
        _send("StaticReshape", _build_static(strides=[1, 1], data=bytes(16))),
    ),
    Reason.DATA_SIZE_MISMATCH: Provocation(
        _send("StaticReshape", _build_static(data=bytes(20))),
    ),
    Reason.MESSAGE_MALFORMED: Provocation(_send("StaticReshape", b"\xff")),
    Reason.FIELD_MISSING: Provocation(
        _send("StaticReshape", reshape_pb2.StaticReshapeRequest(shape=_WHOLE, special_zero=False)),
    ),
    Reason.OPERATION_UNSPECIFIED: Provocation(
        _send("InferShape", reshape_pb2.InferShapeRequest(special_zero=False, data=tensor_pb2.TensorSpec())),
    ),
    Reason.DIM_UNKNOWN: Provocation(_send("InferShape", _FUTURE_DIM)),
    Reason.PARTIAL_DIM_INVALID: Provocation(_send("InferShape", _CONFLICT)),
    Reason.INTERVAL_EMPTY: Provocation(_infer([(4, 2)], [-1])),
    Reason.EXPRESSION_INVALID: Provocation(
        _infer([Dim(Interval(0, None), Expression(1, ()))], [-1]),
    ),
    Reason.SYMBOL_CONFLICT: Provocation(_infer(["N:1..3", "N:5..9"], [-1])),
    Reason.DIM_SYNTAX_INVALID: Provocation(_infer(["2..x"], [-1])),
    Reason.BATCH_REFERENCE_INVALID: Provocation(
        _infer_last(ShapeQuery(data_from=0, shape=[-1], special_zero=False)),
    ),
    Reason.BATCH_DEPENDENCY_FAILED: Provocation(_infer_last(*_FAILED_LINK)),
    Reason.INTERNAL_ERROR: Provocation(
        None,
        "internal error",
    ),
    Reason.MODEL_UNKNOWN: Provocation(_infer_model(build_request("resnet"))),
    Reason.INPUT_INVALID: Provocation(
        _infer_model(build_request(inputs=[{"name": "image"}])),
    ),
    Reason.OUTPUT_INVALID: Provocation(
        _infer_model(build_request(outputs=[{"name": "probabilities"}])),
    ),
    Reason.PARAMETER_INVALID: Provocation(
        _infer_model(build_request(target="2, 3")),
    ),
    Reason.CHUNK_UNEXPECTED: Provocation(
        _stream(chunk(0, b"abc")),
    ),
    Reason.CHUNK_OUT_OF_ORDER: Provocation(_stream(begin(), chunk(3, b"abc"))),
    Reason.UNAUTHENTICATED: Provocation(
        lambda servers: _call_guarded(servers, "InferShape"),
    ),
    Reason.PERMISSION_DENIED: Provocation(
        lambda servers: _call_guarded(servers, "Reshape", ("authorization", f"Bearer {TOKEN}")),
    ),
    Reason.VIEW_IMPOSSIBLE: Provocation(_reshape_as_view),
    Reason.RANK_LIMIT_EXCEEDED: Provocation(_infer([1] * 65, [1], operation="reshape")),
    Reason.OUTPUT_TOO_LARGE: Provocation(_reshape_broadcast),
    Reason.HEADER_TOO_LARGE: Provocation(
        _send("InferShape", _LONG_FIELD),
    ),
    Reason.BATCH_TOO_LARGE: Provocation(
        _send("BatchInferShape", reshape_pb2.BatchInferShapeRequest(items=[reshape_pb2.BatchInferShapeItem()] * 65537)),
    ),
    Reason.MESSAGE_TOO_LARGE: Provocation(
        _reshape_large,
        "CLIENT: Received message larger than max (16842753 vs. 16842752)",
    ),
    Reason.TENSOR_TOO_LARGE: Provocation(
        _stream(begin((2**41,))),
    ),
    Reason.SERVER_BUSY: Provocation(_exceed_max_calls),
    Reason.STALLED: Provocation(_stall),
    Reason.QUOTA_EXCEEDED: Provocation(
        _exceed_quota,
    ),
}
