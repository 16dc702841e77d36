"""The encoding of ModelInferResponse.

Invariant: a response is a header joined once with the output's elements. The elements are the last field of the
message, so no generated class copies them.
"""

from collections.abc import Sequence

from tensor_reshape.server.oip.contents import fill_contents
from tensor_reshape.server.oip.datatypes import NAMES
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.oip.models import VERSION
from tensor_reshape.server.oip.regions import BYTE_SIZE, OFFSET, REGION
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.tensors import TensorView

_PARAMETER = find_class("InferParameter")
_RESPONSE, _STREAM_RESPONSE = find_class("ModelInferResponse"), find_class("ModelStreamInferResponse")
_RAW_TAG = b"\x32"  # field 6, length-delimited: `raw_output_contents`
_INFER_TAG = b"\x12"  # field 2 of a stream's response


def encode_header(call: InferCall, output: TensorView) -> bytes:
    """Returns the response without its id and without raw contents, which follow unchanged if the request had them."""
    message = _RESPONSE(model_name=call.model.name, model_version=VERSION)
    tensor = message.outputs.add(name=call.model.output.name, datatype=NAMES[output.data_type], shape=output.dims)  # type: ignore[attr-defined] # a message of the pool
    if call.place is not None:
        # As Triton tells it.
        tensor.parameters[REGION].string_param = call.place.region
        tensor.parameters[BYTE_SIZE].int64_param = output.payload.nbytes
        if call.place.offset:
            tensor.parameters[OFFSET].int64_param = call.place.offset
        return message.SerializeToString() + _RAW_TAG + b"\0"  # each output has its entry
    if call.is_typed:
        fill_contents(tensor, call.source, output)
        return message.SerializeToString()
    return message.SerializeToString() + _RAW_TAG + encode_varint(output.payload.nbytes)


def encode_id(request_id: str) -> bytes:
    """Returns the response field that repeats the request's id, if it has one."""
    return _RESPONSE(id=request_id).SerializeToString()


def wrap_response(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Returns a response as a message of a stream."""
    length = sum(map(len, pieces))
    return b"".join((_INFER_TAG, encode_varint(length), *pieces))


def encode_error(text: str, reason: str, request_id: str) -> bytes:
    """Returns an error as a message of a stream, with the request id, the text and the reason."""
    response = {"id": request_id, "parameters": {"reason": _PARAMETER(string_param=reason)}}
    return _STREAM_RESPONSE(error_message=text, infer_response=response).SerializeToString()
