"""Encodes a ModelInferResponse of the protocol.

The elements of the output are the last field of the message. The message class of protobuf encodes the other fields,
which form the header. The header and the elements are then joined, so the elements are copied only once.
"""

import json
from collections.abc import Sequence

from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.oip.contents import fill_contents
from tensor_reshape.server.oip.datatypes import NAMES
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.models import VERSION
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.tensors import TensorView

_PARAMETER = find_class("InferParameter")
_RESPONSE, _STREAM_RESPONSE = find_class("ModelInferResponse"), find_class("ModelStreamInferResponse")
_RAW_TAG = b"\x32"  # the tag of `raw_output_contents`, which is field 6 (length-delimited)
_INFER_TAG = b"\x12"  # the tag of `infer_response`, which is field 2 of a ModelStreamInferResponse


def describe_output(call: InferCall, output: TensorView, answer: ShapeAnswer | None = None) -> InferMessage:
    """Returns the response as a message without its id and without its elements.

    Args:
        call: the request.
        output: the output tensor.
        answer: the answer to a shape query, whose conditions the response contains, or None for other requests.
    """
    message: InferMessage = _RESPONSE(model_name=call.model.name, model_version=VERSION)
    message.outputs.add(name=call.model.output.name, datatype=NAMES[output.data_type], shape=output.dims)
    for name, value in list_parameters(answer).items():
        setattr(message.parameters[name], "bool_param" if isinstance(value, bool) else "string_param", value)
    return message


def list_parameters(answer: ShapeAnswer | None) -> dict[str, str | bool]:
    """Returns the parameters of a response, which contain the conditions of an answer to a shape query."""
    parameters: dict[str, str | bool] = {}
    if answer is not None and answer.conditions:
        parameters["conditions"] = json.dumps([str(condition) for condition in answer.conditions])
    if answer is not None and not answer.conditions_complete:
        parameters["conditions_complete"] = False
    return parameters


def encode_header(call: InferCall, output: TensorView, answer: ShapeAnswer | None = None) -> bytes:
    """Returns the response without its id and without its elements.

    If the response has its elements as raw contents, the elements must follow this header. The arguments are those of
    `describe_output`.
    """
    message = describe_output(call, output, answer)
    if call.is_typed:
        fill_contents(message.outputs[0], call.source, output)
        return bytes(message.SerializeToString())
    return bytes(message.SerializeToString()) + _RAW_TAG + encode_varint(output.payload.nbytes)


def encode_id(request_id: str) -> bytes:
    """Returns the field of the response that repeats the id of the request.

    Returns no bytes if the request id is empty.
    """
    return _RESPONSE(id=request_id).SerializeToString()


def wrap_response(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Returns a response as a message of ModelStreamInfer. `pieces` are the parts of the response."""
    length = sum(map(len, pieces))
    return b"".join((_INFER_TAG, encode_varint(length), *pieces))


def encode_error(text: str, reason: str, request_id: str) -> bytes:
    """Returns a message of ModelStreamInfer with an error, its reason, and the id of the rejected request."""
    response = {"id": request_id, "parameters": {"reason": _PARAMETER(string_param=reason)}}
    return _STREAM_RESPONSE(error_message=text, infer_response=response).SerializeToString()
