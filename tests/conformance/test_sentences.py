"""Questions and answers in words."""

import pytest

from conformance_runs import Json, make_question
from tensor_reshape.conformance.sentences import write_answer, write_question, write_shape


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "reshape of [2, 3] to [-1], special_zero false"),
        ({"data": None, "shape": ["N", [1, None]]}, "reshape of [...] to [N, 1..], special_zero false"),
        (
            {"expected": [None], "strides": [3, 1], "data_type": "u8", "bytes": "00"},
            "reshape of [2, 3] to [-1], special_zero false, expected [?], strides [3, 1], data_type u8, bytes 00",
        ),
    ],
)
def test_a_question_is_a_line(asked: Json, text: str):
    assert write_question(make_question(**asked).asked) == text


def test_what_a_question_leaves_out_is_left_out():
    assert write_question({"operation": "reshape", "data": [], "shape": []}) == "reshape of [] to []"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "-"),
        ({"shape": [2, None, {"min": 1, "max": 8}, {"min": 0, "max": None, "name": "N"}]}, "[2, ?, 1..8, N]"),
        ({"shape": [{"min": 1, "max": 8, "name": "N"}, {"max": 4}]}, "[N (1..8), 0..4]"),
        ({"shape": None}, "[...]"),
        (
            {"shape": [2], "view": {"possibility": "possible", "strides": [1]}, "bytes": "0a"},
            "[2], view possible [1], bytes 0a",
        ),
        ({"shape": [2], "view": {"possibility": "unknown"}}, "[2], view unknown"),
        ({"error": {"reason": "NO", "message": "it is not"}}, "refused: NO it is not"),
        ({"error": {}}, "refused"),
        ({"error": "so"}, "refused"),
        ({"unsupported": "views"}, "not offered: views"),
        ({"oh": 1}, '{"oh": 1}'),
        ({"shape": "x"}, "x"),
        ({"shape": [{}, [1]]}, "[0.., [1]]"),
    ],
    ids=repr,
)
def test_an_answer_is_a_line_whatever_it_is(answer: Json | None, text: str):
    assert write_answer(answer) == text


def test_what_is_long_is_cut():
    assert len(write_shape(list(range(100_000)))) < 500
    assert len(write_answer({"shape": [1], "bytes": "00" * 100_000})) < 1000
