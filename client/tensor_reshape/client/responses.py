"""What both clients make of a response, without any I/O.

Laws:

- Whatever cannot be read, or is not what the rules give, is a `ResponseError`: it must not look like a refusal, which
  is the server's word on the request.
- Elements that end their response, as this project's server writes them, are not copied: the array is a view of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from tensor_reshape.client.errors import ResponseError
from tensor_reshape.client.shapes import InferredShape, wrap_answers
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import KnownQuestion
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.arrays import Array, build_array
from tensor_reshape.wire.tensors import TensorView

Answer = TypeVar("Answer")


def decode_answer(decode: Callable[[bytes], Answer], raw: bytes) -> Answer:
    """Reads a response with `decode`.

    Raises:
        ResponseError: it cannot be read: the refusal that `decode` raises is of the response, not of the request.
    """
    try:
        return decode(raw)
    except ReshapeError as error:
        message = f"the server's response cannot be read: {error}"
        raise ResponseError(message) from error


def decode_array(question: KnownQuestion, dims: Sequence[int], raw: bytes) -> Array:
    """Reads the response of an operation, whose output has `dims` by the rules, as a view of `raw`.

    Raises:
        ReshapeError: it is not a response of this contract.
        ResponseError: it is another tensor, or one that numpy cannot hold.
    """
    output = check_output(question, dims, reshapes.decode_reshape_response(raw))
    try:
        return build_array(output)
    except ValueError:  # it has no elements, and dims whose product is beyond numpy's
        raise refuse_array(dims) from None


def decode_bytes(question: KnownQuestion, dims: Sequence[int], raw: bytes) -> Array:
    """Reads the same, and returns the bytes of the elements as they travel.

    Raises:
        ReshapeError: it is not a response of this contract.
        ResponseError: it is another tensor.
    """
    output = check_output(question, dims, reshapes.decode_reshape_response(raw))
    return np.frombuffer(output.payload, np.uint8)


def decode_shape(raw: bytes) -> InferredShape:
    """Reads the response of InferShape.

    Raises:
        ReshapeError: it is not a response of this contract.
    """
    return InferredShape(inference.decode_infer_response(raw))


def decode_shapes(count: int, refused: Mapping[int, ReshapeError], raw: bytes) -> list[InferredShape | ReshapeError]:
    """Reads the response of BatchInferShape.

    Args:
        count: how many questions were sent.
        refused: those that could not be sent, by their index; what the server says of their placeholders is dropped.
        raw: the response.

    Raises:
        ReshapeError: it is not a response of this contract.
        ResponseError: it has more or fewer answers.
    """
    answers = batches.decode_batch_response(raw)
    # Answers have no names but their places: one too few, and each might be that of another question.
    if len(answers) != count:
        message = f"the server answered {len(answers)} of {count} questions"
        raise ResponseError(message)
    return wrap_answers(refused.get(index, answer) for index, answer in enumerate(answers))


def check_output(question: KnownQuestion, dims: Sequence[int], output: TensorView) -> TensorView:
    """Returns `output` where it has the type and the shape that the rules give.

    Raises:
        ResponseError: the server answered with another.
    """
    if tuple(output.dims) != tuple(dims) or output.data_type != question.data_type:
        message = f"the server answered {output.data_type}{list(output.dims)}; the rules give {list(dims)}"
        raise ResponseError(message)
    return output


def refuse_array(dims: Sequence[int]) -> ResponseError:
    """Builds the error for an output that is right, but nothing that numpy can hold."""
    return ResponseError(f"the output has the shape {list(dims)}, which numpy cannot hold")
