"""Reads the test cases of the conformance suite, and shape queries from files with one JSON object per line.

Invariants:

- A line of a suite file becomes one test case for each operation in the line. The query of a test case does not contain
  the answer.
- A line of a batch of queries is a BatchInferShapeItem in protobuf's JSON mapping, and may have an id. Each line that
  is not a valid query gets its own error. A value that could mean several things also causes an error.
"""

import json
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
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

_PACKAGE = Path(__file__).parent
# In an installed wheel, this package contains the conformance suite. In an editable installation, the suite is read
# from the repository. The package does not contain a symbolic link to the suite, because git writes such a link as a
# text file on systems such as Windows.
SUITE = _PACKAGE if (_PACKAGE / "cases").exists() else _PACKAGE.parents[2] / "conformance"
FOLDER = SUITE / "cases"
RULES = (
    *("admitted", "target", "inferred", "copies", "volume", "expected"),
    *("partial", "symbols", "conditions", "layouts", "packed", "errors"),
)
"""The rules in the order in which the README of the suite explains them. Each rule has one file."""

_PREFIX = "OPERATION_"

_LINE = "the line"
_TENSOR_KEYS = ("dims", "strides", "data")  # fields of a Tensor that a TensorSpec does not have


class SuiteSize(StrEnum):
    """The parts into which the conformance suite is divided."""

    CORE = "core"
    FULL = "full"
    HOSTILE = "hostile"


class Case(NamedTuple):
    """A test case of the suite, which is a query with the right answer.

    Attributes:
        id: the id of the case, which consists of the id of the line in the suite, "@", and the operation.
        rule: the name of the reshape rule that the case tests.
        query: the query in the JSON form that an implementation reads.
        right: the right answer in the JSON form of an answer.
        because: the sentence that justifies the right answer, and the source of this sentence.
    """

    id: str
    rule: str
    query: Json
    right: Json
    because: str


def read_version() -> str:
    """Returns the version of the conformance suite."""
    return (SUITE / "VERSION").read_text().strip()


def list_cases(sizes: Collection[str], rules: Collection[str] = RULES) -> list[Case]:
    """Returns the cases of these sizes and rules, in the order of the files."""
    paths = (FOLDER / size / f"{rule}.jsonl" for size in SuiteSize if size in sizes for rule in RULES if rule in rules)
    return [
        case
        for path in paths
        if path.exists()  # a part of the suite may have no cases for some rules
        for line in path.read_text(encoding="utf-8").splitlines()
        for case in split_line(json.loads(line))
    ]


def split_line(line: Json) -> Iterator[Case]:
    """Yields the test cases in one line of a suite file, one for each operation."""
    for operation in line["operations"]:
        name = f"{line['id']}@{operation.removeprefix(_PREFIX).lower()}"
        query = {"id": name, "question": {"operation": operation, **line["question"]}}
        yield Case(name, line["rule"], query, line["result"], line["because"])


class BatchLine(NamedTuple):
    """The contents of one line of a batch of queries.

    Attributes:
        query: the query in the line, or the error if the line is not a valid query.
        id: the id from the line, which the result also gets. None if the line has no id.
        tensor: the tensor to reshape. None if the line only asks for the output shape.
    """

    query: ShapeQuery | ReshapeError
    id: str | int | None = None
    tensor: tensor_pb2.Tensor | None = None


def read_line(line: bytes) -> BatchLine:
    """Reads one line of a batch of queries. A fault of the line is returned as an error."""
    name: str | int | None = None
    try:
        try:
            # The line is decoded before it is parsed, because the module `json` would guess the encoding of bytes.
            text = line.decode()
        except UnicodeDecodeError as error:
            raise reject_json(f"{_LINE} is not UTF-8 at byte {error.start}") from None
        record = parse_json(text, _LINE)
        # The id is read first, so that the result of a line with another error also has the id.
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
    """Returns the query of a test case in the form that the package `rules` uses."""
    return read_question(_read_question(query["question"])[0]).question


def _read_question(record: object) -> tuple[reshape_pb2.InferShapeRequest, tensor_pb2.Tensor | None]:
    """Reads a query. Its field `data` may be a whole Tensor, as in a request to reshape, instead of only a shape."""
    if not isinstance(record, dict):
        raise reject_json("question is not a JSON object", "question")
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
    """Returns a query in the form of the SDK."""
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


def _read_id(value: object) -> str | int | None:
    # The check uses `type`, because a bool is also an instance of int.
    if value is None or isinstance(value, str) or type(value) is int:
        return value
    raise reject_json("id must be text or a whole number", "id")
