"""Reads shape queries from JSON lines. A line is a BatchInferShapeItem in protobuf's JSON mapping, and may have an id.

Invariant: each line is a valid query or gets its own error. An ambiguous value causes an error and is never guessed.
"""

from typing import NamedTuple

from tensor_reshape.client.queries import ShapeQuery
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import AnyQuestion
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.batches import read_batch_item
from tensor_reshape.wire.inference import read_question
from tensor_reshape.wire.json_messages import Json, parse_json, read_message, reject_json
from tensor_reshape.wire.tensors import decode_data_type

_LINE = "the line"
_TENSOR_KEYS = ("dims", "strides", "data")  # a TensorSpec has none of these keys


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
        question, tensor = record.pop("question", None), None
        item = read_message(reshape_pb2.BatchInferShapeItem, record)
        if question is not None:
            message, tensor = _read_question(question)
            item.question.CopyFrom(message)
        return BatchLine(make_query(read_batch_item(item)), name, tensor)
    except ReshapeError as error:
        return BatchLine(error, name)


def read_case_question(query: Json) -> AnyQuestion:
    """Returns the query of a case in the form of the rules.

    Raises:
        InvalidRequestError: the query is not valid, so the right answer is a rejection.
    """
    return read_question(_read_question(query["question"])[0]).question


def _read_question(record: object) -> tuple[reshape_pb2.InferShapeRequest, tensor_pb2.Tensor | None]:
    """Reads a query. Its `data` may be a Tensor, as in a request to reshape."""
    if not isinstance(record, dict):
        problem = "question is not a JSON object"
        raise reject_json(problem, "question")
    data = record.get("data")
    if not isinstance(data, dict) or all(data.get(key) is None for key in _TENSOR_KEYS):
        return read_message(reshape_pb2.InferShapeRequest, record), None
    tensor = read_message(tensor_pb2.Tensor, data, "data")
    decode_data_type(tensor.data_type, "data.data_type")
    question = read_message(reshape_pb2.InferShapeRequest, {**record, "data": {}})
    question.data.data_type = tensor.data_type
    question.data.shape.SetInParent()
    question.data.shape.dims.extend(check_dims(tensor.dims, "data.dims"))
    return question, tensor


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
    problem = "id must be text or a whole number"
    raise reject_json(problem, "id")
