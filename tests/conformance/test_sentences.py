"""Questions and answers in words."""

from conformance_runs import Json, make_question
from tensor_reshape.conformance.sentences import write_answer, write_question, write_shape

ANSWERS: list[tuple[Json | None, str]] = [
    (None, "-"),
    ({"shape": [2, None, {"min": 1, "max": 8}, {"min": 0, "max": None, "name": "N"}]}, "[2, ?, 1..8, N]"),
    ({"shape": [{"min": 1, "max": 8, "name": "N"}, {"max": 4}]}, "[N (1..8), 0..4]"),
    ({"shape": None}, "[...]"),
    (
        {"shape": [2], "view": {"possibility": "possible", "strides": [1]}, "bytes": "0a"},
        "[2], view possible [1], bytes 0a",
    ),
    ({"shape": [2], "view": {"possibility": "unknown"}}, "[2], view unknown"),
    ({"error": {"reason": "NO", "message": "it is not"}}, "rejected: NO it is not"),
    ({"error": {}}, "rejected"),
    ({"error": "so"}, "rejected"),
    ({"unsupported": "views"}, "not offered: views"),
    ({"oh": 1}, '{"oh": 1}'),
    ({"shape": "x"}, "x"),
    ({"shape": [{}, [1]]}, "[0.., [1]]"),
]


def test_question_is_a_line():
    plain = "reshape of [2, 3] to [-1], special_zero false"
    rows: list[tuple[Json, str]] = [
        ({}, plain),
        ({"data": None, "shape": ["N", [1, None]]}, "reshape of [...] to [N, 1..], special_zero false"),
        (
            {"expected": [None], "strides": [3, 1], "data_type": "u8", "bytes": "00"},
            f"{plain}, expected [?], strides [3, 1], data_type u8, bytes 00",
        ),
    ]
    for asked, text in rows:
        assert write_question(make_question(**asked).asked) == text
    assert write_question({"operation": "reshape", "data": [], "shape": []}) == "reshape of [] to []"


def test_any_result_fits_in_one_short_line():
    for answer, text in ANSWERS:
        assert write_answer(answer) == text, answer
    assert len(write_shape(list(range(100_000)))) < 500
    assert len(write_answer({"shape": [1], "bytes": "00" * 100_000})) < 1000
