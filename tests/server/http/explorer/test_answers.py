"""What the page shows of a question."""

import json
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given, settings

from explorations import HOSTILE_QUESTIONS, LISTEN, SERVICE, TYPED_QUESTIONS, show
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, PermissionDeniedError, Reason, ReshapeError
from tensor_reshape.server.http.explorer.answers import answer_typed
from tensor_reshape.server.http.explorer.typed_questions import TypedQuestion


def test_an_answer_says_where_each_dim_comes_from():
    answer = show(TypedQuestion("N,4,2..8", "0,-1", special_zero="true"))["answer"]
    assert answer["text"] == "[N, 8..32]"
    assert answer["dims"][1] == {
        "text": "8..32",
        "kind": "inferred",
        "origin": "shape[1] is -1: N*(2..8)*4 / N = 8..32",
    }
    assert (answer["equalities"], answer["view"]) == ([], None)


def test_an_answer_says_what_else_must_hold():
    answer = show(TypedQuestion("N,C", "M,C", special_zero="false"))["answer"]
    assert answer["equalities"] == ["N = M unless the tensor is empty"]


def test_an_answer_says_whether_the_output_can_be_a_view():
    answer = show(TypedQuestion("2,3", "6", special_zero="false", strides="3,1"))["answer"]
    assert answer["view"] == {"possibility": "possible", "strides": ["1"]}


def test_a_rank_that_is_unknown_is_an_answer():
    answer = show(TypedQuestion("2,3", "...", special_zero="false"))["answer"]
    assert (answer["text"], answer["dims"]) == ("[...]", [])


@pytest.mark.parametrize(
    ("typed", "reason", "blamed", "accepted"),
    [
        (TypedQuestion("2,3,4", "5,-1", special_zero="false"), "NOT_DIVISIBLE", ("shape", 2, 4), "4 and 6"),
        (TypedQuestion("2,3", "4, 2", special_zero="false"), "VOLUME_MISMATCH", ("shape", None, None), "product is 6"),
        (TypedQuestion("2,3", "6"), "SPECIAL_ZERO_MISSING", ("special_zero", None, None), "true or false"),
        (TypedQuestion("N:5..2", "-1", "reshape", "true"), "INTERVAL_EMPTY", ("data", 0, 6), "in order"),
        (
            TypedQuestion("2", "2", special_zero="true", strides="1,2"),
            "STRIDES_RANK_MISMATCH",
            ("strides", None, None),
            "",
        ),
        (TypedQuestion("2,3", "-1", "", "true", "[2, 3]"), "EXPECTED_SHAPE_MISMATCH", ("expected", None, None), ""),
        (TypedQuestion(f"{2**70}", "-1", "", "true"), "DIM_OUT_OF_RANGE", ("data", 0, 22), "a dim from 0"),
        (TypedQuestion(f"N,{2**63}..", "-1", "", "true"), "DIM_OUT_OF_RANGE", ("data", 2, 23), "a dim from 0"),
        (TypedQuestion("2,3", f"-1,{2**99}*N", "", "true"), "EXPRESSION_INVALID", ("shape", 3, 35), "numbers from 1"),
    ],
)
def test_a_refusal_names_what_is_to_blame_and_what_is_accepted(
    typed: TypedQuestion, reason: str, blamed: tuple[str, int | None, int | None], accepted: str
):
    record = show(typed)
    refusal = record["refusal"]
    assert (refusal["reason"], tuple(refusal["blamed"].values())) == (reason, blamed)
    assert accepted in refusal["accepted"]
    assert "answer" not in record


def test_what_cannot_be_read_is_neither_drawn_nor_written_as_code():
    assert list(show(TypedQuestion("x y", "1", special_zero="true"))) == ["refusal"]


@pytest.mark.parametrize(
    "error",
    [
        LimitError("full", reason=Reason.SERVER_BUSY),
        LimitError("many", reason=Reason.QUOTA_EXCEEDED),
        PermissionDeniedError("no", reason=Reason.PERMISSION_DENIED),
        ReshapeError("internal error", reason=Reason.INTERNAL_ERROR),
    ],
)
def test_a_refusal_of_the_call_is_none_of_the_question(error: ReshapeError):
    def refuse(_raw: bytes) -> bytes:
        raise error

    with pytest.raises(type(error)) as caught:
        answer_typed(TypedQuestion("2", "2", special_zero="true"), refuse, LISTEN)
    assert caught.value is error


def test_a_limit_of_the_server_is_said_of_the_question():
    error = LimitError("8 items", reason=Reason.RANK_LIMIT_EXCEEDED, field="shape")

    def refuse(_raw: bytes) -> bytes:
        raise error

    record = answer_typed(TypedQuestion("2", "2", special_zero="true"), refuse, LISTEN)
    assert (record["refusal"]["reason"], record["refusal"]["blamed"]["name"]) == ("RANK_LIMIT_EXCEEDED", "shape")


@settings(max_examples=50, deadline=None)
@given(TYPED_QUESTIONS)
def test_the_service_decides(typed: TypedQuestion):
    asked: list[bytes] = []

    def infer(raw: bytes) -> bytes:
        asked.append(raw)
        return SERVICE.infer(raw)

    record = answer_typed(typed, infer, LISTEN)
    assert ("answer" in record) != ("refusal" in record)
    assert "answer" not in record or len(asked) == 1
    if "drawing" in record:
        fromstring(record["drawing"])


@settings(max_examples=50, deadline=None)
@given(HOSTILE_QUESTIONS)
def test_texts_of_any_kind_are_answered_or_refused_in_good_form(typed: TypedQuestion):
    try:
        record = show(typed)
    except InvalidRequestError as error:
        raise AssertionError from error
    text = json.dumps(record)
    assert len(text) < 1_000_000
    if "drawing" in record:
        names = {element.tag.rpartition("}")[2] for element in fromstring(record["drawing"]).iter()}
        assert not names & {"script", "style", "image", "foreignObject", "a", "use"}
