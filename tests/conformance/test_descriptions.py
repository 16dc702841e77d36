"""Queries and answers in words."""

from conformance_runs import Json, make_case
from tensor_reshape.conformance.descriptions import describe_answer, describe_query, describe_shape

ANSWERS: list[tuple[Json | None, str]] = [
    (None, "-"),
    ({"shape": [2, None, {"min": 1, "max": 8}, {"min": 0, "max": None, "name": "N"}]}, "[2, ?, 1..8, N]"),
    ({"shape": [{"min": 1, "max": 8, "name": "N"}, {"max": 4}]}, "[N (1..8), 0..4]"),
    ({"shape": None}, "[...]"),
    (
        {"shape": [2], "bytes": "0a"},
        "[2], bytes 0a",
    ),
    ({"error": {"reason": "NO", "message": "it is not"}}, "rejected: NO it is not"),
    ({"error": {}}, "rejected"),
    ({"error": "so"}, "rejected"),
    ({"unsupported": "data"}, "not supported: data"),
    ({"oh": 1}, '{"oh": 1}'),
    ({"shape": "x"}, "x"),
    ({"shape": [{}, [1]]}, "[0.., [1]]"),
]


def test_conformance_query_is_described_on_one_line():
    plain = "reshape of [2, 3] to [-1], special_zero false"
    rows: list[tuple[Json, str]] = [
        ({}, plain),
        ({"data": None, "shape": ["N", [1, None]]}, "reshape of [...] to [N, 1..], special_zero false"),
        (
            {"expected": [None], "strides": [3, 1], "data_type": "u8", "bytes": "00"},
            f"{plain}, expected [?], strides [3, 1], data_type u8, bytes 00",
        ),
    ]
    for query, text in rows:
        assert describe_query(make_case(**query).query) == text
    assert describe_query({"operation": "reshape", "data": [], "shape": []}) == "reshape of [] to []"


def test_conformance_answer_is_described_on_one_short_line():
    for answer, text in ANSWERS:
        assert describe_answer(answer) == text, answer
    assert len(describe_shape(list(range(100_000)))) < 500
    assert len(describe_answer({"shape": [1], "bytes": "00" * 100_000})) < 1000
