"""Oracle for batches, which uses only the generated classes.

An unreadable item affects only this item. The oracle therefore parses the batch with a class whose items are bytes, and
each item with its own class. A batch with a group is parsed as a whole.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import AnyDim, check_partial_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, ONNX_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import DimGroup, Kind, Origin, Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2
from tests.oracles.plain_dims import read_dims_plainly, read_items_plainly, read_shape_plainly, read_term_plainly

AnyMessage = TypeVar("AnyMessage", bound=Message)
_OPERATIONS = {1: STATIC_RESHAPE, 2: DYNAMIC_RESHAPE, 3: RESHAPE, 4: ONNX_RESHAPE}
_KINDS = dict(enumerate((Kind.LITERAL, Kind.COPIED, Kind.INFERRED, Kind.LENGTH), 1))
_START_GROUP = 3


def _build_items() -> type[Message]:
    """Returns a message class whose field 1 is repeated bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="items.proto", syntax="proto3")
    field = file.message_type.add(name="Items").field.add(name="items", number=1)
    field.type, field.label = field.TYPE_BYTES, field.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    return message_factory.GetMessageClass(
        pool.AddSerializedFile(file.SerializeToString()).message_types_by_name["Items"]
    )


_Items = _build_items()


def read_questions_plainly(raw: bytes) -> Iterator[BatchItem | ReshapeError]:
    """Yields each item of a request, or its rejection."""
    for item in _split(reshape_pb2.BatchInferShapeRequest, "items", raw):
        try:
            yield _read_item(item)
        except ReshapeError as error:
            yield error


def read_answers_plainly(raw: bytes) -> Iterator[ShapeAnswer | ReshapeError]:
    """Yields each result of a response."""
    for result in _split(reshape_pb2.BatchInferShapeResponse, "results", raw):
        yield _read_result(parse_plainly(reshape_pb2.BatchInferShapeResult, result))


def _split(kind: type[Message], name: str, raw: bytes) -> Sequence[bytes]:
    message = parse_plainly(_Items, raw)
    unknown = UnknownFieldSet(message)
    if all(unknown[index].wire_type != _START_GROUP for index in range(len(unknown))):
        return cast("Sequence[bytes]", message.items)  # type: ignore[attr-defined]
    if len(raw) > MAX_HEADER_BYTES:
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "")
    return [item.SerializeToString() for item in getattr(parse_plainly(kind, raw), name)]


def parse_plainly(kind: type[AnyMessage], raw: bytes) -> AnyMessage:
    """Returns the message that the generated class parses."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "") from None


def _read_item(raw: bytes) -> BatchItem:
    if len(raw) > MAX_HEADER_BYTES:
        raise LimitError.of(Reason.HEADER_TOO_LARGE, "", limit=MAX_HEADER_BYTES)
    item = parse_plainly(reshape_pb2.BatchInferShapeItem, raw)
    if not item.HasField("question"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "", "question")
    request, linked = _read_question(item.question), item.HasField("data_from")
    if not linked and not item.question.HasField("data"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "", "data")
    return BatchItem(request, item.data_from if linked else None)


def _read_question(message: reshape_pb2.InferShapeRequest) -> ShapeRequest:
    operation = _OPERATIONS.get(message.operation)
    if operation is None:
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, "", "operation", value=message.operation)
    data = _read_shape(operation, message.data, "shape", "data.dims")
    target = read_items_plainly(operation, message.shape) if message.HasField("shape") else None
    number = message.data.data_type
    if number not in {0, *DataType}:
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, "", "data.data_type", value=number)
    question = Question(
        operation,
        data,
        target,
        message.special_zero if message.HasField("special_zero") else None,
        DataType(number) if number else None,
        _read_shape(operation, message, "expected_shape", "expected_shape.dims"),
    )
    return ShapeRequest(question, message.explain)


def _read_shape(operation: Operation, message: Message, name: str, path: str) -> list[AnyDim] | None:
    return read_shape_plainly(operation, getattr(message, name), path) if message.HasField(name) else None


def _read_result(result: reshape_pb2.BatchInferShapeResult) -> ShapeAnswer | ReshapeError:
    if result.HasField("answer"):
        return _read_answer(result.answer)
    if not result.HasField("rejection"):
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "", "results")
    rejection = result.rejection
    kind = LimitError if rejection.limit_exceeded else InvalidRequestError
    return kind(rejection.message, reason=rejection.reason, field=rejection.field, metadata=dict(rejection.metadata))


def _read_answer(message: reshape_pb2.InferShapeResponse) -> ShapeAnswer:
    dims = read_dims_plainly(message.shape, "shape.dims") if message.HasField("shape") else None
    check_partial_dims(dims or (), "shape.dims")
    known = [one for one in message.conditions if one.kind in {1, 2, 3}]
    conditions = [_read_condition(one) for one in known]
    complete = message.conditions_complete and len(known) == len(message.conditions)
    origins = [_read_origin(one) for one in message.origins]
    groups = [DimGroup(*map(_read_range, (one.data_indices, one.output_indices))) for one in message.groups]
    shape = None if dims is None else tuple(dims)
    return ShapeAnswer(shape, tuple(conditions), tuple(origins), complete, tuple(groups))


def _read_range(indices: Sequence[int]) -> range:
    return range(indices[0], indices[-1] + 1) if indices else range(0)


def _read_condition(one: reshape_pb2.Condition) -> Condition:
    left, right, unless_zero = (
        read_term_plainly(getattr(one, name)) if one.HasField(name) or name == "left" else None
        for name in ("left", "right", "unless_zero")
    )
    assert left is not None
    low, high = (getattr(one, name) if one.HasField(name) else None for name in ("min", "max"))
    kind = {1: ConditionKind.EQUAL, 2: ConditionKind.DIVIDES, 3: ConditionKind.RANGE}[one.kind]
    return Condition(kind, left, right, low, high, unless_zero, one.rule, one.item)


def _read_origin(origin: reshape_pb2.Origin) -> Origin:
    index = origin.data_index if origin.HasField("data_index") else None
    return Origin(_KINDS.get(origin.kind, Kind.UNKNOWN), origin.text, index, origin.dividend, origin.divisor)
