"""Whole messages of the operations. The SDK and the server send the header and the elements without joining them."""

from tensor_reshape.wire.reshapes import ReshapeCall, encode_request_header, encode_response_header
from tensor_reshape.wire.tensors import TensorView


def encode_reshape_request(call: ReshapeCall, shape: TensorView | None = None) -> bytes:
    """Returns an encoded request. `shape` is the requested shape as a tensor, or None for StaticReshape."""
    data = call.data
    question = call.question._replace(data=data.dims, data_type=data.data_type)
    return encode_request_header(question, data.strides, data.payload.nbytes, shape) + data.payload


def encode_reshape_response(output: TensorView) -> bytes:
    """Returns an encoded response, which has the same form for every operation."""
    return encode_response_header(output.data_type, output.dims, output.payload.nbytes) + output.payload
