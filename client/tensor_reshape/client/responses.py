"""Decodes responses for both clients, without I/O.

Invariants:

- A response that cannot be decoded, or that contradicts the rules, raises a `ResponseError`. This error must not look
  like a rejection, because a rejection is about the request.
- If the elements are the last field of the response, as in responses of this project's server, the array is a view of
  the response, without a copy.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from tensor_reshape.client.errors import ResponseError
from tensor_reshape.client.queries import ShapeQuery, wrap_answers
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.rules.conditions import list_declared
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import AnyQuestion, KnownQuestion
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.arrays import Array, build_array
from tensor_reshape.wire.tensors import TensorView

Answer = TypeVar("Answer")


def decode_answer(decode: Callable[[bytes], Answer], raw: bytes) -> Answer:
    """Decodes a response.

    Raises:
        ResponseError: `decode` failed. Its error is about the response, not the request.
    """
    try:
        return decode(raw)
    except ReshapeError as error:
        message = f"the server's response is invalid: {error.message}"
        raise ResponseError(message) from error


def decode_array(question: KnownQuestion, dims: Sequence[int], raw: bytes) -> Array:
    """Decodes the response of an operation as a view of `raw`. `dims` is the output shape according to the rules.

    Raises:
        ReshapeError: the message does not follow the API.
        ResponseError: the output has another type or shape than the rules give, or numpy cannot represent it.
    """
    output = check_output(question, dims, reshapes.decode_reshape_response(raw))
    try:
        return build_array(output)
    except ValueError:  # the tensor is empty, but the product of its other dims is too large for numpy
        raise reject_array(dims) from None


def decode_bytes(question: KnownQuestion, dims: Sequence[int], raw: bytes) -> Array:
    """Decodes the response of an operation and returns the bytes of the elements.

    Raises:
        ReshapeError: the message does not follow the API.
        ResponseError: the output has another type or shape than the rules give.
    """
    output = check_output(question, dims, reshapes.decode_reshape_response(raw))
    return np.frombuffer(output.payload, np.uint8)


def decode_shape(question: AnyQuestion, raw: bytes) -> InferredShape:
    """Decodes the response of InferShape to a query.

    Raises:
        ReshapeError: the message does not follow the API.
    """
    declare = partial(list_declared, question.data, question.target, question.expected)
    return InferredShape(inference.decode_infer_response(raw), declare)


def decode_shapes(
    queries: Sequence[ShapeQuery], rejected: Mapping[int, ReshapeError], raw: bytes
) -> list[InferredShape | ReshapeError]:
    """Decodes the response of BatchInferShape.

    Args:
        queries: the queries that were sent.
        rejected: errors of queries that could not be sent, by index. The server's results for their placeholders are
            dropped.
        raw: the response.

    Raises:
        ReshapeError: the message does not follow the API.
        ResponseError: the number of results is wrong.
    """
    answers = batches.decode_batch_response(raw)
    # The position of a result in the response determines its query, so after a missing result, all other results could
    # belong to wrong queries.
    if len(answers) != len(queries):
        message = f"the server returned {len(answers)} results for {len(queries)} queries"
        raise ResponseError(message)
    return wrap_answers([rejected.get(index, answer) for index, answer in enumerate(answers)], queries)


def check_output(question: KnownQuestion, dims: Sequence[int], output: TensorView) -> TensorView:
    """Returns `output` if it has the type and the shape that the rules give.

    Raises:
        ResponseError: the output has another type or shape.
    """
    if tuple(output.dims) != tuple(dims) or output.data_type != question.data_type:
        message = f"the server returned {output.data_type}{list(output.dims)}, but the rules give {list(dims)}"
        raise ResponseError(message)
    return output


def reject_array(dims: Sequence[int]) -> ResponseError:
    """Returns the error for a correct output that numpy cannot represent."""
    return ResponseError(f"the output has the shape {list(dims)}, which numpy cannot hold")
