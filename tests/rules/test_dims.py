"""Partially known dims: bounds, names, notation, and checks."""

import pytest

from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    check_dims,
    check_partial_dims,
    check_symbols,
    format_dims,
    format_product,
    make_expression,
    name_dim,
    read_unknown,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason

MAX = 2**63 - 1
N, M = Symbol("N"), Symbol("M")

# one, other, their intersection, the smallest interval that contains both
PAIRS: list[tuple[Interval, Interval, Interval, Interval]] = [
    (Interval(1, 4), Interval(3, 8), Interval(3, 4), Interval(1, 8)),
    (Interval(0, 9), Interval(2, 3), Interval(2, 3), Interval(0, 9)),
    (Interval(2, None), Interval(0, 5), Interval(2, 5), Interval(0, None)),
    (Interval(2, None), Interval(4, None), Interval(4, None), Interval(2, None)),
]


def test_interval_meet_intersects_and_join_covers_both():
    for one, other, met, joined in PAIRS:
        assert (one.meet(other), other.meet(one)) == (met, met)
        assert (one.join(other), other.join(one)) == (joined, joined)
    assert Interval(0, 2).meet(Interval(3, None)).is_empty


TEXTS: dict[str, Expression] = {
    "4*N": make_expression(4, [N]),
    "M*N": make_expression(1, [N, M]),
    "N^2/2": make_expression(1, [N, N], 2),
    "N/(2*M)": make_expression(1, [N], 2, [M]),
    "N/M": make_expression(1, [N], 1, [M]),
    "6/N": make_expression(6, [], 1, [N]),
    "4*(a + b)": make_expression(4, [Symbol("a + b")]),
    "2*'N*M'/'a b'^2": make_expression(2, [Symbol("N*M")], 1, [Symbol("a b")] * 2),
}


def test_dim_expressions_and_shapes_are_formatted_as_text():
    assert list(map(str, TEXTS.values())) == list(TEXTS)
    assert format_dims([3, name_dim("N"), Dim(Interval(2, 8)), Dim(Interval(2, None)), None]) == "[3, N, 2..8, 2.., ?]"
    assert format_dims(None) == "[...]"


def test_format_product_writes_numbers_last():
    products: dict[str, list[AnyDim]] = {
        "1": [],
        "6": [2, 3],
        "N*6": [2, name_dim("N"), 3],
        "?": [None],
        "(1..2)*2": [Dim(Interval(1, 2)), 2],
        "(a + b)*2": [name_dim("a + b"), 2],
    }
    assert list(map(format_product, products.values())) == list(products)


REJECTIONS: list[tuple[AnyDim, Reason]] = [
    (-1, Reason.DIM_OUT_OF_RANGE),
    (MAX + 1, Reason.DIM_OUT_OF_RANGE),
    (Dim(Interval(-1, 4)), Reason.DIM_OUT_OF_RANGE),
    (Dim(Interval(0, MAX + 1)), Reason.DIM_OUT_OF_RANGE),
    (Dim(Interval(4, 3)), Reason.INTERVAL_EMPTY),
    (Dim(ANY, Expression(4, ())), Reason.EXPRESSION_INVALID),
    (Dim(ANY, Expression(1, (N,) * 65)), Reason.EXPRESSION_INVALID),
    (name_dim("N" * 65), Reason.EXPRESSION_INVALID),
    (name_dim(""), Reason.EXPRESSION_INVALID),
    (name_dim("N\n"), Reason.EXPRESSION_INVALID),
    (Dim(ANY, Expression(0, (N,))), Reason.EXPRESSION_INVALID),
    (Dim(ANY, Expression(1, (N,), 0)), Reason.EXPRESSION_INVALID),
    (Dim(ANY, Expression(MAX + 1, (N,))), Reason.EXPRESSION_INVALID),
    (Dim(ANY, Expression(2, (Symbol("N", Interval(3, 2)),))), Reason.INTERVAL_EMPTY),
]


def test_invalid_dim_is_rejected():
    for dim, reason in REJECTIONS:
        with pytest.raises(InvalidRequestError) as caught:
            check_partial_dims([1, dim], "data.dims")
        assert (caught.value.reason, caught.value.field) == (reason, "data.dims[1]"), dim
        assert caught.value.metadata["index"] == "1", dim
        values = {Reason.INTERVAL_EMPTY: {"min", "max"}, Reason.DIM_OUT_OF_RANGE: {"value"}}.get(reason, set())
        assert caught.value.metadata.keys() == {"index", *values}, dim


def test_largest_valid_dims_and_expressions_are_accepted():
    largest = Dim(Interval(0, MAX), Expression(MAX, (Symbol("N" * 64),) * 64, MAX))
    check_partial_dims([0, MAX, None, Dim(Interval(MAX, MAX)), largest], "data.dims")
    assert check_dims((0, 1, MAX), "data.dims") == (0, 1, MAX)


def test_shape_query_may_have_256_symbols():
    dims = [name_dim(f"n{index}") for index in range(256)]
    check_symbols([4, None, *dims])
    with pytest.raises(InvalidRequestError) as caught:
        check_symbols([*dims, name_dim("n0")])
    assert (caught.value.reason, caught.value.metadata) == (
        Reason.EXPRESSION_INVALID,
        {"count": "257", "limit": "256"},
    )


def test_error_for_an_out_of_range_dim_has_field_path():
    for value in (-1, -(2**63), 2**63, 2**64):
        with pytest.raises(InvalidRequestError) as caught:
            check_dims((1, value), "output.dims")
        assert (caught.value.reason, caught.value.field) == (Reason.DIM_OUT_OF_RANGE, "output.dims[1]")
        assert caught.value.metadata == {"index": "1", "value": str(value)}


def test_only_minus_one_becomes_an_unknown_dim():
    assert read_unknown((-1, 4, None, -2, name_dim("N"))) == (None, 4, None, -2, name_dim("N"))
    assert (read_unknown((2, 3)), read_unknown(()), read_unknown(None)) == ((2, 3), (), None)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (Expression(4, (N, M), 3, ()), 24),
        (Expression(1, (N,), 1, (M,)), 2),
        (Expression(1, (M,), 1, (N,)), None),
        (Expression(1, (N,), 1, (Symbol("zero"),)), None),
        (Expression(5, ()), 5),
    ],
)
def test_expression_has_a_value_if_it_is_a_whole_number(expression: Expression, value: int | None):
    assert expression.evaluate({"N": 6, "M": 3, "zero": 0}) == value
