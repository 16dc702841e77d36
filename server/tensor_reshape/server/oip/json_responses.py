"""Writes responses over REST as JSON, after which the elements of the output may follow as bytes.

numpy is imported when the first output is written as numbers (see `service.backend`).
"""

from math import prod
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.oip.datatypes import BINARY_ONLY, NAMES
from tensor_reshape.server.oip.json_requests import BINARY_SIZE
from tensor_reshape.server.oip.messages import InferMessage
from tensor_reshape.server.oip.models import VERSION
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.server.oip.responses import list_parameters
from tensor_reshape.wire.json_messages import Json, write_json
from tensor_reshape.wire.tensors import TensorView

_MAX_NUMBERS = 512 * 1024  # as many as the JSON of a request can have
_AT_ONCE = 2048  # no other thread runs while these numbers are written, which takes about a millisecond
_FIELD = "outputs[0]"
_ADVICE = "set binary_data to true"


class InferReply(NamedTuple):
    """A response to an inference request.

    Attributes:
        header: the JSON.
        payload: the elements of the output as bytes, or None if the JSON contains them.
    """

    header: bytes
    payload: memoryview | None


def write_infer_response(
    call: InferCall, output: TensorView, answer: ShapeAnswer | None, *, is_binary: bool
) -> InferReply:
    """Returns the response to an inference request.

    Args:
        call: the request.
        output: the output.
        answer: the answer to a shape query, or None for other requests.
        is_binary: whether the elements are sent as bytes.

    Raises:
        InvalidRequestError: OUTPUT_INVALID, if JSON cannot express the elements.
        LimitError: OUTPUT_TOO_LARGE, if the output has too many elements for JSON.
    """
    described: Json = {"name": call.model.output.name, "datatype": NAMES[output.data_type], "shape": list(output.dims)}
    document: Json = {"model_name": call.model.name, "model_version": VERSION, "outputs": [described]}
    if call.id:
        document["id"] = call.id
    if parameters := list_parameters(answer):
        document["parameters"] = parameters
    if is_binary:
        described["parameters"] = {BINARY_SIZE: output.payload.nbytes}
        return InferReply(write_json(document), output.payload)
    described["data"] = []
    head, tail = write_json(document).split(b'"data":[]', 1)
    return InferReply(b'%b"data":[%b]%b' % (head, _write_elements(output), tail), None)


def _write_elements(output: TensorView) -> bytes:
    count = prod(output.dims)
    if count > _MAX_NUMBERS:
        message = f"the output has {count} elements; JSON may have {_MAX_NUMBERS}: {_ADVICE}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, _FIELD, have=count, limit=_MAX_NUMBERS)
    if output.data_type in BINARY_ONLY:
        message = f"elements of {NAMES[output.data_type]} have no form in JSON: {_ADVICE}"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _FIELD, value=NAMES[output.data_type])
    import numpy as np  # noqa: PLC0415 - the module docstring has the reason

    dtype = np.dtype(output.data_type.numpy_name).newbyteorder("<")
    elements = np.ndarray((count,), dtype, buffer=output.payload)
    pieces = (elements[at : at + _AT_ONCE].tolist() for at in range(0, count, _AT_ONCE))
    try:
        return b",".join([write_json(piece)[1:-1] for piece in pieces])
    except ValueError:
        message = f"the output contains NaN or an infinity, which JSON cannot express: {_ADVICE}"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _FIELD) from None


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
