"""Reads one shape query from each line of a file, and answers the queries in calls of up to 1,024 lines.

A line may also contain a tensor, which is then reshaped on a server or in this process. Invariant: the output always
has the bytes of a dense row-major array, even if the data has strides.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tensor_reshape.client import (
    InferredShape,
    InvalidRequestError,
    PackedTensor,
    Reason,
    ReshapeError,
    ShapeQuery,
    infer_locally,
)
from tensor_reshape.client.queries import MAX_CALL_QUERIES, read_query
from tensor_reshape.conformance.cases import BatchLine, read_line
from tensor_reshape.rules.limits import MAX_BATCH_BYTES
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.questions import Question, is_known
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.arrays import Array, build_array, gather, view_bytes
from tensor_reshape.wire.batches import describe_rejection, encode_batch_item
from tensor_reshape.wire.fields import check_header_size
from tensor_reshape.wire.json_messages import Json, describe_message
from tensor_reshape.wire.tensors import TensorView

if TYPE_CHECKING:
    from tensor_reshape.client import Client

Answer: TypeAlias = InferredShape | ReshapeError
Ask: TypeAlias = Callable[[Sequence[ShapeQuery]], list[Answer]]

_FIELD_BYTES = 4  # in a message, one tag byte and at most three length bytes precede an item of up to 64 KiB
_PLACEHOLDER = ShapeQuery(special_zero=None)  # type: ignore[arg-type] # every server rejects it


def answer_records(lines: Iterable[bytes], client: "Client | None") -> Iterator[Json]:
    """Yields the JSON of each line's result or error, in the order of the lines."""
    for line, answer in answer_lines(lines, infer_locally if client is None else client.infer_shapes):
        yield _describe(line, answer, client) if line.id is None else {"id": line.id, **_describe(line, answer, client)}


def _describe(line: BatchLine, answer: Answer, client: "Client | None") -> Json:
    try:
        if isinstance(answer, ReshapeError):
            return {"rejection": describe_rejection(answer)}
        if line.tensor is None or isinstance(line.query, ReshapeError):
            return {"answer": answer.to_json()}
        return {"output": describe_message(execute(line.query, line.tensor, answer, client))}
    except ReshapeError as error:
        return {"rejection": describe_rejection(error)}


def answer_lines(lines: Iterable[bytes], ask: Ask) -> Iterator[tuple[BatchLine, Answer]]:
    """Yields the result or the error of each line, in the order of the lines."""
    batch = _Batch(ask)
    for line in lines:
        question = read_line(line)
        if not batch.take(question):
            yield from batch.flush()
            batch.take(question)
    yield from batch.flush()


class _Batch:
    """Collects the lines of the next call, and keeps the results of the earlier calls."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        # The results of all earlier lines are kept, because the field `data_from` of a line may refer to any earlier
        # line.
        self._answers: list[Answer] = []
        # These lines will be sent in the next call. If a line is invalid, its field `query` has an error instead of a
        # query.
        self._call: list[BatchLine] = []
        self._bytes = 0  # the total size of the encoded lines in `_call`

    def take(self, question: BatchLine) -> bool:
        """Adds a line to the next call. Returns False if the call is full."""
        item: ShapeQuery | ReshapeError
        try:
            item = linked = self._link(question.query)
            size = _measure(linked)
        except ReshapeError as error:
            item, size = error, _measure(_PLACEHOLDER)
        if self._call and (len(self._call) == MAX_CALL_QUERIES or self._bytes + size > MAX_BATCH_BYTES):
            return False
        self._call.append(question._replace(query=item))
        self._bytes += size
        return True

    def flush(self) -> Iterator[tuple[BatchLine, Answer]]:
        """Sends the collected lines in one call, and yields each line with its result."""
        # The list of lines is cleared before the call, so that no query is sent a second time after an exception.
        call, start = self._call, len(self._answers)
        self._call, self._bytes = [], 0
        # If a line cannot be sent, a placeholder is sent instead, so that the other lines keep their indexes. The
        # server rejects the placeholder and all items that depend on the placeholder.
        queries = [_PLACEHOLDER if isinstance(item.query, ReshapeError) else item.query for item in call]
        answers = self._ask(queries) if queries else []
        for item, query, answer in zip(call, queries, answers, strict=True):
            final = item.query if isinstance(item.query, ReshapeError) else answer
            # The server's error has the index of an item in the call, but users need the number of the line.
            if (
                isinstance(final, ReshapeError)
                and final.reason == Reason.BATCH_DEPENDENCY_FAILED
                and query.data_from is not None
            ):
                final = _reject_failed_link(start + query.data_from, len(self._answers))
            self._answers.append(final)
            yield item, final

    def _link(self, query: ShapeQuery | ReshapeError) -> ShapeQuery:
        """Returns the query for the next call, and replaces its reference to an earlier line.

        The field `data_from` has the number of an earlier line. If that line was sent in an earlier call, its output
        shape becomes the input shape of the query. If that line is sent in the same call, `data_from` becomes its index
        in the call.
        """
        if isinstance(query, ReshapeError):
            raise query
        data_from, start, index = query.data_from, len(self._answers), len(self._answers) + len(self._call)
        if data_from is None:
            return query
        if query.data_shape is not None or not 0 <= data_from < index:
            message = (
                f"data_from of line {index} is {data_from}: use the number of an earlier line, and remove the input "
                "shape of the query"
            )
            raise InvalidRequestError.of(
                Reason.BATCH_REFERENCE_INVALID, message, "data_from", value=data_from, index=index
            )
        if data_from >= start:  # the earlier line is sent in the same call, so its output shape is not known yet
            return replace(query, data_from=data_from - start)
        answer = self._answers[data_from]
        if isinstance(answer, ReshapeError):
            raise _reject_failed_link(data_from, index)
        return replace(query, data_from=None, data_shape=answer.dims)


def _measure(query: ShapeQuery) -> int:
    """Returns the size of a query in bytes."""
    size = len(encode_batch_item(read_query(query)))
    check_header_size(size)
    return size + _FIELD_BYTES


def _reject_failed_link(data_from: int, index: int) -> InvalidRequestError:
    message = f"line {data_from} was rejected, so its output cannot be the input of this line"
    return InvalidRequestError.of(Reason.BATCH_DEPENDENCY_FAILED, message, "data_from", value=data_from, index=index)


def execute(
    query: ShapeQuery, data: tensor_pb2.Tensor, answer: InferredShape, client: "Client | None"
) -> tensor_pb2.Tensor:
    """Reshapes the tensor of a line as its query says, and returns the output."""
    (question, _), _ = read_query(query)
    if not is_known(question) or question.data_type is None:
        message = "a tensor can be reshaped only if all items of the requested shape are known"
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
