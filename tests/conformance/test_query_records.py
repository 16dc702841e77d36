"""Shape questions and their answers as JSON."""

import json
from typing import Any

import pytest

from tensor_reshape.client import InvalidRequestError, Reason, ReshapeError, ShapeQuery, infer_locally
from tensor_reshape.conformance.query_records import describe_rejection, read_line, read_record

Line = dict[str, Any]
PLAIN: Line = {"data": [2, 3], "shape": [-1], "special_zero": False}

# What a line says, the field of the query that it is, and its value there.
KEYS: list[tuple[Line, str, object]] = [
    ({"data": [2, 3]}, "data_shape", (2, 3)),
    ({"data": None}, "data_shape", None),
    ({"shape": [0, -1]}, "shape", (0, -1)),
    ({"special_zero": True}, "special_zero", True),
    ({"operation": "reshape"}, "operation", "reshape"),
    ({"expected": [6, None]}, "expected_shape", (6, None)),
    ({"explain": True}, "explain", True),
    ({"data_from": 4}, "data_from", 4),
    ({"data_from": None}, "data_from", None),
    ({"data_type": "f32"}, "data_type", "f32"),
    ({"data_type": None}, "data_type", None),
]


def read(line: Line) -> ShapeQuery:
    return read_record({**PLAIN, **line})


def test_json_keys_of_a_line_become_query_fields():
    for line, field, value in KEYS:
        assert getattr(read(line), field) == value, line


def print_dim(dim: object) -> object:
    (answered,) = infer_locally([ShapeQuery(data_shape=read({"data": [dim]}).data_shape, shape=[0], special_zero=True)])
    assert not isinstance(answered, ReshapeError)
    (printed,) = answered.to_json()["shape"]
    return printed


def test_dim_written_as_json_is_parsed_to_the_same_dim():
    dims = [
        *(7, None, "N", "4*C", "2..8", "'any: name, at all'", [2, 8], [2, None]),
        *({"min": 2, "max": 8}, {"min": 1, "max": None, "name": "N"}, {"min": 0, "max": 9, "name": "seq + past"}),
    ]
    printed = [*map(print_dim, dims)]
    assert [*map(print_dim, printed)] == printed


@pytest.mark.parametrize("key", ["data", "shape"])
def test_json_query_without_a_shape_is_rejected(key: str):
    with pytest.raises(InvalidRequestError) as caught:
        read_record({name: value for name, value in PLAIN.items() if name != key})
    assert (caught.value.reason, caught.value.field) == (Reason.FIELD_MISSING, key)


def test_json_query_with_data_from_needs_no_data():
    query = read_record({"data_from": 0, "shape": [-1], "special_zero": False})
    assert (query.data_shape, query.data_from) == (None, 0)


def test_json_query_without_special_zero_is_rejected_later_by_inference():
    assert read_record({"data": [1], "shape": [1]}).special_zero is None


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"unknown": 1}, ""),
        ({"special_zero": 1}, "special_zero"),
        ({"explain": "yes"}, "explain"),
        ({"operation": 1}, "operation"),
        ({"data": "2,3"}, "data"),
        ({"data": [True]}, "data[0]"),
        ({"data": [[1, "2"]]}, "data[0]"),
        ({"data": [{"min": 1}]}, "data[0]"),
        ({"data_from": "0"}, "data_from"),
    ],
    ids=str,
)
def test_error_for_an_invalid_json_query_names_the_field(line: Line, field: str):
    with pytest.raises(InvalidRequestError) as caught:
        read(line)
    assert (caught.value.reason, caught.value.field) == (Reason.MESSAGE_MALFORMED, field)


def test_json_query_line_may_have_an_id_and_bytes():
    line = read_line(json.dumps({**PLAIN, "id": "a", "data_type": "u8", "bytes": "0fF0"}).encode())
    assert isinstance(line.query, ShapeQuery)
    assert (line.query.data_type, line.id, line.data) == ("u8", "a", b"\x0f\xf0")
    assert read_line(json.dumps(PLAIN).encode())[1:] == (None, None, None, False)


def test_json_query_line_with_bytes_may_have_strides():
    record = {**PLAIN, "data_type": "u8", "bytes": "000102030405", "strides": [3, 1]}
    assert read_line(json.dumps(record).encode()).strides == (3, 1)


def test_json_query_line_with_strides_needs_bytes():
    line = read_line(json.dumps({**PLAIN, "strides": [3, 1]}).encode())
    assert isinstance(line.query, InvalidRequestError)
    assert (line.query.reason, line.query.field) == (Reason.FIELD_MISSING, "bytes")


def test_json_query_line_may_ask_for_conditions():
    assert read_line(json.dumps({**PLAIN, "conditions": True}).encode()).lists_conditions


def write(**keys: object) -> bytes:
    return json.dumps({**PLAIN, **keys}).encode()


@pytest.mark.parametrize(
    ("raw", "name", "reason", "field"),
    [
        *((raw, None, Reason.MESSAGE_MALFORMED, "") for raw in (b"", b"{", b"[]", b"\xff", b"[" * 100_000)),
        (write(id=[1]), None, Reason.MESSAGE_MALFORMED, "id"),
        (write(id=True), None, Reason.MESSAGE_MALFORMED, "id"),
        (write(id=4, bytes="00"), 4, Reason.FIELD_MISSING, "data_type"),
        (write(id=4, data_type="u8", bytes="0"), 4, Reason.MESSAGE_MALFORMED, "bytes"),
        (write(id=4, data_type="u8", bytes="0 0 "), 4, Reason.MESSAGE_MALFORMED, "bytes"),
        (write(id=4, data_type="u8", bytes=[0]), 4, Reason.MESSAGE_MALFORMED, "bytes"),
        (write(id=4, data_type=8), 4, Reason.MESSAGE_MALFORMED, "data_type"),
        (write(id="a", shap=[]), "a", Reason.MESSAGE_MALFORMED, ""),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_error_of_a_json_query_line_has_its_id(raw: bytes, name: object, reason: Reason, field: str):
    rejected = read_line(raw)
    assert isinstance(rejected.query, ReshapeError)
    assert (rejected.id, rejected.query.reason, rejected.query.field) == (name, reason, field)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"data": [2, }', "the line is not JSON at character 14"),
        (b'{"id": "\xff"}', "the line is not JSON: byte 9 is not UTF-8"),
        (b"[" * 100_000, "the line is not JSON: it is nested too deeply"),
        (b"9" * 5000, "the line is not JSON: a number has too many digits"),
        (b"[]", "the line is not a JSON object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_error_of_a_line_that_is_not_json_names_the_place(raw: bytes, text: str):
    rejected = read_line(raw).query
    assert isinstance(rejected, ReshapeError)
    assert rejected.message == text


def test_json_error_record_has_all_error_fields():
    error = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", value=2, index=1)
    metadata = {"index": "1", "value": "2"}
    assert describe_rejection(error) == {
        "error": {"reason": "NOT_DIVISIBLE", "message": "no", "field": "shape[1]", "metadata": metadata}
    }
