"""Queries as text, and the position of a wrong item."""

import pytest

from explorations import HOSTILE
from tensor_reshape.explorer.query_parser import (
    MAX_TEXT_CHARACTERS,
    QueryText,
    WrongItem,
    find_wrong_item,
    parse_query,
)
from tensor_reshape.rules.dims import Dim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE


def reject(text: QueryText) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        parse_query(text)
    return caught.value


def test_explorer_link_contains_the_query():
    text = QueryText.of(b"data=N%2C4%2C2..8&shape=0,-1&special_zero=true&operation=reshape")
    question, explain = parse_query(text)
    assert (question.operation, question.special_zero, explain) == (RESHAPE, True, True)
    assert (question.data, question.target) == ((name_dim("N"), 4, Dim(Interval(2, 8))), (0, -1))


def test_explorer_link_omits_empty_fields():
    question, _ = parse_query(QueryText.of(b"data=2&shape=2&expected=%20"))
    assert (question.operation, question.special_zero) == (STATIC_RESHAPE, None)
    assert question.expected is None
    question, _ = parse_query(QueryText(expected="[]"))  # a scalar
    assert question.expected == ()


def test_explorer_link_parameters_may_be_unknown_or_repeated():
    assert QueryText.of(b"utm=1&_fields=2&data=1&data=2&__class__=3") == QueryText(data="2")


def test_malformed_explorer_link_becomes_an_empty_query_or_error():
    for query in (b"\xff\xfe=1", b"data=%ff%fe", b"&&==&;%", b"data", b"%", b"data=" + b"%f0" * 9):
        text = QueryText.of(query)
        assert isinstance(reject(text), InvalidRequestError) if text.data else text == QueryText(), query


@pytest.mark.parametrize(
    ("text", "reason", "item"),
    [
        (QueryText(data="2, x y,3"), Reason.DIM_SYNTAX_INVALID, WrongItem("data", 3, 6)),
        (QueryText(shape="[2,3-]"), Reason.DIM_SYNTAX_INVALID, WrongItem("shape", 3, 5)),
        (QueryText(shape="2,,3"), Reason.DIM_SYNTAX_INVALID, WrongItem("shape", 2, 2)),
        (QueryText(expected="1.5"), Reason.DIM_SYNTAX_INVALID, WrongItem("expected", 0, 3)),
        (QueryText(operation="Transpose"), Reason.OPERATION_UNSPECIFIED, WrongItem("operation")),
        (QueryText(special_zero="maybe"), Reason.MESSAGE_MALFORMED, WrongItem("special_zero")),
        (QueryText(shape=",".join("1" * 65)), Reason.RANK_UNSUPPORTED, WrongItem("shape")),
        (QueryText(data=",".join("1" * 65), operation="reshape"), Reason.RANK_LIMIT_EXCEEDED, WrongItem("data")),
        (QueryText(data="1" * (MAX_TEXT_CHARACTERS + 1)), Reason.HEADER_TOO_LARGE, WrongItem("data")),
    ],
)
def test_explorer_error_has_the_position_in_the_entered_text(text: QueryText, reason: Reason, item: WrongItem):
    error = reject(text)
    assert (error.reason, find_wrong_item(text, error)) == (reason, item)


def test_explorer_rejects_long_text_in_every_field():
    for name in QueryText._fields:
        error = reject(QueryText(**{name: "x" * 10_000}))
        assert (type(error), error.reason) == (LimitError, Reason.HEADER_TOO_LARGE), name


def test_error_with_an_unknown_field_marks_no_item():
    for field in ("", "data", "shape[7]", "shape[-1]", "items[0].shape", "shape[0", *HOSTILE[:3]):
        error = InvalidRequestError("", reason=Reason.NOT_DIVISIBLE, field=field)
        assert find_wrong_item(QueryText(shape="2,3"), error).start is None, field
