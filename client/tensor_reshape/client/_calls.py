"""What both clients do before a request leaves and after a response came, without any I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import index
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tensor_reshape.client.errors import ResponseError
from tensor_reshape.client.keywords import check_keywords
from tensor_reshape.client.shapes import (
    DimLike,
    InferredShape,
    ShapeOptions,
    ShapeQuery,
    check_flag,
    read_dims,
    read_query,
    show_answers,
)
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError, format_value
from tensor_reshape.rules.inference import answer_question, infer_shape
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import KnownQuestion, Question, ShapeRequest
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.arrays import DTYPES, Array, build_array, find_data_type, view_array
from tensor_reshape.wire.health import CHECK_METHOD, HealthStatus, decode_check_response, encode_check_request
from tensor_reshape.wire.tensors import TensorView

Answer = TypeVar("Answer")
Expected = Sequence[DimLike] | None
Target = Sequence[int] | Array

# What a target that is a plain Python sequence is sent as.
_SHAPE_DTYPES = {
    DYNAMIC_RESHAPE: DTYPES[min(DYNAMIC_RESHAPE.shape_data_types)],
    RESHAPE: np.dtype("<i8"),
}
_INFER_KEYWORDS = ("data_shape", "shape", "special_zero", "timeout")
_PATHS = {operation: reshapes.build_path(method) for operation, method in reshapes.METHODS.items()}

# Most calls are like one before but for the elements: what does not depend on these is kept, and a call of a kilobyte
# takes half the time here.
_remember = lru_cache(maxsize=1024)
_infer_shape = _remember(infer_shape)
_encode_response_head = _remember(reshapes.encode_response_head)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One call: where it goes, what is sent, and how the response is read."""

    method: str
    request: bytes
    decode: Callable[[bytes], Answer]


@dataclass(frozen=True, slots=True)
class Plan:
    """A reshape that the rules allow, before it is decided how the elements travel.

    Attributes:
        question: what is asked.
        dims: the output's, by the rules.
        array: the data.
        shape: the target as a tensor, for the operations that take one.
    """

    question: KnownQuestion
    dims: tuple[int, ...]
    array: Array
    shape: TensorView | None

    def build_inline(self) -> Call[Array]:
        """Builds the call that carries all in one message."""
        data = view_array(self.array, "data")
        strides = None if data.strides is None else tuple(data.strides)
        head = _encode_head(self.question, strides, data.payload.nbytes, self.shape and self.shape.data_type)
        decode = partial(_decode_array, self.question, self.dims, self.array.nbytes)
        return Call(_PATHS[self.question.operation], b"".join((head, data.payload)), partial(decode_answer, decode))

    def build_infer(self) -> Call[InferredShape]:
        """Builds the call that has the server decide the shape, without data."""
        question = Question(
            operation=self.question.operation,
            data=self.question.data,
            target=self.question.target,
            special_zero=self.question.special_zero,
            data_type=self.question.data_type,
            expected=self.question.expected,
        )
        return _build_infer(ShapeRequest(question))

    @property
    def data_type(self) -> DataType:
        """The type of the data, and of the output."""
        return find_data_type(self.array.dtype, "data")


def plan_static_reshape(
    array: npt.ArrayLike, shape: Sequence[int], *, special_zero: bool, expected_shape: Expected
) -> Plan:
    """Plans StaticReshape, or raises the refusal that the server would answer with."""
    data = _as_array(array)
    question = _ask(STATIC_RESHAPE, data, tuple(map(index, shape)), special_zero, expected_shape)
    return Plan(question, _infer_shape(question), data, None)


def plan_tensor_reshape(
    operation: Operation,
    array: npt.ArrayLike,
    shape: Target,
    *,
    special_zero: bool,
    expected_shape: Expected,
) -> Plan:
    """Plans an operation whose target is a tensor, or raises the refusal that the server would answer with."""
    data, view = _as_array(array), _view_shape(operation, shape)
    question = _ask(operation, data, tuple(reshapes.read_target(operation, view)), special_zero, expected_shape)
    return Plan(question, _infer_shape(question), data, view)


def build_infer_shape(
    data_shape: Sequence[DimLike] | None,
    shape: Sequence[DimLike] | None,
    *,
    special_zero: bool,
    more: ShapeOptions,
) -> Call[InferredShape]:
    """Builds InferShape. The server's answer is what is asked for, so nothing is inferred here."""
    check_keywords("infer_shape", more, _INFER_KEYWORDS, ShapeOptions)
    query = ShapeQuery(data_shape=data_shape, shape=shape, special_zero=special_zero, **more)
    return _build_infer(read_query(query).request)


def build_infer_shapes(queries: Sequence[ShapeQuery]) -> Call[list[InferredShape | ReshapeError]]:
    """Builds BatchInferShape. A query that cannot be sent is refused in its place, by this process."""
    pieces = [_encode_query(query) for query in queries]
    refused = {index: piece for index, piece in enumerate(pieces) if isinstance(piece, ReshapeError)}
    # An empty item stands for it, which the server refuses as well: so links to it fail.
    request = batches.join_items([b"" if isinstance(piece, ReshapeError) else piece for piece in pieces])
    decode = partial(decode_answer, partial(_decode_shapes, len(pieces), refused))
    return Call(batches.BATCH_METHOD, request, decode)


def _encode_query(query: ShapeQuery) -> bytes | ReshapeError:
    try:
        return _encode_item(read_query(query))
    except ReshapeError as error:
        return error


def _encode_item(item: BatchItem) -> bytes:
    try:
        return batches.encode_batch_item(item)
    except ValueError:
        _check_numbers(item.request)
        message = f"data_from is {item.data_from}; it is the index of an earlier query"
        raise InvalidRequestError.of(Reason.LINK_INVALID, message, "data_from", value=item.data_from) from None


def build_health_check(service: str) -> Call[HealthStatus]:
    """Builds the health check of one service, or of the server as a whole ("")."""
    return Call(CHECK_METHOD, encode_check_request(service), partial(decode_answer, decode_check_response))


def _as_array(array: npt.ArrayLike) -> Array:
    if isinstance(array, np.ma.MaskedArray):
        message = "a masked array has elements that no tensor has: fill it first"
        raise TypeError(message)
    return np.asarray(array)


def _ask(
    operation: Operation,
    array: Array,
    target: Sequence[int],
    special_zero: object,
    expected: Expected,
) -> KnownQuestion:
    return Question(
        operation=operation,
        data=array.shape,
        target=target,
        special_zero=check_flag(special_zero),
        data_type=find_data_type(array.dtype, "data"),
        expected=read_dims(expected, "expected_shape.dims"),
    )


def _build_infer(request: ShapeRequest) -> Call[InferredShape]:
    try:
        message = inference.build_infer_request(request)
    except ValueError:
        _check_numbers(request)
        raise
    return Call(inference.INFER_METHOD, message.SerializeToString(), partial(decode_answer, _decode_shape))


def _check_numbers(request: ShapeRequest) -> None:
    """Raises the refusal of a number that the contract's s64 cannot hold: the rules say which."""
    answer_question(request)


def _decode_shape(raw: bytes) -> InferredShape:
    return InferredShape(inference.decode_infer_response(raw))


def _decode_shapes(count: int, refused: Mapping[int, ReshapeError], raw: bytes) -> list[InferredShape | ReshapeError]:
    answers = batches.decode_batch_response(raw)
    if len(answers) != count:
        message = f"the server answered {len(answers)} of {count} questions"
        raise ResponseError(message)
    return show_answers(refused.get(index, answer) for index, answer in enumerate(answers))


def _view_shape(operation: Operation, shape: Target) -> TensorView:
    """Views a target: an array with the type it has, a plain sequence with the type that the operation takes."""
    if isinstance(shape, np.ndarray):
        return view_array(_as_array(shape), "shape")
    dtype, items = _SHAPE_DTYPES[operation], tuple(map(index, shape))  # index refuses what an array would round
    try:
        return view_array(np.array(items, dtype), "shape")
    except OverflowError:
        message = f"shape {format_value(items)} has an item that {dtype} cannot hold"
        raise InvalidRequestError.of(Reason.INVALID_TARGET_VALUE, message, "shape", shape=items) from None


def check_output(question: KnownQuestion, dims: Sequence[int], output: TensorView) -> None:
    """Raises ResponseError where the server answers with another type or shape than the rules give."""
    if tuple(output.dims) != tuple(dims) or output.data_type != question.data_type:
        message = f"the server answered {output.data_type}{list(output.dims)}; the rules give {list(dims)}"
        raise ResponseError(message)


def refuse_array(dims: Sequence[int]) -> ResponseError:
    """Returns the error for an output that is right, but nothing that numpy can hold."""
    return ResponseError(f"the output has the shape {list(dims)}, which numpy cannot hold")


@_remember
def _encode_head(
    question: KnownQuestion, strides: Sequence[int] | None, payload_bytes: int, shape_data_type: DataType | None
) -> bytes:
    shape = None
    if shape_data_type is not None:
        shape = view_array(np.array(question.target, DTYPES[shape_data_type]), "shape")
    return reshapes.encode_request_head(question, strides, payload_bytes, shape)


def _decode_array(question: KnownQuestion, dims: Sequence[int], output_bytes: int, raw: bytes) -> Array:
    output = _read_output(question, dims, output_bytes, raw)
    try:
        return build_array(output)
    except ValueError:
        raise refuse_array(dims) from None


def _read_output(question: KnownQuestion, dims: Sequence[int], output_bytes: int, raw: bytes) -> TensorView:
    """Reads a response; one that begins as this project's server writes it needs no parser."""
    data_type = question.data_type
    if data_type is not None:
        head = _encode_response_head(data_type, dims, output_bytes)
        if len(raw) == len(head) + output_bytes and raw.startswith(head):
            return TensorView(data_type, dims, None, memoryview(raw)[len(head) :])
    output = reshapes.decode_reshape_response(raw)
    check_output(question, dims, output)
    return output


def decode_answer(decode: Callable[[bytes], Answer], raw: bytes) -> Answer:
    """Reads a response, or raises ResponseError: one that cannot be read must not look like a refusal."""
    try:
        return decode(raw)
    except ReshapeError as error:
        message = f"the server's response cannot be read: {error}"
        raise ResponseError(message) from error
