"""Calls for programs in other languages, and their results by the rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

import ml_dtypes
import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from grpc import StatusCode

from tensor_reshape.rules.batches import BatchItem, answer_batch
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import build_infer_request, build_infer_response
from tensor_reshape.wire.methods import OPERATION_METHODS, SERVICE, ReshapeRequest

MAX = 2**63 - 1
BFLOAT16S = np.array([1.0, -0.0, np.inf, -np.inf, np.nan, 3.140625], ml_dtypes.bfloat16)
"""Infinities, a NaN and a negative zero, which must be returned bit for bit."""


@dataclass(frozen=True)
class Failure:
    code: StatusCode  # the status code
    reason: str = ""  # the reason in the status details; empty: there are no details
    message: str = ""  # the status message; empty: any message, for example of the client
    metadata: Mapping[str, str] = field(default_factory=dict)  # the metadata in the status details


@dataclass(frozen=True)
class ForeignCall:
    service: str  # the full name of the service
    method: str  # the name of the method
    requests: Sequence[Message]  # the messages to send
    responses: Sequence[Message] = field(default_factory=tuple)  # the expected messages
    failure: Failure | None = None  # the expected failure; None: the call succeeds
    streams: bool = False  # whether the method is a stream
    holds: bool = False  # whether the client keeps its half of the stream open after the last message
    seconds: float = 30.0  # the timeout

    def to_json(self) -> dict[str, object]:
        """Returns the description for a program, with `requests` in protobuf's JSON and the field names of the API."""
        requests = [MessageToDict(request, preserving_proto_field_name=True) for request in self.requests]
        told = {"service": self.service, "method": self.method, "streams": self.streams, "holds": self.holds}
        return {**told, "seconds": self.seconds, "requests": requests}


def read_failure(error: ReshapeError) -> Failure:
    return Failure(StatusCode[error.code_name], error.reason, error.message, error.metadata)


Tensor = tensor_pb2.Tensor
_Request = type[ReshapeRequest]
_Response = type[reshape_pb2.StaticReshapeResponse | reshape_pb2.DynamicReshapeResponse | reshape_pb2.ReshapeResponse]
_KINDS: dict[Operation, tuple[_Request, _Response]] = {
    STATIC_RESHAPE: (reshape_pb2.StaticReshapeRequest, reshape_pb2.StaticReshapeResponse),
    DYNAMIC_RESHAPE: (reshape_pb2.DynamicReshapeRequest, reshape_pb2.DynamicReshapeResponse),
    RESHAPE: (reshape_pb2.ReshapeRequest, reshape_pb2.ReshapeResponse),
}


def make_tensor(data_type: DataType, dims: Sequence[int], data: bytes, strides: Sequence[int] = ()) -> Tensor:
    return Tensor(data_type=tensor_pb2.DataType.ValueType(data_type), dims=dims, data=data, strides=strides)


def make_request(operation: Operation, target: Sequence[int], data: Tensor) -> Message:
    kind, _ = _KINDS[operation]
    if kind is reshape_pb2.StaticReshapeRequest:
        return kind(shape=reshape_pb2.TargetShape(items=target), special_zero=True, data=data)
    data_type = DataType.I32 if operation is DYNAMIC_RESHAPE else DataType.I64
    items = np.array(target, f"<i{data_type.group_bytes}").tobytes()
    return kind(shape=make_tensor(data_type, [len(target)], items), special_zero=True, data=data)


def make_reshape(operation: Operation, target: Sequence[int], data: Tensor, elements: bytes) -> ForeignCall:
    """Returns the call of one operation. `elements` are those of the data in row-major order."""
    data_type = DataType(data.data_type)
    question = Question(
        operation=operation, data=tuple(data.dims), target=target, special_zero=True, data_type=data_type
    )
    request, (_, kind) = make_request(operation, target, data), _KINDS[operation]
    try:
        output = make_tensor(data_type, infer_shape(question), elements)
    except ReshapeError as error:
        return ForeignCall(SERVICE, OPERATION_METHODS[operation].name, [request], failure=read_failure(error))
    return ForeignCall(SERVICE, OPERATION_METHODS[operation].name, [request], [kind(output=output)])


def list_empty_reshapes() -> Iterator[ForeignCall]:
    """Empty tensors, whose other dims may be huge."""
    for target in ([0], [3, 0], [MAX, 0], [0, MAX], [MAX, 4, 0, 2**62], [*[MAX] * 11, 0], [0, *[2**40] * 11]):
        for operation in OPERATIONS.values():
            if operation is not DYNAMIC_RESHAPE or max(target) < 2**31:
                yield make_reshape(operation, target, make_tensor(DataType.F32, [0], b""), b"")


def make_stream(random: Random, operation: Operation, dims: Sequence[int], chunk_bytes: int) -> ForeignCall:
    """Returns a call that sends one tensor in chunks and receives each chunk."""
    payload = random.randbytes(prod(dims) * 4)
    header = make_request(operation, [-1], make_tensor(DataType.F32, dims, b""))
    part = next(name for name, one in OPERATIONS.items() if one is operation)
    chunks = [(begin, payload[begin : begin + chunk_bytes]) for begin in range(0, len(payload), chunk_bytes)]
    first = reshape_pb2.StreamReshapeRequest()
    getattr(first, part).CopyFrom(header)
    output = make_tensor(DataType.F32, [prod(dims)], b"")
    return ForeignCall(
        SERVICE,
        "StreamReshape",
        [first, *[reshape_pb2.StreamReshapeRequest(chunk=chunk, offset=offset) for offset, chunk in chunks]],
        [
            reshape_pb2.StreamReshapeResponse(output=output),
            *[reshape_pb2.StreamReshapeResponse(chunk=chunk, offset=offset) for offset, chunk in chunks],
        ],
        streams=True,
    )


N, M, WIDE = name_dim("N"), name_dim("größe", 1, 2**40), Dim(Interval(2, 8))
EXPRESSION = Dim(
    Interval(0, None), make_expression(2**40, [Symbol("N", Interval(0, None))], 3, [Symbol("K", Interval(1, 9))])
)
PAIRS: list[tuple[list[AnyDim] | None, list[AnyDim] | None]] = [
    ([2, 3], [3, 2]),
    ([2, 3, 4], [0, -1]),
    ([], []),
    ([0], [MAX, 2**62, 0]),
    ([N, 4, 5], [0, -1]),
    ([N, 6], [-1, 4]),
    ([N, M], [M, -1]),
    ([N, 4], [M, 2]),
    ([WIDE, 12], [-1, 6]),
    ([EXPRESSION, 4], [-1]),
    ([None, 1, 2], [-1, 0]),
    (None, [3, -1, 0, 2]),
    ([2, 3], None),
    ([WIDE, None], [N, -1, 2]),
    ([2, 3], [7]),
    ([2, 3], [-1, -1]),
    ([4, 0, 2], [-1, 0]),
    ([3], [Dim(Interval(5, 4))]),
]


def list_questions() -> Iterator[ShapeRequest]:
    for operation in OPERATIONS.values():
        for data, target in PAIRS:
            question = Question(operation=operation, data=data, target=target, special_zero=True)
            yield ShapeRequest(question)
            yield ShapeRequest(question, explain=True)


def make_inference(request: ShapeRequest) -> ForeignCall:
    (answer,) = answer_batch([BatchItem(request)])
    sent = [build_infer_request(request)]
    if isinstance(answer, ReshapeError):
        return ForeignCall(SERVICE, "InferShape", sent, failure=read_failure(answer))
    return ForeignCall(SERVICE, "InferShape", sent, [build_infer_response(answer)])


FOLLOWING = ShapeRequest(Question(operation=RESHAPE, data=None, target=[1, -1], special_zero=False))
"""For batches: queries whose data is the output of another query."""


def make_batch(items: Sequence[BatchItem]) -> ForeignCall:
    sent = [
        reshape_pb2.BatchInferShapeItem(question=build_infer_request(item.request), data_from=item.data_from)
        for item in items
    ]
    results = map(make_result, answer_batch(items))
    return ForeignCall(
        SERVICE,
        "BatchInferShape",
        [reshape_pb2.BatchInferShapeRequest(items=sent)],
        [reshape_pb2.BatchInferShapeResponse(results=results)],
    )


def make_result(answer: ShapeAnswer | ReshapeError) -> reshape_pb2.BatchInferShapeResult:
    if isinstance(answer, ShapeAnswer):
        return reshape_pb2.BatchInferShapeResult(answer=build_infer_response(answer))
    rejection = reshape_pb2.Rejection(
        reason=answer.reason,
        message=answer.message,
        field=answer.field,
        metadata=answer.metadata,
        limit_exceeded=isinstance(answer, LimitError),
    )
    return reshape_pb2.BatchInferShapeResult(rejection=rejection)
