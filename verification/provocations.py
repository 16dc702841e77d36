"""For each error reason, a request that a real server rejects with this reason.

docs/reference/errors.md therefore shows real messages. `tests/e2e/test_reasons.py` checks the same requests. Each
server has a low limit or requires credentials.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import grpc
import numpy as np

from inference_requests import INFER, build_request
from plain_requests import begin, chunk, open_stream, read_trailing, send_raw
from server_processes import run_server
from tensor_reshape.client import (
    Client,
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

MAX_MESSAGE_BYTES = 2**20
"""The message limit of the server of `Servers.client`."""

TOKEN = "of-nobody-but-this-program-" * 2
"""The token of the server of `Servers.guarded`."""

_LIMITS = ("--max-message-bytes", str(MAX_MESSAGE_BYTES))
_FULL = ("--max-calls", "2")
_STRICT = ("--max-calls-per-caller", "2")
_IMPATIENT = ("--stall-timeout-seconds", "0.2")


class Servers(NamedTuple):
    client: Client  # a client of a server with small limits and a shared directory, which has a `file` of 16 bytes
    channel: grpc.Channel  # a channel to the same server
    full: grpc.Channel  # a channel to a server with a low limit of running calls
    impatient: grpc.Channel  # a channel to a server with a short stall timeout
    strict: grpc.Channel  # a channel to a server with a low quota for each caller
    guarded: grpc.Channel  # a channel to a server that requires a token and permits only InferShape


@contextmanager
def run_servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        all_flags = (_LIMITS, _FULL, _IMPATIENT, _STRICT, _guard(folder))
        addresses = [stack.enter_context(run_server(*flags)).address for flags in all_flags]
        channels = [stack.enter_context(grpc.insecure_channel(address)) for address in addresses]
        client = stack.enter_context(Client(addresses[0]))
        yield Servers(client, *channels)


def _guard(folder: Path) -> tuple[str, ...]:
    """Writes the token file and the authorization file, and returns the flags for them."""
    tokens, authorization = folder / "tokens", folder / "authorization.toml"
    tokens.write_text(f"viewer:{TOKEN}\n")
    authorization.write_text(f'[callers]\n"token:viewer" = ["/{SERVICE}/InferShape"]\n')
    return "--token-file", str(tokens), "--authorization-file", str(authorization)


_WHOLE = reshape_pb2.TargetShape(items=[-1])
_SIX = np.arange(6, dtype="<f4")


Provocation: TypeAlias = Callable[[Servers], object]
"""Sends a rejected request, and raises or returns the error."""


class Example(NamedTuple):
    """An error with a reason."""

    message: str  # the message
    keys: tuple[str, ...]  # the keys of its metadata


def provoke(reason: Reason, servers: Servers) -> Example:
    """Returns the error, or an example if no request can cause it."""
    if reason not in PROVOCATIONS:
        return Example(_MESSAGES[reason], ())
    rejection = _catch(lambda: PROVOCATIONS[reason](servers))
    rule = "" if reason.rule is None else str(reason.rule)
    if (
        not isinstance(rejection, ReshapeError)
        or (rejection.reason, rejection.code_name) != (reason, reason.code_name)
        or rejection.metadata.get("rule", rule) != rule
    ):
        message = f"{reason} ({reason.code_name}, rule {rule}) expected, but the result was {rejection!r}"
        raise LookupError(message)
    return Example(_MESSAGES.get(reason, rejection.message), tuple(rejection.metadata))


def _catch(send: Callable[[], object]) -> object:
    try:
        return send()
    except grpc.RpcError as status:
        return build_error(status.code(), status.details(), read_trailing(status).items())
    except TensorReshapeError as error:
        return error


def _infer(data: Sequence[DimLike] | None, target: Sequence[DimLike] | None, **more: Any) -> Provocation:
    options = {"special_zero": False, "operation": "static_reshape", **more}
    return lambda servers: servers.client.infer_shape(data, target, explain=True, **options)


def _infer_last(*queries: ShapeQuery) -> Provocation:
    """Returns a function that infers a batch and returns the result of its last query."""
    return lambda servers: servers.client.infer_shapes(queries)[-1]


def _infer_model(request: InferMessage) -> Provocation:
    return lambda servers: servers.channel.unary_unary(INFER)(request.SerializeToString(), timeout=20)


def _send(method: str, request: Any) -> Provocation:  # noqa: ANN401 - any message
    raw = request if isinstance(request, bytes) else request.SerializeToString()
    return lambda servers: send_raw(servers.channel, method, raw)


def _stream(
    *messages: bytes, find_channel: Callable[[Servers], grpc.Channel] = lambda servers: servers.channel
) -> Provocation:
    def send(servers: Servers) -> object:
        with open_stream(find_channel(servers), *messages) as stream:
            return stream.reject()

    return send


def _call_guarded(servers: Servers, method: str, *metadata: tuple[str, str]) -> object:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = servers.guarded.unary_unary(f"/{SERVICE}/{method}")
    return call(b"", timeout=20, metadata=metadata)


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
    Reason.DATA_TYPE_UNSUPPORTED: _infer([2, 3], [6], data_type=DataType.F64),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: _send("Reshape", _build_reshape(_build_tensor(dims=[1], data=bytes(4)))),
    Reason.SHAPE_RANK_INVALID: _send(
        "Reshape", _build_reshape(_build_tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[], data=b"\x06"))
    ),
    Reason.SPECIAL_ZERO_MISSING: _send(
        "StaticReshape", reshape_pb2.StaticReshapeRequest(shape=_WHOLE, data=_build_tensor())
    ),
    Reason.RANK_UNSUPPORTED: _infer([1] * 13, [1]),
    Reason.DIM_OUT_OF_RANGE: _infer([2, -3], [6]),
    Reason.INVALID_TARGET_VALUE: _infer([2, 3], [-2, 3]),
    Reason.COPY_INDEX_OUT_OF_RANGE: _infer([2, 3], [6, 1, 0], special_zero=True),
    Reason.MULTIPLE_MINUS_ONE: _infer([2, 3], [-1, -1]),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: _infer([0, 3], [0, -1]),
    Reason.NOT_DIVISIBLE: _infer([2, 3], [4, -1]),
    Reason.DIM_OVERFLOW: _infer([2**62, 4], [-1]),
    Reason.VOLUME_MISMATCH: _infer([2, 3], [4, 2]),
    Reason.EXPECTED_SHAPE_MISMATCH: _infer([2, 3], [-1], expected_shape=[7]),
    Reason.STRIDES_UNSUPPORTED: _send(
        "Reshape", _build_reshape(_FLAT, data_type=tensor_pb2.DATA_TYPE_U4, strides=[3, 1], data=bytes(3))
    ),
    Reason.STRIDES_RANK_MISMATCH: _send("StaticReshape", _build_static(strides=[1], data=bytes(24))),
    Reason.STRIDE_NEGATIVE: _send("StaticReshape", _build_static(strides=[-3, 1], data=bytes(24))),
    Reason.STRIDES_OVERLAP: _send("StaticReshape", _build_static(strides=[1, 1], data=bytes(16))),
    Reason.DATA_SIZE_MISMATCH: _send("StaticReshape", _build_static(data=bytes(20))),
    Reason.MESSAGE_MALFORMED: _send("StaticReshape", b"\xff"),
    Reason.FIELD_MISSING: _send("StaticReshape", reshape_pb2.StaticReshapeRequest(shape=_WHOLE, special_zero=False)),
    Reason.OPERATION_UNSPECIFIED: _send(
        "InferShape", reshape_pb2.InferShapeRequest(special_zero=False, data=tensor_pb2.TensorSpec())
    ),
    Reason.DIM_UNKNOWN: _send("InferShape", _FUTURE_DIM),
    Reason.PARTIAL_DIM_INVALID: _send("InferShape", _CONFLICT),
    Reason.INTERVAL_EMPTY: _infer([(4, 2)], [-1]),
    Reason.EXPRESSION_INVALID: _infer([Dim(Interval(0, None), Expression(1, ()))], [-1]),
    Reason.SYMBOL_CONFLICT: _infer(["N:1..3", "N:5..9"], [-1]),
    Reason.DIM_SYNTAX_INVALID: _infer(["2..x"], [-1]),
    Reason.BATCH_REFERENCE_INVALID: _infer_last(ShapeQuery(data_from=0, shape=[-1], special_zero=False)),
    Reason.BATCH_DEPENDENCY_FAILED: _infer_last(*_FAILED_LINK),
    Reason.MODEL_UNKNOWN: _infer_model(build_request("resnet")),
    Reason.INPUT_INVALID: _infer_model(build_request(inputs=[{"name": "image"}])),
    Reason.OUTPUT_INVALID: _infer_model(build_request(outputs=[{"name": "probabilities"}])),
    Reason.PARAMETER_INVALID: _infer_model(build_request(target="2, 3")),
    Reason.CHUNK_UNEXPECTED: _stream(chunk(0, b"abc")),
    Reason.CHUNK_OUT_OF_ORDER: _stream(begin(), chunk(3, b"abc")),
    Reason.UNAUTHENTICATED: lambda servers: _call_guarded(servers, "InferShape"),
    Reason.PERMISSION_DENIED: lambda servers: _call_guarded(servers, "Reshape", ("authorization", f"Bearer {TOKEN}")),
    Reason.VIEW_IMPOSSIBLE: _reshape_as_view,
    Reason.RANK_LIMIT_EXCEEDED: _infer([1] * 65, [1], operation="reshape"),
    Reason.OUTPUT_TOO_LARGE: _reshape_broadcast,
    Reason.HEADER_TOO_LARGE: _send("InferShape", _LONG_FIELD),
    Reason.BATCH_TOO_LARGE: _send(
        "BatchInferShape", reshape_pb2.BatchInferShapeRequest(items=[reshape_pb2.BatchInferShapeItem()] * 65537)
    ),
    Reason.MESSAGE_TOO_LARGE: _reshape_large,
    Reason.TENSOR_TOO_LARGE: _stream(begin((2**41,))),
    Reason.SERVER_BUSY: lambda servers: _infer_during_two_streams(servers.full),
    Reason.STALLED: _stream(find_channel=lambda servers: servers.impatient),
    Reason.QUOTA_EXCEEDED: lambda servers: _infer_during_two_streams(servers.strict),
}
_MESSAGES = {
    Reason.INTERNAL_ERROR: "internal error",  # no request can cause it
    Reason.MESSAGE_TOO_LARGE: "CLIENT: Received message larger than max (16842753 vs. 16842752)",
}
"""Messages that are not this project's own."""
