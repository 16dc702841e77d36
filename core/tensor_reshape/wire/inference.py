"""Encodes and decodes the requests and responses of InferShape.

A request with an unknown operation or an unknown kind of dim is rejected. Unknown values in a response are ignored or
become UNKNOWN, because a newer server may send such values.
"""

from collections.abc import Sequence

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import check_partial_dims
from tensor_reshape.rules.errors import MAX_VALUE_CHARACTERS, InvalidRequestError, Reason, clip_text
from tensor_reshape.rules.questions import DimGroup, Kind, Origin, Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import (
    decode_dims,
    decode_expected,
    decode_expression,
    decode_shape,
    decode_target,
    encode_expression,
    write_shape,
    write_target,
)
from tensor_reshape.wire.fields import check_header_size, parse_message
from tensor_reshape.wire.methods import OPERATION_NUMBERS, OPERATIONS_BY_NUMBER
from tensor_reshape.wire.tensors import decode_data_type, encode_data_type

# The names of the protobuf enum values consist of a prefix and the name of the Python member.
_KIND_NUMBERS = {kind: reshape_pb2.Origin.Kind.Value(f"KIND_{kind.name}") for kind in Kind}
_KINDS = {int(number): kind for kind, number in _KIND_NUMBERS.items()}
_CONDITION_NUMBERS = {kind: reshape_pb2.Condition.Kind.Value(f"KIND_{kind.name}") for kind in ConditionKind}
_CONDITION_KINDS = {int(number): kind for kind, number in _CONDITION_NUMBERS.items()}


def build_infer_request(request: ShapeRequest) -> reshape_pb2.InferShapeRequest:
    """Returns the request message for a query.

    Raises:
        ValueError: a number does not fit into an s64.
    """
    message = reshape_pb2.InferShapeRequest()
    write_infer_request(message, request)
    return message


def write_infer_request(message: reshape_pb2.InferShapeRequest, request: ShapeRequest) -> None:
    """Writes a query into an empty message.

    Raises:
        ValueError: a number does not fit into an s64.
    """
    operation, data, target, special_zero, data_type, expected = request.question
    message.operation = OPERATION_NUMBERS[operation]
    if special_zero is not None:
        message.special_zero = special_zero
    message.data.SetInParent()  # the field must be present, even if nothing is known about the data
    if data is not None:
        write_shape(message.data.shape, data)
    if data_type is not None:
        message.data.data_type = encode_data_type(data_type)
    if target is not None:
        write_target(message.shape, target)
    if expected is not None:
        write_shape(message.expected_shape, expected)
    if request.explain:
        message.explain = True


def decode_infer_request(raw: bytes) -> ShapeRequest:
    """Reads an InferShape request.

    Raises:
        InvalidRequestError: the message cannot be read, a required field is absent, or a dim is of an unknown kind.
        LimitError: the reason is HEADER_TOO_LARGE.
    """
    check_header_size(len(raw))
    return read_question(parse_message(reshape_pb2.InferShapeRequest, raw))


def read_question(message: reshape_pb2.InferShapeRequest) -> ShapeRequest:
    """Reads a parsed InferShape request, which must contain `data`.

    Raises:
        InvalidRequestError: a required field is absent, or a value in the request is unknown or invalid.
    """
    request = read_infer_request(message)
    if not message.HasField("data"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "data is required", "data")
    return request


def read_infer_request(message: reshape_pb2.InferShapeRequest) -> ShapeRequest:
    """Reads a parsed InferShape request. If `data` is absent, the input shape is unknown.

    Raises:
        InvalidRequestError: the operation, the data type or a kind of dim is unknown.
    """
    operation = OPERATIONS_BY_NUMBER.get(message.operation)
    if operation is None:
        names = ", ".join(f"{name} ({number})" for name, number in reshape_pb2.Operation.items() if number)
        text = f"operation is {message.operation}, which is not an operation; use one of {names}"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, text, "operation", value=message.operation)
    spec = message.data
    named_type = spec.data_type != tensor_pb2.DATA_TYPE_UNSPECIFIED
    question = Question(
        operation=operation,
        data=decode_shape(operation, spec.shape, "data.dims") if spec.HasField("shape") else None,
        target=decode_target(operation, message.shape) if message.HasField("shape") else None,
        special_zero=message.special_zero if message.HasField("special_zero") else None,
        data_type=decode_data_type(spec.data_type, "data.data_type") if named_type else None,
        expected=decode_expected(operation, message),
    )
    return ShapeRequest(question, message.explain)


def build_infer_response(answer: ShapeAnswer) -> reshape_pb2.InferShapeResponse:
    """Returns the response message for a result."""
    message = reshape_pb2.InferShapeResponse()
    write_infer_response(message, answer)
    return message


def write_infer_response(message: reshape_pb2.InferShapeResponse, answer: ShapeAnswer) -> None:
    """Writes a result into an empty message."""
    message.SetInParent()
    if answer.dims is not None:
        write_shape(message.shape, answer.dims)
    message.conditions.extend(map(encode_condition, answer.conditions))
    if answer.conditions_complete:
        message.conditions_complete = True
    message.origins.extend(map(_encode_origin, answer.origins))
    for group in answer.groups:
        message.groups.add(data_indices=group.data, output_indices=group.output)


def encode_infer_response(answer: ShapeAnswer) -> bytes:
    """Returns the encoded response of InferShape."""
    return build_infer_response(answer).SerializeToString()


def decode_infer_response(raw: bytes) -> ShapeAnswer:
    """Reads the response of InferShape.

    Raises:
        ReshapeError: the response is invalid.
    """
    return read_infer_response(parse_message(reshape_pb2.InferShapeResponse, raw))


def read_infer_response(message: reshape_pb2.InferShapeResponse) -> ShapeAnswer:
    """Reads a response of InferShape that has been parsed.

    Raises:
        ReshapeError: the response is invalid.
    """
    dims = tuple(decode_dims(message.shape, "shape.dims")) if message.HasField("shape") else None
    check_partial_dims(
        dims or (), "shape.dims"
    )  # the dims are checked like those of a request, because a caller may use the result in another query
    conditions = tuple(filter(None, map(decode_condition, message.conditions)))
    return ShapeAnswer(
        dims,
        conditions,
        tuple(map(_decode_origin, message.origins)),
        # A newer server may send a condition that this version cannot evaluate, and this condition may exclude further
        # instances.
        message.conditions_complete and len(conditions) == len(message.conditions),
        tuple([DimGroup(_read_range(one.data_indices), _read_range(one.output_indices)) for one in message.groups]),
    )


def _encode_origin(origin: Origin) -> reshape_pb2.Origin:
    return reshape_pb2.Origin(**{**origin._asdict(), "kind": _KIND_NUMBERS[origin.kind]})


def _decode_origin(message: reshape_pb2.Origin) -> Origin:
    index = message.data_index if message.HasField("data_index") else None
    # the text still explains the dim if this version does not know the kind of the origin
    kind = _KINDS.get(message.kind, Kind.UNKNOWN)
    return Origin(kind, message.text, index, message.dividend, message.divisor)


def _read_range(indices: Sequence[int]) -> range:
    return range(indices[0], indices[-1] + 1) if indices else range(0)


def encode_condition(condition: Condition) -> reshape_pb2.Condition:
    """Returns the protobuf message for a condition."""
    kind, left, right, low, high, unless_zero, rule, item = condition
    return reshape_pb2.Condition(
        kind=_CONDITION_NUMBERS[kind],
        left=encode_expression(left),
        right=None if right is None else encode_expression(right),
        min=low,
        max=high,
        unless_zero=None if unless_zero is None else encode_expression(unless_zero),
        rule=rule,
        item=item,
        text=clip_text(str(condition), MAX_VALUE_CHARACTERS),
    )


def decode_condition(message: reshape_pb2.Condition) -> Condition | None:
    """Reads a condition; returns None if the kind of the condition is unknown."""
    kind = _CONDITION_KINDS.get(message.kind)
    if kind is None:
        return None
    return Condition(
        kind,
        decode_expression(message.left),
        decode_expression(message.right) if message.HasField("right") else None,
        message.min if message.HasField("min") else None,
        message.max if message.HasField("max") else None,
        decode_expression(message.unless_zero) if message.HasField("unless_zero") else None,
        message.rule,
        message.item,
    )
