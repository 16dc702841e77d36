"""Questions as texts, and what is to blame in them."""

import pytest

from explorations import HOSTILE
from tensor_reshape.rules.dims import Dim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.server.http.explorer.typed_questions import (
    MAX_TEXT_CHARACTERS,
    Blamed,
    TypedQuestion,
    find_blamed,
    read_question,
)


def refuse(typed: TypedQuestion) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        read_question(typed)
    return caught.value


def test_a_link_is_a_question():
    typed = TypedQuestion.of(b"data=N%2C4%2C2..8&shape=0,-1&special_zero=true&operation=reshape&strides=[8,2,1]")
    question, explain, strides = read_question(typed)
    assert (question.operation, question.special_zero, explain, strides) == (RESHAPE, True, True, (8, 2, 1))
    assert (question.data, question.target) == ((name_dim("N"), 4, Dim(Interval(2, 8))), (0, -1))


def test_what_a_link_does_not_say_is_not_asked():
    question, _, strides = read_question(TypedQuestion.of(b"data=2&shape=2&expected=&strides=%20"))
    assert (question.operation, question.special_zero) == (STATIC_RESHAPE, None)
    assert (question.expected, strides) == (None, None)


def test_brackets_with_nothing_in_them_are_the_shape_of_a_scalar():
    question, _, strides = read_question(TypedQuestion(expected="[]", strides="[]"))
    assert (question.expected, strides) == ((), ())


def test_names_of_others_in_a_link_say_nothing_and_the_last_of_two_counts():
    assert TypedQuestion.of(b"utm=1&_fields=2&data=1&data=2&__class__=3") == TypedQuestion(data="2")


@pytest.mark.parametrize("query", [b"\xff\xfe=1", b"data=%ff%fe", b"&&==&;%", b"data", b"%", b"data=" + b"%f0" * 9])
def test_a_link_of_any_bytes_is_a_question_or_refused(query: bytes):
    typed = TypedQuestion.of(query)
    assert isinstance(refuse(typed), InvalidRequestError) if typed.data else typed == TypedQuestion()


@pytest.mark.parametrize(
    ("typed", "reason", "blamed"),
    [
        (TypedQuestion(data="2, x y,3"), Reason.DIM_UNREADABLE, Blamed("data", 3, 6)),
        (TypedQuestion(shape="[2,3-]"), Reason.DIM_UNREADABLE, Blamed("shape", 3, 5)),
        (TypedQuestion(shape="2,,3"), Reason.DIM_UNREADABLE, Blamed("shape", 2, 2)),
        (TypedQuestion(expected="1.5"), Reason.DIM_UNREADABLE, Blamed("expected", 0, 3)),
        (TypedQuestion(strides="1,N"), Reason.DIM_UNREADABLE, Blamed("strides", 2, 3)),
        (TypedQuestion(operation="Transpose"), Reason.OPERATION_UNSPECIFIED, Blamed("operation")),
        (TypedQuestion(special_zero="maybe"), Reason.MESSAGE_MALFORMED, Blamed("special_zero")),
        (TypedQuestion(shape=",".join("1" * 65)), Reason.RANK_UNSUPPORTED, Blamed("shape")),
        (TypedQuestion(data=",".join("1" * 65), operation="reshape"), Reason.RANK_LIMIT_EXCEEDED, Blamed("data")),
        (TypedQuestion(data="1" * (MAX_TEXT_CHARACTERS + 1)), Reason.HEAD_TOO_LARGE, Blamed("data")),
    ],
)
def test_what_cannot_be_read_is_found_again_in_what_was_typed(typed: TypedQuestion, reason: Reason, blamed: Blamed):
    error = refuse(typed)
    assert (error.reason, find_blamed(typed, error)) == (reason, blamed)


@pytest.mark.parametrize("name", TypedQuestion._fields)
def test_no_text_is_longer_than_the_longest(name: str):
    error = refuse(TypedQuestion(**{name: "x" * 10_000}))
    assert (type(error), error.reason) == (LimitError, Reason.HEAD_TOO_LARGE)


@pytest.mark.parametrize("field", ["", "data", "shape[7]", "shape[-1]", "items[0].shape", "shape[0", *HOSTILE[:3]])
def test_a_field_that_is_none_of_the_question_blames_no_item(field: str):
    error = InvalidRequestError("", reason=Reason.NOT_DIVISIBLE, field=field)
    assert find_blamed(TypedQuestion(shape="2,3"), error).start is None
