"""The results of a run, and queries and answers in words."""

from conformance_runs import (
    BECAUSE,
    HOSTILE,
    UNRANKED,
    Json,
    make_case,
    make_mixed_results,
    make_results,
    write_question,
    write_shape,
    write_tensor,
)
from tensor_reshape.conformance.results import describe_answer, describe_query
from tensor_reshape.conformance.verdicts import CaseVerdict

RESULTS = make_mixed_results()

ANSWERS: list[tuple[Json | None, str]] = [
    (None, "-"),
    (write_shape(2, None, (1, 8), "N"), "[2, ?, 1..8, N]"),
    (write_shape("N:1..8", (0, 4), "4*C"), "[N (1..8), 0..4, 4*C]"),
    (write_shape(), "[]"),
    (UNRANKED, "[...]"),
    ({"output": write_tensor("DATA_TYPE_U8", [1], b"\x0a")}, "[1], bytes 0a"),
    ({"rejection": {"reason": "NO", "message": "it is not"}}, "rejected: NO it is not"),
    ({"rejection": {}}, "rejected"),
    ({"rejection": "so"}, "rejected"),
    ({"unsupported": "data"}, "not supported: data"),
    ({"oh": 1}, '{"oh": 1}'),
    ({"answer": {"shape": "x"}}, '{"answer": {"shape": "x"}}'),
    (
        write_shape(2, conditions=[{"kind": "KIND_EQUAL", "left": {"factors": [{"name": "N"}]}, "right": {}}]),
        '[2], conditions ["N = 1"]',
    ),
]


def test_conformance_answers_are_counted_by_rule_and_verdict():
    assert RESULTS.counts["inferred"] == {"agrees": 2, "crash": 1, "hang": 1, "wrong_shape": 2}
    assert [RESULTS.count(verdict) for verdict in (CaseVerdict.AGREES, CaseVerdict.CRASH, CaseVerdict.WRONG_BYTES)] == [
        2,
        1,
        0,
    ]
    assert RESULTS.unsupported == {"no such thing": 1}
    assert "partial/not-supported@reshape" not in {one.id for one in RESULTS.differences}


def test_conformance_difference_has_the_query_and_both_answers():
    (one,) = make_results((make_case(), {"id": "inferred/six@reshape", **write_shape(7)})).differences
    assert one._asdict() == {
        "id": "inferred/six@reshape",
        "rule": "inferred",
        "verdict": "wrong_shape",
        "why": "dimension 0 is 7, not 6",
        "query": {"question": write_question()},
        "right": write_shape(6),
        "answer": write_shape(7),
        "because": BECAUSE,
    }
    assert one.describe() == [
        "  case     reshape of [2, 3] to [-1], special_zero false",
        "  expected [6]",
        "  answer   [7]",
        "  differs  dimension 0 is 7, not 6",
        f"  because  {BECAUSE}",
    ]


def test_crash_is_described_without_an_answer():
    (crash,) = [one for one in RESULTS.differences if one.verdict is CaseVerdict.CRASH]
    assert [line.split()[0] for line in crash.describe()] == ["case", "expected", "differs", "because"]
    assert crash.why == f"SIGSEGV: {HOSTILE}"


def test_conformance_query_is_described_on_one_line():
    plain = "reshape of [2, 3] to [-1], special_zero false"
    tensor = write_tensor("DATA_TYPE_U8", [2, 3], b"\0", strides=[3, 1])
    rows = [
        (make_case(), plain),
        (
            make_case(data_shape=None, shape=["N", (1, None), None, -1]),
            "reshape of [...] to [N, 1.., ?, -1], special_zero false",
        ),
        (make_case(expected_shape=[None], data_type="u8"), f"{plain}, expected [?], data_type u8"),
        (make_case(tensor=tensor), f"{plain}, strides [3, 1], data_type u8, bytes 00"),
    ]
    for case, text in rows:
        assert describe_query(case.query) == text
    question: Json = {"operation": "OPERATION_RESHAPE", "data": {"shape": {}}}
    assert describe_query({"question": question}) == "reshape of [] to [...]"


def test_number_of_more_than_64_bits_is_described():
    shape = {"items": [2**64]}
    question: Json = {"operation": "OPERATION_RESHAPE", "data": {"shape": {"dims": [2**63]}}, "shape": shape}
    assert describe_query({"question": question}) == f"reshape of [{2**63}] to [{2**64}]"


def test_conformance_answer_is_described_on_one_short_line():
    for answer, text in ANSWERS:
        assert describe_answer(answer) == text, answer
    assert len(describe_answer(write_shape(*range(4000)))) < 500
    long = {"output": write_tensor("DATA_TYPE_U8", [1], bytes(100_000))}
    assert len(describe_answer(long)) < 1000
