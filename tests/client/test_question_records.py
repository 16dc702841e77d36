"""Shape questions and their answers as JSON."""

import json
from typing import Any

import pytest

from tensor_reshape.client import InvalidRequestError, Reason, ReshapeError, ShapeQuery, infer_locally
from tensor_reshape.client.question_records import describe_refusal, read_line, read_question

Line = dict[str, Any]
PLAIN: Line = {"data": [2, 3], "shape": [-1], "special_zero": False}

# What a line says, the field of the query that it is, and its value there.
KEYS: dict[str, tuple[Line, str, object]] = {
    "the data": ({"data": [2, 3]}, "data_shape", (2, 3)),
    "data of which nothing is known": ({"data": None}, "data_shape", None),
    "the target": ({"shape": [0, -1]}, "shape", (0, -1)),
    "special_zero": ({"special_zero": True}, "special_zero", True),
    "the operation": ({"operation": "reshape"}, "operation", "reshape"),
    "what is expected": ({"expected": [6, None]}, "expected_shape", (6, None)),
    "an explanation": ({"explain": True}, "explain", True),
    "strides": ({"strides": [3, 1]}, "data_strides", (3, 1)),
    "no strides": ({"strides": None}, "data_strides", None),
    "a link": ({"data_from": 4}, "data_from", 4),
    "the data type": ({"data_type": "f32"}, "data_type", "f32"),
    "no data type": ({"data_type": None}, "data_type", None),
    "no link": ({"data_from": None}, "data_from", None),
}


def read_refusal(raw: bytes) -> tuple[object, str, str]:
    """Returns the id of a line and its refusal."""
    refused = read_line(raw)
    assert isinstance(refused.query, ReshapeError)
    return refused.id, refused.query.reason, refused.query.field


def read(line: Line) -> ShapeQuery:
    return read_question({**PLAIN, **line})


def answer(**fields: Any) -> Line:
    query = ShapeQuery(**{"special_zero": False, **fields})
    (answered,) = infer_locally([query])
    assert not isinstance(answered, ReshapeError)
    return answered.to_json()


@pytest.mark.parametrize(("line", "field", "value"), KEYS.values(), ids=KEYS.keys())
def test_a_key_of_a_line_is_a_field_of_the_question(line: Line, field: str, value: object):
    assert getattr(read(line), field) == value


@pytest.mark.parametrize(
    "dim",
    [
        7,
        None,
        "N",
        "4*C",
        "2..8",
        [2, 8],
        [2, None],
        {"min": 2, "max": 8},
        {"min": 1, "max": None, "name": "N"},
        {"min": 0, "max": 9, "name": "seq + past"},
        "'any: name, at all'",
    ],
)
def test_a_dim_that_was_printed_is_the_dim_that_is_read(dim: object):
    (printed,) = answer(data_shape=read({"data": [dim]}).data_shape, shape=[0], special_zero=True)["shape"]
    (again,) = answer(data_shape=read({"data": [printed]}).data_shape, shape=[0], special_zero=True)["shape"]
    assert again == printed


@pytest.mark.parametrize("key", ["data", "shape"])
def test_a_line_says_what_is_known_of_both_shapes_though_it_be_nothing(key: str):
    with pytest.raises(InvalidRequestError) as caught:
        read_question({name: value for name, value in PLAIN.items() if name != key})
    assert (caught.value.reason, caught.value.field) == (Reason.FIELD_MISSING, key)


def test_a_line_that_takes_over_an_output_needs_no_data():
    query = read_question({"data_from": 0, "shape": [-1], "special_zero": False})
    assert (query.data_shape, query.data_from) == (None, 0)


def test_a_line_without_special_zero_is_left_to_the_rules():
    assert read_question({"data": [1], "shape": [1]}).special_zero is None


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
        ({"strides": [2**63]}, "strides"),
        ({"data_from": "0"}, "data_from"),
    ],
    ids=str,
)
def test_what_is_no_question_is_refused_by_its_field(line: Line, field: str):
    with pytest.raises(InvalidRequestError) as caught:
        read(line)
    assert (caught.value.reason, caught.value.field) == (Reason.MESSAGE_MALFORMED, field)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000], ids=repr)
def test_a_line_that_is_no_json_object_is_refused_as_a_whole(raw: bytes):
    assert read_refusal(raw) == (None, Reason.MESSAGE_MALFORMED, "")


def test_a_line_names_its_answer_and_brings_a_buffer():
    line = read_line(json.dumps({**PLAIN, "id": "a", "data_type": "u8", "bytes": "0fF0"}).encode())
    assert isinstance(line.query, ShapeQuery)
    assert (line.query.data_type, line.id, line.data) == ("u8", "a", b"\x0f\xf0")
    assert read_line(json.dumps(PLAIN).encode())[1:] == (None, None)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"id": [1]}, (None, Reason.MESSAGE_MALFORMED, "id")),
        ({"id": True}, (None, Reason.MESSAGE_MALFORMED, "id")),
        ({"id": 4, "bytes": "00"}, (4, Reason.FIELD_MISSING, "data_type")),
        ({"id": 4, "data_type": "u8", "bytes": "0"}, (4, Reason.MESSAGE_MALFORMED, "bytes")),
        ({"id": 4, "data_type": "u8", "bytes": "0 0 "}, (4, Reason.MESSAGE_MALFORMED, "bytes")),
        ({"id": 4, "data_type": "u8", "bytes": [0]}, (4, Reason.MESSAGE_MALFORMED, "bytes")),
        ({"id": 4, "data_type": 8}, (4, Reason.MESSAGE_MALFORMED, "data_type")),
        ({"id": "a", "shap": []}, ("a", Reason.MESSAGE_MALFORMED, "")),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_line_is_the_answer_of_its_id(line: Line, told: tuple[object, str, str]):
    assert read_refusal(json.dumps({**PLAIN, **line}).encode()) == told


def test_a_refusal_has_all_that_it_says():
    error = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", value=2, index=1)
    assert describe_refusal(error) == {
        "error": {
            "reason": "NOT_DIVISIBLE",
            "message": "no",
            "field": "shape[1]",
            "metadata": {"index": "1", "value": "2"},
        }
    }
