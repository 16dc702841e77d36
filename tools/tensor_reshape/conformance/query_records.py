"""Reads shape queries from JSON lines. A line is a BatchInferShapeItem in protobuf's JSON mapping, and may have an id.

Invariant: each line is a valid query or gets its own error. An ambiguous value causes an error and is never guessed.
"""

from typing import NamedTuple

from tensor_reshape.client.queries import ShapeQuery
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import AnyQuestion
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.batches import build_rejection, read_batch_item
from tensor_reshape.wire.inference import read_question
from tensor_reshape.wire.json_messages import Json, describe_message, parse_json, read_message, reject_json

_LINE = "the line"
_TENSOR_KEYS = {"dims", "strides", "data"}  # a TensorSpec has none of these keys


class BatchLine(NamedTuple):
    """One line of a batch of queries.

    Attributes:
        query: the query, or the error if the line is not a valid query.
        id: the id of the result; None if the line has no id.
        tensor: the data to reshape; None if only the shape is requested.
    """

    query: ShapeQuery | ReshapeError
    id: str | int | None = None
    tensor: tensor_pb2.Tensor | None = None


def read_line(line: bytes) -> BatchLine:
    """Reads one line of a batch of queries."""
    name: str | int | None = None
    try:
        record = parse_json(_decode(line), _LINE)
        # The id is read first, because an error about the rest of the record contains the id.
        name = _read_id(record.pop("id", None))
        question, tensor = split_tensor(record.get("question"))
        item = {**record, "question": question}
        return BatchLine(make_query(read_batch_item(read_message(reshape_pb2.BatchInferShapeItem, item))), name, tensor)
    except ReshapeError as error:
        return BatchLine(error, name)


def split_tensor(question: object) -> tuple[object, tensor_pb2.Tensor | None]:
    """Splits a query whose `data` is a Tensor, as in a request to reshape, into a query with a TensorSpec and the data.

    Raises:
        InvalidRequestError: the tensor is malformed.
    """
    data = question.get("data") if isinstance(question, dict) else None
    if not isinstance(data, dict) or not _TENSOR_KEYS & data.keys():
        return question, None
    tensor = read_message(tensor_pb2.Tensor, data, "question.data")
    spec = {"dataType": tensor.data_type, "shape": {"dims": [*tensor.dims]}}
    return {**question, "data": spec}, tensor  # type: ignore[dict-item] # a dict, because it has data


def make_query(item: BatchItem) -> ShapeQuery:
    """Returns a query as the SDK sends it."""
    (question, explain), data_from = item
    return ShapeQuery(
        data_shape=question.data,
        shape=question.target,
        special_zero=question.special_zero,  # type: ignore[arg-type] # the rules reject a query without it
        operation=question.operation.name,
        expected_shape=question.expected,
        data_type=question.data_type,
        explain=explain,
        data_from=data_from,
    )


def read_case_question(query: Json) -> AnyQuestion:
    """Returns the query of a case in the form of the rules.

    Raises:
        InvalidRequestError: the query is not valid, so the right answer is a rejection.
    """
    question, _ = split_tensor(query.get("question"))
    return read_question(read_message(reshape_pb2.InferShapeRequest, question)).question


def describe_rejection(error: ReshapeError) -> Json:
    """Returns the JSON of an error, as in the result of a batch."""
    return {"rejection": describe_message(build_rejection(error))}


def _decode(line: bytes) -> str:
    try:
        # The line is decoded before it is parsed, because json would guess the encoding of bytes.
        return line.decode()
    except UnicodeDecodeError as error:
        problem = f"{_LINE} is not UTF-8 at byte {error.start}"
        raise reject_json(problem) from None


def _read_id(value: object) -> str | int | None:
    if value is None or isinstance(value, str) or type(value) is int:  # a bool is also an int
        return value
    problem = "id must be text or a number"
    raise reject_json(problem, "id")
