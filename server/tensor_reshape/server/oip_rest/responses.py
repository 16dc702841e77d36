"""Writes responses over REST as JSON, after which the elements of the output may follow as bytes."""

import json
from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from starlette.responses import Response

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.calls.statuses import Failure
from tensor_reshape.server.http.responses import JsonForm, build_document, build_headers, find_code
from tensor_reshape.server.oip.contents import unpack_numbers
from tensor_reshape.server.oip.messages import InferMessage
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.server.oip.responses import describe_output
from tensor_reshape.wire.json_messages import Json
from tensor_reshape.wire.tensors import TensorView

LENGTH_HEADER = "inference-header-content-length"
"""The header with the number of bytes of the JSON, if elements follow it as bytes."""

REASON_HEADER = "tensor-reshape-reason"
"""The header with the permanent reason of an error."""

BINARY_TYPE = "application/octet-stream"
"""The content type of JSON that is followed by bytes."""

_MAX_NUMBERS = 512 * 1024  # as many as the JSON of a request can have
# Python's JSON encoder holds the interpreter lock, so it gets only some numbers at once. This takes about 10 ms.
_AT_ONCE = 16384


class InferReply(NamedTuple):
    """A response to an inference request.

    Attributes:
        header: the JSON.
        payload: the elements of the output as bytes, or None if the JSON contains them.
    """

    header: bytes
    payload: memoryview | None


class RestForm(JsonForm):
    """The form of the responses of all methods but inference."""

    def build_rejection(self, failure: Failure) -> Response:
        """Returns the response of a failed call, with the reason in its text and in a header."""
        headers = build_headers(failure.status.trailing_metadata)
        return build_error(find_code(failure), failure.result.reason, failure.status.details, headers)


def build_error(code: int, reason: str, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Returns an error response.

    Args:
        code: the HTTP status.
        reason: the reason, or an empty text if the error has none.
        text: an explanation.
        headers: additional headers.
    """
    named = {REASON_HEADER: str(reason)} if reason else {}
    return build_document(code, {"error": f"{reason}: {text}" if reason else text}, {**headers, **named})


def write_reply(call: InferCall, output: TensorView, answer: ShapeAnswer | None, *, is_binary: bool) -> InferReply:
    """Returns the response to an inference request.

    Args:
        call: the request.
        output: the output.
        answer: the answer to a shape query, or None for other requests.
        is_binary: whether the elements are sent as bytes.

    Raises:
        InvalidRequestError: OUTPUT_INVALID or INPUT_INVALID, if JSON cannot express the elements.
        LimitError: OUTPUT_TOO_LARGE, if the output has too many elements for JSON.
    """
    document = describe_message(describe_output(call, output, answer))
    del document["raw_output_contents"]  # over REST, the elements have another place
    if call.id:
        document["id"] = call.id
    (described,) = document["outputs"]
    if is_binary:
        described.setdefault("parameters", {})["binary_data_size"] = output.payload.nbytes
        return InferReply(write_json(document), output.payload)
    described["data"] = []
    head, tail = write_json(document).split(b'"data":[]', 1)
    return InferReply(b'%b"data":[%b]%b' % (head, _write_elements(output), tail), None)


def _write_elements(output: TensorView) -> bytes:
    if prod(output.dims) > _MAX_NUMBERS:
        message = f"the output has more than {_MAX_NUMBERS} elements: set binary_data to true"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, "outputs[0]", limit=_MAX_NUMBERS)
    numbers = unpack_numbers(output, "outputs[0]")
    try:
        parts = [write_json(numbers[at : at + _AT_ONCE])[1:-1] for at in range(0, len(numbers), _AT_ONCE)]
    except ValueError:
        message = "the output contains NaN or an infinity, which JSON cannot express: set binary_data to true"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, "outputs[0]") from None
    return b",".join(parts)


def write_json(document: object) -> bytes:
    """Returns a value as JSON without spaces.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def describe_message(message: InferMessage) -> Json:
    """Returns a message of the protocol as JSON, with the names of its definition and 64-bit integers as numbers.

    Protobuf's own JSON has 64-bit integers as text, which clients of the protocol do not accept.
    """
    return {
        field.name: _describe_field(message, field)
        for field in message.DESCRIPTOR.fields
        if (message.HasField(field.name) if field.has_presence else _is_listed(message, field))
    }


def _is_listed(message: InferMessage, field: FieldDescriptor) -> bool:
    # A number 0 and an empty list of inputs say something, but an empty map of parameters or an empty text does not.
    value = getattr(message, field.name)
    return bool(value) or type(value) is int or (field.is_repeated and not _is_map(field))


def _describe_field(message: InferMessage, field: FieldDescriptor) -> object:
    value = getattr(message, field.name)
    if _is_map(field):
        return {key: _describe_value(item) for key, item in sorted(value.items())}
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return [_describe_value(item) for item in value] if field.is_repeated else _describe_value(value)


def _describe_value(value: Any) -> object:  # noqa: ANN401 - of a message
    if not hasattr(value, "DESCRIPTOR"):
        return value
    choice = value.WhichOneof("parameter_choice") if "parameter_choice" in value.DESCRIPTOR.oneofs_by_name else None
    return describe_message(value) if choice is None else getattr(value, choice)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
