"""Oracle for messages, which uses only the generated classes.

Each message is parsed as a whole, and its fields are read by their names. A parsed message does not contain the size of
its header, which `headers` measures.
"""

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import Message

from tensor_reshape.rules.dims import AnyDim, check_dims
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.layouts import check_layout
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, Limits
from tensor_reshape.rules.operations import OPERATIONS, Operation, check_rank, check_shape_data_type
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tests.oracles.headers import measure_header
from tests.oracles.plain_batches import parse_plainly, read_answers_plainly, read_questions_plainly
from tests.oracles.plain_dims import read_shape_plainly

Reading = tuple[object, ...]
"""The contents of a message as comparable values; `describe_rejection` returns those of a rejected message."""

_MESSAGES: dict[str, type[Message]] = {
    "static_reshape": reshape_pb2.StaticReshapeRequest,
    "dynamic_reshape": reshape_pb2.DynamicReshapeRequest,
    "reshape": reshape_pb2.ReshapeRequest,
    "response": reshape_pb2.StaticReshapeResponse,
    "to_server": reshape_pb2.StreamReshapeRequest,
    "to_client": reshape_pb2.StreamReshapeResponse,
}
_BATCHES = {"questions": read_questions_plainly, "answers": read_answers_plainly}
_STREAMS = ("to_server", "to_client")
_SIGNED = frozenset(data_type for data_type in DataType if data_type.kind is ElementKind.SIGNED)
_DATA_TYPES = frozenset(map(int, DataType))
_Dims = tuple[int, ...]


def read_plainly(kind: str, raw: bytes, limits: Limits) -> Reading:
    """Returns the contents of the message, or its rejection."""
    try:
        if kind in _BATCHES:
            return "batch", *describe_items(_BATCHES[kind](raw))
        message = _parse(kind, raw)
        if kind in OPERATIONS:
            return _read_request(OPERATIONS[kind], message, limits)
        if kind == "response":
            _check_presence(message, "output")
            return _read_output(message, len(message.output.data), check=True)  # type: ignore[attr-defined]
        return _read_part(message, limits)
    except ReshapeError as error:
        return describe_rejection(error)


def describe_items(items: Iterable[object]) -> Iterator[object]:
    """Yields the items of a batch, and the guaranteed parts of their rejections."""
    return (describe_rejection(item) if isinstance(item, ReshapeError) else item for item in items)


def describe_rejection(error: ReshapeError) -> Reading:
    """Returns the guaranteed parts of a rejection. The size of a header that is too large is not one of them."""
    inexact = ("size",) if error.reason is Reason.HEADER_TOO_LARGE else ()
    metadata = {key: value for key, value in error.metadata.items() if key not in inexact}
    return "rejected", type(error), error.reason, error.field, metadata


def _parse(kind: str, raw: bytes) -> Message:
    if measure_header(raw, nested=kind not in _STREAMS) > MAX_HEADER_BYTES:
        raise LimitError.of(Reason.HEADER_TOO_LARGE, "", limit=MAX_HEADER_BYTES)
    return parse_plainly(_MESSAGES[kind], raw)


def _check_presence(message: Message, field: str) -> None:
    if not message.HasField(field):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "", field)


def _read_type(tensor: tensor_pb2.Tensor, field: str) -> DataType:
    number = tensor.data_type
    if number not in _DATA_TYPES:
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, "", f"{field}.data_type", value=number)
    return DataType(number)


def _read_layout(tensor: tensor_pb2.Tensor) -> tuple[_Dims, _Dims | None]:
    return tuple(tensor.dims), tuple(tensor.strides) or None


def _read_request(operation: Operation, message: Message, limits: Limits) -> Reading:
    _check_presence(message, "data")
    data: tensor_pb2.Tensor = message.data  # type: ignore[attr-defined]
    data_type = _read_type(data, "data")
    target = _read_target(operation, message, limits)
    said = message.special_zero if message.HasField("special_zero") else None  # type: ignore[attr-defined]
    expected = _read_expected(operation, message)
    return ("request", operation.name, said, target, expected, data_type, *_read_layout(data), data.data)


def _read_target(operation: Operation, message: Message, limits: Limits) -> Sequence[int]:
    _check_presence(message, "shape")
    if isinstance(message, reshape_pb2.StaticReshapeRequest):
        if message.shape.partial:
            raise InvalidRequestError.of(Reason.PARTIAL_DIM_INVALID, "", "shape.partial")
        return list(message.shape.items)
    shape: tensor_pb2.Tensor = message.shape  # type: ignore[attr-defined]
    data_type, (dims, strides) = _read_type(shape, "shape"), _read_layout(shape)
    check_shape_data_type(operation, data_type)
    if len(dims) != 1:
        raise InvalidRequestError.of(Reason.SHAPE_RANK_INVALID, "", "shape.dims", rank=len(dims))
    check_dims(dims, "shape.dims")
    if dims[0] > limits.max_rank:
        check_rank(operation, dims[0], "shape", limits)
    check_layout(data_type, dims, strides, len(shape.data), field="shape")
    size = data_type.bits // 8
    begins = [index * size * (strides[0] if strides else 1) for index in range(dims[0])]
    return [int.from_bytes(shape.data[at : at + size], "little", signed=data_type in _SIGNED) for at in begins]


def _read_expected(operation: Operation, message: Message) -> list[AnyDim] | None:
    if not message.HasField("expected_shape"):
        return None
    return read_shape_plainly(operation, message.expected_shape, "expected_shape.dims")  # type: ignore[attr-defined]


def _read_output(message: Message, payload_bytes: int, *, check: bool) -> Reading:
    output: tensor_pb2.Tensor = message.output  # type: ignore[attr-defined]
    data_type, (dims, strides) = _read_type(output, "output"), _read_layout(output)
    check_dims(dims, "output.dims")
    if check:
        check_layout(data_type, dims, strides, payload_bytes, field="output")
    return "output", data_type, dims, strides, output.data if check else b""


def _read_part(message: Message, limits: Limits) -> Reading:
    part = message.WhichOneof("part")
    if part == "chunk":
        return "chunk", message.offset, message.chunk  # type: ignore[attr-defined]
    if isinstance(message, reshape_pb2.StreamReshapeResponse):
        return _read_output(message, 0, check=False)
    if part is None:
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "", "part")
    header: Message = getattr(message, part)
    _check_presence(header, "data")
    have = len(header.data.data)  # type: ignore[attr-defined]
    if have:
        raise InvalidRequestError.of(Reason.CHUNK_UNEXPECTED, "", "data.data", have=have)
    return _read_request(OPERATIONS[part], header, limits)
