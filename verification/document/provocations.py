"""Why each reason is given, in a sentence, and a way to be refused for it.

Everything that can be asked of a real server is: what docs/reference/errors.md shows is what a caller gets.
`tests/e2e/test_reasons.py` has the message of each.
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
from tensor_reshape.client.statuses import build_error
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from tensor_reshape.server.oip.shared_memory import MAX_REGIONS
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.methods import SERVICE
from verification.document.servers import MAX_MESSAGE_BYTES, TOKEN, Servers

_SIX = np.arange(6, dtype="<f4")


class Provocation(NamedTuple):
    """One row.

    Attributes:
        when: the request is refused, as the rest of a sentence.
        ask: is refused, or returns the refusal; None where nobody can bring it about at will.
        example: the message, where it is not this project's own or nobody can bring it about.
    """

    when: str
    ask: Callable[[Servers], object] | None
    example: str = ""


def provoke(reason: Reason, servers: Servers) -> str:
    """Returns the message that a caller gets; where nobody can bring it about, what it would be.

    Raises:
        LookupError: the request was refused for another reason, by another rule, with another code, or not at all.
    """
    _, ask, example = PROVOCATIONS[reason]
    if ask is None:
        return example
    refusal = _catch(lambda: ask(servers))
    rule = "" if reason.rule is None else str(reason.rule)
    if (
        not isinstance(refusal, ReshapeError)
        or (refusal.reason, refusal.code_name) != (reason, reason.code_name)
        or refusal.metadata.get("rule", rule) != rule
    ):
        message = f"{reason} ({reason.code_name}, rule {rule}) is not what the request is refused for: {refusal!r}"
        raise LookupError(message)
    return example or refusal.message


def _catch(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except grpc.RpcError as status:
        return _read_status(status)
    except TensorReshapeError as error:
        return error


def _read_status(status: Any) -> TensorReshapeError:  # noqa: ANN401 - grpc's errors are calls, which its types do not say
    return build_error(status.code(), status.details(), status.trailing_metadata())


def _infer(
    data: Sequence[DimLike] | None,
    target: Sequence[DimLike] | None,
    *,
    special_zero: bool = False,
    operation: str = "static_reshape",
    **more: Any,
) -> Callable[[Servers], object]:
    """Asks for a shape, and for an explanation of the refusal."""

    def ask(servers: Servers) -> object:
        return servers.client.infer_shape(
            data, target, special_zero=special_zero, operation=operation, explain=True, **more
        )

    return ask


def _infer_last(*queries: ShapeQuery) -> Callable[[Servers], object]:
    """Asks a batch, for the answer of its last question."""
    return lambda servers: servers.client.infer_shapes(queries)[-1]


def _infer_model(request: InferMessage) -> Callable[[Servers], object]:
    """Sends a message of the Open Inference Protocol."""
    return lambda servers: servers.channel.unary_unary(INFER)(request.SerializeToString(), timeout=20)


def _ask_region(channel: grpc.Channel, method: str, **fields: object) -> object:
    name = f"SystemSharedMemory{method}"
    request = find_class(f"{name}Request")(**fields)
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(find_path(name))
    return call(request.SerializeToString(), timeout=20)


def _register(**fields: object) -> Callable[[Servers], object]:
    return lambda servers: _ask_region(servers.channel, "Register", name="one", **fields)


def _register_too_many(servers: Servers) -> None:
    for index in range(MAX_REGIONS + 1):
        _ask_region(servers.channel, "Register", name=f"region {index}", key="/file", byte_size=16)


def _send(method: str, request: Any) -> Callable[[Servers], object]:  # noqa: ANN401 - any message
    """Sends a message as any language would."""

    def ask(servers: Servers) -> object:
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = servers.channel.unary_unary(f"/{SERVICE}/{method}")
        return call(raw, timeout=20)

    return ask


def _stream(*messages: bytes) -> Callable[[Servers], object]:
    """Sends the messages of a stream."""

    def ask(servers: Servers) -> object:
        with open_stream(servers.channel, *messages) as stream:
            return stream.refuse()

    return ask


def _ask_guarded(servers: Servers, method: str, *metadata: tuple[str, str]) -> object:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = servers.guarded.unary_unary(f"/{SERVICE}/{method}")
    return call(b"", timeout=20, metadata=metadata)


def _stall(servers: Servers) -> object:
    with open_stream(servers.impatient) as stream:
        return stream.refuse()


def _crowd(servers: Servers) -> object:
    return _ask_beside_two_streams(servers.full)


def _exceed_quota(servers: Servers) -> object:
    return _ask_beside_two_streams(servers.strict)


def _ask_beside_two_streams(channel: grpc.Channel) -> object:
    with open_stream(channel, begin()) as one, open_stream(channel, begin()) as other:
        one.accept()
        other.accept()
        with open_stream(channel) as stream:
            return stream.refuse()


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
    return reshape_pb2.StaticReshapeRequest(shape=[-1], special_zero=False, data=_build_tensor(**fields))


def _build_reshape(shape: tensor_pb2.Tensor, **fields: Any) -> reshape_pb2.ReshapeRequest:
    return reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=_build_tensor(**fields))


_FLAT = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=b"\x06")
_FAILED_LINK = (
    ShapeQuery(data_shape=[7], shape=[2, -1], special_zero=False),
    ShapeQuery(data_from=0, shape=[-1], special_zero=False),
)
_LONG_FIELD = b"\xaa\x1f\xf0\xa2\x04" + bytes(70000)  # field 501, which nobody knows
_FUTURE_DIM = b"\x08\x01\x10\x00\x1a\x06\x12\x04\x0a\x02\x28\x01\x22\x00"  # whose kind is field 5

PROVOCATIONS: dict[Reason, Provocation] = {
    Reason.DATA_TYPE_UNSUPPORTED: Provocation(
        "the operation does not take this type of data", _infer([2, 3], [6], data_type=DataType.F64)
    ),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: Provocation(
        "the operation does not take this type of shape tensor",
        _send("Reshape", _build_reshape(_build_tensor(dims=[1], data=bytes(4)))),
    ),
    Reason.SHAPE_RANK_INVALID: Provocation(
        "the shape tensor has not rank 1",
        _send("Reshape", _build_reshape(_build_tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[], data=b"\x06"))),
    ),
    Reason.SPECIAL_ZERO_MISSING: Provocation(
        "the request does not say what a 0 means",
        _send("StaticReshape", reshape_pb2.StaticReshapeRequest(shape=[6], data=_build_tensor())),
    ),
    Reason.RANK_UNSUPPORTED: Provocation(
        "data or target has a rank above 12, for StaticReshape and DynamicReshape", _infer([1] * 13, [1])
    ),
    Reason.DIM_OUT_OF_RANGE: Provocation(
        "a data dim, or an end of an interval, is not from 0 to 2^63 - 1, or an expression always lies above",
        _infer([2, -3], [6]),
    ),
    Reason.INVALID_TARGET_VALUE: Provocation("a target value is below -1, or above 2^63 - 1", _infer([2, 3], [-2, 3])),
    Reason.COPY_INDEX_OUT_OF_RANGE: Provocation(
        "a 0 copies a dim that the data does not have", _infer([2, 3], [6, 1, 0], special_zero=True)
    ),
    Reason.MULTIPLE_MINUS_ONE: Provocation("there is a second -1", _infer([2, 3], [-1, -1])),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: Provocation(
        "a -1 stands beside a product of 0, so no dim can be inferred", _infer([0, 3], [0, -1])
    ),
    Reason.NOT_DIVISIBLE: Provocation("-1 would not be a whole number", _infer([2, 3], [4, -1])),
    Reason.DIM_OVERFLOW: Provocation("-1 would exceed 2^63 - 1", _infer([2**62, 4], [-1])),
    Reason.VOLUME_MISMATCH: Provocation("the target has another volume than the data", _infer([2, 3], [4, 2])),
    Reason.EXPECTED_SHAPE_MISMATCH: Provocation(
        "the output is not what `expected_shape` declares", _infer([2, 3], [-1], expected_shape=[7])
    ),
    Reason.STRIDES_UNSUPPORTED: Provocation(
        "elements below one byte have strides: they are taken dense only",
        _send("Reshape", _build_reshape(_FLAT, data_type=tensor_pb2.DATA_TYPE_U4, strides=[3, 1], data=bytes(3))),
    ),
    Reason.STRIDES_RANK_MISMATCH: Provocation(
        "there are not as many strides as dims", _infer([2, 3], [6], data_strides=[1])
    ),
    Reason.STRIDE_NEGATIVE: Provocation("a stride is negative", _infer([2, 3], [6], data_strides=[-3, 1])),
    Reason.STRIDES_OVERLAP: Provocation(
        "two elements lie at one place; a stride of 0, a broadcast, is no overlap",
        _send("StaticReshape", _build_static(strides=[1, 1], data=bytes(16))),
    ),
    Reason.DATA_SIZE_MISMATCH: Provocation(
        "the bytes are not exactly what data type, dims and strides make",
        _send("StaticReshape", _build_static(data=bytes(20))),
    ),
    Reason.MESSAGE_MALFORMED: Provocation("the bytes are not the message", _send("StaticReshape", b"\xff")),
    Reason.FIELD_MISSING: Provocation(
        "a required field is absent",
        _send("StaticReshape", reshape_pb2.StaticReshapeRequest(shape=[6], special_zero=False)),
    ),
    Reason.OPERATION_UNSPECIFIED: Provocation(
        "InferShape is asked without an operation",
        _send("InferShape", reshape_pb2.InferShapeRequest(special_zero=False, data=tensor_pb2.TensorSpec())),
    ),
    Reason.DIM_UNKNOWN: Provocation(
        "a dim has a kind that this server does not know", _send("InferShape", _FUTURE_DIM)
    ),
    Reason.INTERVAL_EMPTY: Provocation("an interval ends below its beginning", _infer([(4, 2)], [-1])),
    Reason.EXPRESSION_INVALID: Provocation(
        "a symbol has no fit name, or an expression has no symbols, too many, or a number not from 1 to 2^63 - 1",
        _infer([Dim(Interval(0, None), Expression(1, ()))], [-1]),
    ),
    Reason.SYMBOL_CONFLICT: Provocation(
        "what is said of one symbol in several places leaves no number", _infer(["N:1..3", "N:5..9"], [-1])
    ),
    Reason.DIM_SYNTAX_INVALID: Provocation(
        "a text is no dim; found by the SDK and the command line", _infer(["2..x"], [-1])
    ),
    Reason.BATCH_REFERENCE_INVALID: Provocation(
        "an item of a batch takes the output of one that is not earlier, or has data of its own besides",
        _infer_last(ShapeQuery(data_from=0, shape=[-1], special_zero=False)),
    ),
    Reason.BATCH_DEPENDENCY_FAILED: Provocation(
        "the item of a batch whose output is the data was refused", _infer_last(*_FAILED_LINK)
    ),
    Reason.INTERNAL_ERROR: Provocation(
        "an item of a batch met a bug of the server, whose log has the traceback; the other items are answered. In"
        " Python a `ReshapeError` of neither subclass",
        None,
        "internal error",
    ),
    Reason.MODEL_UNKNOWN: Provocation(
        "there is no such model, or no such version of it", _infer_model(build_request("resnet"))
    ),
    Reason.INPUT_INVALID: Provocation(
        "an input has a name that the model does not know, or comes twice; or its elements are not where the protocol"
        " has them, or are numbers that its datatype does not hold",
        _infer_model(build_request(inputs=[{"name": "image"}])),
    ),
    Reason.OUTPUT_INVALID: Provocation(
        "an output is asked for that the model does not have, or twice; or the room that it is given is too small",
        _infer_model(build_request(outputs=[{"name": "probabilities"}])),
    ),
    Reason.PARAMETER_INVALID: Provocation(
        "a parameter has another kind of value, or one that cannot be read; or the target comes twice",
        _infer_model(build_request(target="2, 3")),
    ),
    Reason.SHARED_MEMORY_DISABLED: Provocation(
        "a tensor is to be in shared memory, and the server has no `--shared-memory-dir`",
        lambda servers: _ask_region(servers.full, "Status"),
    ),
    Reason.REGION_INVALID: Provocation(
        "a region is to be registered under a name that is taken, or is empty or too long; its key is no name of a file"
        " in the directory; or it is empty",
        _register(key="../secret", byte_size=16),
    ),
    Reason.REGION_UNKNOWN: Provocation(
        "no region of this name is registered", lambda servers: _ask_region(servers.channel, "Status", name="one")
    ),
    Reason.REGION_OUT_OF_RANGE: Provocation(
        "a tensor is not within its region, or a region not within its file as that is now",
        _register(key="/file", offset=8, byte_size=16),
    ),
    Reason.REGION_FILE_INVALID: Provocation(
        "the file of a region cannot be opened, or is no plain file of the server's user with one name",
        _register(key="/missing", byte_size=16),
    ),
    Reason.REGION_LIMIT_EXCEEDED: Provocation("1,024 regions are registered", _register_too_many),
    Reason.CHUNK_UNEXPECTED: Provocation(
        "a chunk belongs to no tensor, or is empty, or the message that begins a tensor has bytes of it",
        _stream(chunk(0, b"abc")),
    ),
    Reason.CHUNK_OUT_OF_ORDER: Provocation(
        "the offset of a chunk is not where the last one ended", _stream(begin(), chunk(3, b"abc"))
    ),
    Reason.UNAUTHENTICATED: Provocation(
        "the server asks for a token ([who may call](../deployment/security.md)), and the call shows none of those",
        lambda servers: _ask_guarded(servers, "InferShape"),
    ),
    Reason.PERMISSION_DENIED: Provocation(
        "the server knows the caller, and does not let it call this method, or call at all",
        lambda servers: _ask_guarded(servers, "Reshape", ("authorization", f"Bearer {TOKEN}")),
    ),
    Reason.VIEW_IMPOSSIBLE: Provocation(
        '`transfer="view", copy="never"` with strides that allow no view; found by the SDK', _reshape_as_view
    ),
    Reason.RANK_LIMIT_EXCEEDED: Provocation(
        "data or target has a rank above 64, for Reshape", _infer([1] * 65, [1], operation="reshape")
    ),
    Reason.OUTPUT_TOO_LARGE: Provocation(
        "a broadcast, or the answers of a batch, would make more than `--max-message-bytes`", _reshape_broadcast
    ),
    Reason.HEADER_TOO_LARGE: Provocation(
        "there are more than 64 KiB, or 2,048 fields, besides the tensor's bytes",
        _send("InferShape", _LONG_FIELD),
    ),
    Reason.BATCH_TOO_LARGE: Provocation(
        "a batch has more than 4 MiB or 65,536 items; or its step budget is used up, and an item would take over an"
        " output of many unknown dims",
        _send("BatchInferShape", reshape_pb2.BatchInferShapeRequest(items=[reshape_pb2.BatchInferShapeItem()] * 65537)),
    ),
    Reason.MESSAGE_TOO_LARGE: Provocation(
        "the message is above `--max-message-bytes`. The transport finds it, and answers without details; the SDK adds"
        " the reason",
        _reshape_large,
        "CLIENT: Received message larger than max (16842753 vs. 16842752)",
    ),
    Reason.TENSOR_TOO_LARGE: Provocation(
        "the tensor of a stream is above 1 TiB, or has strides and is above `--max-message-bytes`",
        _stream(begin((2**41,))),
    ),
    Reason.SERVER_BUSY: Provocation("there is no room in the memory budget, or there are too many calls", _crowd),
    Reason.STALLED: Provocation("the call makes no progress", _stall),
    Reason.QUOTA_EXCEEDED: Provocation(
        "the caller has more calls under way, or begins more in a second, than the server allows each caller"
        " (`--max-calls-per-caller`)",
        _exceed_quota,
    ),
}
