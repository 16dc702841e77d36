"""Questions as texts, and the part of a text that a rejection blames."""

import pytest

from explorations import HOSTILE
from tensor_reshape.explorer.typed_questions import (
    MAX_TEXT_CHARACTERS,
    Blamed,
    TypedQuestion,
    find_blamed,
    read_question,
)
from tensor_reshape.rules.dims import Dim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE


def reject(typed: TypedQuestion) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        read_question(typed)
    return caught.value


def test_link_contains_the_query():
    typed = TypedQuestion.of(b"data=N%2C4%2C2..8&shape=0,-1&special_zero=true&operation=reshape&strides=[8,2,1]")
    question, explain, strides = read_question(typed)
    assert (question.operation, question.special_zero, explain, strides) == (RESHAPE, True, True, (8, 2, 1))
    assert (question.data, question.target) == ((name_dim("N"), 4, Dim(Interval(2, 8))), (0, -1))


def test_empty_fields_of_a_link_are_omitted():
    question, _, strides = read_question(TypedQuestion.of(b"data=2&shape=2&expected=&strides=%20"))
    assert (question.operation, question.special_zero) == (STATIC_RESHAPE, None)
    assert (question.expected, strides) == (None, None)
    question, _, strides = read_question(TypedQuestion(expected="[]", strides="[]"))  # of a scalar
    assert (question.expected, strides) == ((), ())


def test_unknown_names_in_a_link_are_ignored_and_the_last_value_counts():
    assert TypedQuestion.of(b"utm=1&_fields=2&data=1&data=2&__class__=3") == TypedQuestion(data="2")


def test_any_link_is_a_query_or_an_error():
    for query in (b"\xff\xfe=1", b"data=%ff%fe", b"&&==&;%", b"data", b"%", b"data=" + b"%f0" * 9):
        typed = TypedQuestion.of(query)
        assert isinstance(reject(typed), InvalidRequestError) if typed.data else typed == TypedQuestion(), query


@pytest.mark.parametrize(
    ("typed", "reason", "blamed"),
    [
        (TypedQuestion(data="2, x y,3"), Reason.DIM_SYNTAX_INVALID, Blamed("data", 3, 6)),
        (TypedQuestion(shape="[2,3-]"), Reason.DIM_SYNTAX_INVALID, Blamed("shape", 3, 5)),
        (TypedQuestion(shape="2,,3"), Reason.DIM_SYNTAX_INVALID, Blamed("shape", 2, 2)),
        (TypedQuestion(expected="1.5"), Reason.DIM_SYNTAX_INVALID, Blamed("expected", 0, 3)),
        (TypedQuestion(strides="1,N"), Reason.DIM_SYNTAX_INVALID, Blamed("strides", 2, 3)),
        (TypedQuestion(operation="Transpose"), Reason.OPERATION_UNSPECIFIED, Blamed("operation")),
        (TypedQuestion(special_zero="maybe"), Reason.MESSAGE_MALFORMED, Blamed("special_zero")),
        (TypedQuestion(shape=",".join("1" * 65)), Reason.RANK_UNSUPPORTED, Blamed("shape")),
        (TypedQuestion(data=",".join("1" * 65), operation="reshape"), Reason.RANK_LIMIT_EXCEEDED, Blamed("data")),
        (TypedQuestion(data="1" * (MAX_TEXT_CHARACTERS + 1)), Reason.HEADER_TOO_LARGE, Blamed("data")),
    ],
)
def test_error_position_is_in_the_entered_text(typed: TypedQuestion, reason: Reason, blamed: Blamed):
    error = reject(typed)
    assert (error.reason, find_blamed(typed, error)) == (reason, blamed)


def test_long_text_is_rejected_in_every_field():
    for name in TypedQuestion._fields:
        error = reject(TypedQuestion(**{name: "x" * 10_000}))
        assert (type(error), error.reason) == (LimitError, Reason.HEADER_TOO_LARGE), name


def test_unknown_field_blames_no_item():
    for field in ("", "data", "shape[7]", "shape[-1]", "items[0].shape", "shape[0", *HOSTILE[:3]):
        error = InvalidRequestError("", reason=Reason.NOT_DIVISIBLE, field=field)
        assert find_blamed(TypedQuestion(shape="2,3"), error).start is None, field
