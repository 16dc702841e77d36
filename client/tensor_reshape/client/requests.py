"""Prepares requests and decodes responses for both clients, without I/O.

The SDK plans a reshape before it sends anything. The rules run in this process too, so an impossible reshape costs no
call, and the output shape is known before the response arrives.

Invariants:

- A response that cannot be decoded, or that contradicts the rules, raises a `ResponseError`. This error is not a
  `ReshapeError`, because a `ReshapeError` is about the request.
- If the elements are the last field of the response, as in responses of this project's server, the output array is a
  view of the response, and no elements are copied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tensor_reshape.client.arguments import check_flag, check_keywords, read_integers
from tensor_reshape.client.arrays import AnyArray, PackedTensor, SupportsDLPack, is_array, read_array
from tensor_reshape.client.contexts import CALL_OPTIONS, CallOptions
from tensor_reshape.client.errors import ResponseError, keep_question
from tensor_reshape.client.queries import (
    DimLike,
    ShapeOptions,
    ShapeQuery,
    read_dims,
    read_query,
    try_query,
    wrap_answers,
)
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import read_unknown
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError, format_value
from tensor_reshape.rules.explanations import hint_rejection
from tensor_reshape.rules.inference import answer_question, infer_shape
from tensor_reshape.rules.layouts import check_layout, count_bytes
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import AnyQuestion, KnownQuestion, Question, ShapeRequest
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.arrays import DTYPES, Array, build_array, find_data_type, view_array
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, OPERATION_METHODS, SERVER_INFO
from tensor_reshape.wire.servers import (
    CHECK_METHOD,
    HealthStatus,
    ServerInfo,
    decode_check_response,
    decode_server_info,
    encode_check_request,
)
from tensor_reshape.wire.tensors import TensorView

AnyResponse = TypeVar("AnyResponse")


def decode_answer(decode: Callable[[bytes], AnyResponse], raw: bytes) -> AnyResponse:
    """Decodes a response.

    Raises:
        ResponseError: `decode` raised a `ReshapeError`, which is about the response and not about the request.
    """
    try:
        return decode(raw)
    except ReshapeError as error:
        raise ResponseError(f"the server's response is invalid: {error.message}") from error


def decode_array(question: KnownQuestion, dims: Sequence[int], raw: bytes, *, as_bytes: bool = False) -> Array:
    """Decodes the response of an operation as a view of `raw`, or as the bytes of its elements.

    `dims` is the output shape according to the rules.

    Raises:
        ReshapeError: the message does not follow the API.
        ResponseError: the output has another type or shape than the rules give, or numpy cannot represent it.
    """
    output = check_output(question, dims, reshapes.decode_reshape_response(raw))
    try:
        return np.frombuffer(output.payload, np.uint8) if as_bytes else build_array(output)
    except ValueError:  # the tensor is empty, but the product of its other dims is too large for numpy
        raise reject_array(dims) from None


def decode_shape(question: AnyQuestion, raw: bytes) -> InferredShape:
    """Decodes the response of InferShape to a query.

    Raises:
        ReshapeError: the message does not follow the API.
    """
    return InferredShape(inference.decode_infer_response(raw), question)


def decode_shapes(
    items: Sequence[BatchItem | ReshapeError], rejected: Mapping[int, ReshapeError], raw: bytes
) -> list[InferredShape | ReshapeError]:
    """Decodes the response of BatchInferShape.

    Args:
        items: for each query of the batch, the query or its rejection.
        rejected: maps the index of each query that could not be sent to the error of the query. These errors replace
            the server's results for the empty items that were sent instead.
        raw: the response.

    Raises:
        ReshapeError: the message does not follow the API.
        ResponseError: the number of results is wrong.
    """
    answers = batches.decode_batch_response(raw)
    # A result belongs to the query at the same position. If a result were missing, the other results could therefore be
    # assigned to wrong queries.
    if len(answers) != len(items):
        raise ResponseError(f"the server returned {len(answers)} results for {len(items)} queries")
    return wrap_answers([rejected.get(index, answer) for index, answer in enumerate(answers)], items)


def check_output(question: KnownQuestion, dims: Sequence[int], output: TensorView) -> TensorView:
    """Returns `output` if it has the type and the shape that the rules give.

    Raises:
        ResponseError: the output has another type or shape.
    """
    if tuple(output.dims) != tuple(dims) or output.data_type != question.data_type:
        message = f"the server returned {output.data_type}{list(output.dims)}, but the rules give {list(dims)}"
        raise ResponseError(message)
    return output


def reject_shape(answer: InferredShape, dims: Sequence[int]) -> ResponseError:
    """Returns the error for an inferred shape that differs from the shape that the rules give."""
    return ResponseError(f"the server returned {answer}, but the rules give {list(dims)}")


def reject_view(dims: Sequence[int], strides: Sequence[int] | None) -> InvalidRequestError:
    """Returns the error for an array whose strides do not allow a view. `strides` are in bytes, or None if unknown."""
    message = f'the strides of the array do not allow a view of shape {list(dims)}: pass copy="if_needed"'
    return InvalidRequestError.of(Reason.VIEW_IMPOSSIBLE, message, "data.strides", strides=strides)


def reject_array(dims: Sequence[int]) -> ResponseError:
    """Returns the error for a correct output that numpy cannot represent."""
    return ResponseError(f"the output has the shape {list(dims)}, which numpy cannot hold")


AnyResult = TypeVar("AnyResult")

Expected = Sequence[DimLike] | None
Target = Sequence[int] | Array | SupportsDLPack

_INFER_KEYWORDS = ("data_shape", "shape", "special_zero", "timeout")
_SIGNED = {data_type for data_type in DataType if data_type.kind is ElementKind.SIGNED}
# A requested shape that is a plain Python sequence is sent with the widest signed type that the operation accepts.
_SHAPE_DTYPES = {
    operation: DTYPES[max(set(operation.shape_data_types) & _SIGNED, key=lambda data_type: data_type.bits)]
    for operation in OPERATION_METHODS
    if operation.shape_data_types
}


class InferOptions(ShapeOptions, CallOptions, total=False):
    """The options of `infer_shape` in addition to its own arguments."""


class PreparedCall(NamedTuple, Generic[AnyResponse]):
    """A call that is ready to be sent, with the function that reads its response.

    Attributes:
        method: the method path.
        request: the message.
        decode: the function that reads the response.
        question: the shape query of the call, or None if the call is not a single shape query. If the call is rejected,
            the error keeps this query.
    """

    method: str
    request: bytes
    decode: Callable[[bytes], AnyResponse]
    question: AnyQuestion | None = None

    def then(self, convert: Callable[[AnyResponse], AnyResult]) -> "PreparedCall[AnyResult]":
        """Returns the same call, but its decoded response is then passed through `convert`."""
        return PreparedCall(self.method, self.request, lambda raw: convert(self.decode(raw)), self.question)


ShapeAnswers = list[InferredShape | ReshapeError]
"""The results of a batch."""


class Arguments(NamedTuple):
    """The unchecked arguments of an operation.

    Attributes:
        operation: the operation.
        array: the data.
        shape: the requested shape, as a sequence of integers or an array.
        special_zero: whether a 0 in the shape copies the input dimension at its index.
        expected_shape: the output shape that the caller relies on.
    """

    operation: Operation
    array: AnyArray | PackedTensor
    shape: Target
    special_zero: bool
    expected_shape: Expected


@dataclass(frozen=True, slots=True)
class Plan:
    """A reshape that the rules accept. The way to transfer its elements is not decided yet.

    Attributes:
        question: the shape query.
        dims: the output shape according to the rules.
        array: the data, or the bytes of a `PackedTensor`.
        data_type: the type of the data and of the output.
        shape: the requested shape as a tensor, if the operation takes the requested shape as a tensor.
        is_of_bytes: whether the data and the output are `PackedTensor` objects.
    """

    question: KnownQuestion
    dims: tuple[int, ...]
    array: Array
    data_type: DataType
    shape: TensorView | None
    is_of_bytes: bool

    def build_inline(self) -> PreparedCall[Array]:
        """Returns the call that sends all elements in one message."""
        data = (
            TensorView(self.data_type, self.question.data, None, self.array.data)
            if self.is_of_bytes
            else view_array(self.array, "data")
        )
        header = reshapes.encode_request_header(reshapes.ReshapeCall(self.question, data), self.shape)
        decode = partial(decode_array, self.question, self.dims, as_bytes=self.is_of_bytes)
        return PreparedCall(
            OPERATION_METHODS[self.question.operation].path,
            b"".join((header, data.payload)),
            partial(decode_answer, decode),
        )

    def present(self, output: Array) -> PackedTensor:
        """Returns a `PackedTensor` with the bytes of an output."""
        return PackedTensor(self.data_type, self.dims, output.data)

    def build_infer(self) -> PreparedCall[InferredShape]:
        """Returns the call in which the server infers the output shape. This call sends no elements."""
        return _build_infer(ShapeRequest(self.question))

    @property
    def dense_bytes(self) -> int:
        """Size of the output in a message, in bytes. Data that is sent without strides has the same size."""
        return count_bytes(self.data_type, self.dims)

    @property
    def memory_type(self) -> DataType:
        """The element type of `array` and of the output array."""
        return DataType.U8 if self.is_of_bytes else self.data_type

    @property
    def memory_dims(self) -> tuple[int, ...]:
        """The shape of the output array in memory."""
        return (self.dense_bytes,) if self.is_of_bytes else self.dims


def plan_reshape(arguments: Arguments) -> Plan:
    """Plans an operation.

    Raises:
        ReshapeError: the error that the server would return.
        TypeError: an argument has a wrong type.
    """
    operation, array, shape, special_zero, expected_shape = arguments
    is_of_bytes, view = isinstance(array, PackedTensor), None
    data, dims, data_type = _read_data(array)
    if operation in _SHAPE_DTYPES:
        view = _view_shape(operation, shape)
        target = tuple(reshapes.read_target(operation, view))
    else:
        target = read_integers(read_array(shape, "shape") if is_array(shape) else shape, "shape")
    question = Question(
        operation=operation,
        data=dims,
        target=target,
        special_zero=check_flag(special_zero),
        data_type=data_type,
        expected=read_unknown(read_dims(expected_shape, "expected_shape.dims")),
    )
    try:
        output = infer_shape(question)
    except ReshapeError as error:
        raise keep_question(hint_rejection(question, error), question) from None
    if is_of_bytes:
        # Only data given as bytes needs this check, because the size of an array always matches its dims.
        check_layout(data_type, dims, None, data.nbytes, field="data")
    return Plan(question, output, data, data_type, view, is_of_bytes)


def build_infer_shape(
    data_shape: Sequence[DimLike] | None,
    shape: Sequence[DimLike] | None,
    *,
    special_zero: bool,
    more: InferOptions,
) -> PreparedCall[InferredShape]:
    """Returns an InferShape call. This process infers nothing, because the caller wants the server's result."""
    check_keywords("infer_shape", more, _INFER_KEYWORDS, InferOptions)
    options: dict[str, Any] = {name: value for name, value in more.items() if name not in CALL_OPTIONS}
    query = ShapeQuery(data_shape=data_shape, shape=shape, special_zero=special_zero, **options)
    return _build_infer(read_query(query).request)


def build_infer_shapes(queries: Sequence[ShapeQuery]) -> PreparedCall[ShapeAnswers]:
    """Returns a BatchInferShape call. A query that cannot be sent gets its error from this process."""
    items = [try_query(query) for query in queries]
    pieces = [item if isinstance(item, ReshapeError) else _encode_item(item) for item in items]
    rejected = {index: piece for index, piece in enumerate(pieces) if isinstance(piece, ReshapeError)}
    # If a query of a batch cannot be sent, an empty item is sent instead. The server rejects the empty item, so queries
    # that refer to it fail as well.
    request = batches.join_items([b"" if isinstance(piece, ReshapeError) else piece for piece in pieces])
    decode = partial(decode_answer, partial(decode_shapes, items, rejected))
    return PreparedCall(BATCH_INFER_SHAPE.path, request, decode)


def build_health_check(service: object) -> PreparedCall[HealthStatus]:
    """Returns the health check of a service. The service name "" stands for the whole server.

    Raises:
        TypeError: the service is not a string.
    """
    if not isinstance(service, str):
        raise TypeError(f"service is {service!r}: write the name of a service as text, or '' for the whole server")
    return PreparedCall(CHECK_METHOD, encode_check_request(service), partial(decode_answer, decode_check_response))


def build_server_info() -> PreparedCall[ServerInfo]:
    """Returns the ServerInfo call."""
    return PreparedCall(SERVER_INFO.path, b"", partial(decode_answer, decode_server_info))


def _encode_item(item: BatchItem) -> bytes | ReshapeError:
    try:
        return batches.encode_batch_item(item)
    except ValueError:
        message = f"data_from is {item.data_from}; it must be the index of an earlier query"
        reason, field = Reason.BATCH_REFERENCE_INVALID, "data_from"
        link = InvalidRequestError.of(reason, message, field, value=item.data_from)
        return _find_rejection(item.request) or link


def _read_data(data: AnyArray | PackedTensor) -> tuple[Array, tuple[int, ...], DataType]:
    """Returns the data as an array in memory, the shape of the data, and the element type."""
    if isinstance(data, PackedTensor):
        return np.frombuffer(data.data, np.uint8), data.dims, data.data_type
    array = read_array(data, "data")
    return array, array.shape, find_data_type(array.dtype, "data")


def _build_infer(request: ShapeRequest) -> PreparedCall[InferredShape]:
    try:
        message = inference.build_infer_request(request)
    except ValueError as error:
        raise _find_rejection(request) or error from None
    decode = partial(decode_answer, partial(decode_shape, request.question))
    return PreparedCall(INFER_SHAPE.path, message.SerializeToString(), decode, request.question)


def _find_rejection(request: ShapeRequest) -> ReshapeError | None:
    """Returns the error for a number that does not fit into 64 bits, or None if the query has no such number."""
    try:
        answer_question(request)  # unlike protobuf's error, the error of the rules names the number
    except ReshapeError as error:
        return keep_question(error, request.question)
    return None


def _view_shape(operation: Operation, shape: Target) -> TensorView:
    """Returns a requested shape as a tensor.

    An array keeps its type, and a sequence gets a type that the operation accepts.
    """
    if is_array(shape):
        return view_array(read_array(shape, "shape"), "shape")
    # The integers are checked before numpy converts them, because numpy could round them.
    dtype, items = _SHAPE_DTYPES[operation], read_integers(shape, "shape")
    try:
        return view_array(np.array(items, dtype), "shape")
    except OverflowError:
        message = f"shape {format_value(items)} has an item that does not fit into {dtype}"
        raise InvalidRequestError.of(Reason.INVALID_TARGET_VALUE, message, "shape", shape=items) from None
