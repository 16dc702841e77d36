"""Reshapes the tensors that the lines of a batch contain, on a server or in this process.

Invariant: the output is always the bytes of a dense row-major array, even if the data has strides.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensor_reshape.client import InferredShape, InvalidRequestError, PackedTensor, Reason, ShapeQuery
from tensor_reshape.client.queries import read_query
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.questions import Question, is_known
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.arrays import Array, build_array, gather, view_bytes
from tensor_reshape.wire.tensors import TensorView

if TYPE_CHECKING:
    from tensor_reshape.client import Client


def execute(
    query: ShapeQuery, data: tensor_pb2.Tensor, answer: InferredShape, client: "Client | None"
) -> tensor_pb2.Tensor:
    """Executes the query and returns the output.

    Args:
        query: the query, whose shapes are valid.
        data: the tensor to reshape.
        answer: the result of the query.
        client: the client. If None, this process executes the reshape.

    Raises:
        InvalidRequestError: FIELD_MISSING, if the requested shape is not fully known; OPERATION_UNSPECIFIED, if the
            operation only infers shapes; or an error of the layout.
    """
    (question, _), _ = read_query(query)
    if not is_known(question) or question.data_type is None:
        message = "a tensor cannot be reshaped unless all items of the shape are known"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, message, "shape")
    if question.operation.name not in OPERATIONS:
        message = f"{question.operation.name} only infers shapes, so it cannot reshape a tensor"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, message, "operation")
    strides = tuple(data.strides) or None
    tensor = TensorView(question.data_type, question.data, strides, memoryview(data.data)).check_layout("data")
    output = bytes(gather(tensor)) if client is None else _execute_remotely(client, question, tensor)
    return tensor_pb2.Tensor(data_type=data.data_type, dims=answer.known, data=output)


def _execute_remotely(client: "Client", question: Question[Sequence[int]], tensor: TensorView) -> bytes:
    # An empty tensor is not sent as an array, because it has no bytes, and numpy cannot represent all empty shapes.
    if 0 in tensor.dims:
        return b""
    if tensor.data_type.is_packed:
        array: PackedTensor | Array = PackedTensor(tensor.data_type, tensor.dims, tensor.payload)
    else:
        array = build_array(tensor)
    output = getattr(client, question.operation.name)(array, question.target, special_zero=question.special_zero)
    return bytes(output.data if isinstance(output, PackedTensor) else view_bytes(np.ascontiguousarray(output)))
