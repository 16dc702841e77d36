"""Dims that are known in part: bounds, names, and how they are written and checked."""

from collections.abc import Callable

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
    find_bounds,
    find_name,
    format_dims,
    format_product,
    make_dim,
    make_expression,
    name_dim,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason

MAX = 2**63 - 1
N, M = Symbol("N"), Symbol("M")

# one, other, what both admit, the least that holds both
PAIRS: dict[str, tuple[Interval, Interval, Interval, Interval]] = {
    "overlapping": (Interval(1, 4), Interval(3, 8), Interval(3, 4), Interval(1, 8)),
    "one inside the other": (Interval(0, 9), Interval(2, 3), Interval(2, 3), Interval(0, 9)),
    "one is open": (Interval(2, None), Interval(0, 5), Interval(2, 5), Interval(0, None)),
    "both are open": (Interval(2, None), Interval(4, None), Interval(4, None), Interval(2, None)),
}


@pytest.mark.parametrize(("one", "other", "met", "_joined"), PAIRS.values(), ids=PAIRS.keys())
def test_bounds_meet_in_what_both_admit(one: Interval, other: Interval, met: Interval, _joined: Interval):
    assert (one.meet(other), other.meet(one)) == (met, met)


@pytest.mark.parametrize(("one", "other", "_met", "joined"), PAIRS.values(), ids=PAIRS.keys())
def test_bounds_join_to_what_either_admits(one: Interval, other: Interval, _met: Interval, joined: Interval):
    assert (one.join(other), other.join(one)) == (joined, joined)


def test_bounds_apart_meet_in_nothing():
    assert Interval(0, 2).meet(Interval(3, None)).is_empty


@pytest.mark.parametrize(("bounds", "value", "holds"), [((2, 3), 2, True), ((2, 3), 4, False), ((2, None), MAX, True)])
def test_bounds_hold_their_ends(bounds: tuple[int, int | None], value: int, holds: bool):
    assert Interval(*bounds).holds(value) is holds


# bounds, expression, dim
MADE: dict[str, tuple[Interval, Expression | None, AnyDim]] = {
    "one value is a number": (Interval(4, 4), None, 4),
    "one value of a name is a number": (Interval(4, 4), make_expression(1, [N]), 4),
    "all values are an unknown dim": (ANY, None, None),
    "the largest dim bounds nothing": (Interval(0, MAX), None, None),
    "more than the largest dim bounds nothing": (Interval(2, MAX + 5), None, Dim(Interval(2, None))),
    "a name of any value": (ANY, make_expression(1, [N]), Dim(ANY, make_expression(1, [N]))),
}


@pytest.mark.parametrize(("bounds", "expression", "dim"), MADE.values(), ids=MADE.keys())
def test_a_dim_is_made_as_plain_as_it_can_be(bounds: Interval, expression: Expression | None, dim: AnyDim):
    assert make_dim(bounds, expression) == dim


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


@pytest.mark.parametrize(("text", "expression"), TEXTS.items(), ids=TEXTS.keys())
def test_an_expression_is_written_as_people_do(text: str, expression: Expression):
    assert str(expression) == text


def test_a_shape_is_written_as_people_do():
    assert format_dims([3, name_dim("N"), Dim(Interval(2, 8)), Dim(Interval(2, None)), None]) == "[3, N, 2..8, 2.., ?]"


def test_an_unknown_rank_is_written_as_dots():
    assert format_dims(None) == "[...]"


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ([], "1"),
        ([2, 3], "6"),
        ([2, name_dim("N"), 3], "N*6"),
        ([None], "?"),
        ([Dim(Interval(1, 2)), 2], "(1..2)*2"),
        ([name_dim("a + b"), 2], "(a + b)*2"),
    ],
)
def test_a_product_is_written_with_its_known_part_last(dims: list[AnyDim], text: str):
    assert format_product(dims) == text


@pytest.mark.parametrize(("dim", "name"), [(name_dim("N"), "N"), (4, None), (None, None), (Dim(Interval(1, 2)), None)])
def test_a_dim_of_one_symbol_has_its_name(dim: AnyDim, name: str | None):
    assert find_name(dim) == name


@pytest.mark.parametrize("text", TEXTS)
def test_a_dim_of_an_expression_has_no_name(text: str):
    assert find_name(Dim(ANY, TEXTS[text])) is None


@pytest.mark.parametrize(("dim", "bounds"), [(None, ANY), (4, Interval(4, 4)), (name_dim("N", 2), Interval(2, None))])
def test_a_dim_lies_between_its_bounds(dim: AnyDim, bounds: Interval):
    assert find_bounds(dim) == bounds


@pytest.mark.parametrize("check", [check_dims, check_partial_dims])
def test_a_minus_one_is_told_how_an_unknown_dim_is_written(check: Callable[[list[int], str], object]):
    with pytest.raises(InvalidRequestError) as caught:
        check([2, -1], "data.dims")
    assert caught.value.message.endswith("; write None, or ? as text, where nothing is known of it")


REFUSALS: dict[str, tuple[AnyDim, Reason]] = {
    "negative": (-1, Reason.DIM_OUT_OF_RANGE),
    "too large": (MAX + 1, Reason.DIM_OUT_OF_RANGE),
    "a negative low": (Dim(Interval(-1, 4)), Reason.DIM_OUT_OF_RANGE),
    "a high that is too large": (Dim(Interval(0, MAX + 1)), Reason.DIM_OUT_OF_RANGE),
    "ends that are not in order": (Dim(Interval(4, 3)), Reason.INTERVAL_EMPTY),
    "no symbol": (Dim(ANY, Expression(4, ())), Reason.EXPRESSION_INVALID),
    "65 symbols": (Dim(ANY, Expression(1, (N,) * 65)), Reason.EXPRESSION_INVALID),
    "a name of 65 characters": (name_dim("N" * 65), Reason.EXPRESSION_INVALID),
    "a name without characters": (name_dim(""), Reason.EXPRESSION_INVALID),
    "a name that does not print": (name_dim("N\n"), Reason.EXPRESSION_INVALID),
    "a coefficient of 0": (Dim(ANY, Expression(0, (N,))), Reason.EXPRESSION_INVALID),
    "a divisor of 0": (Dim(ANY, Expression(1, (N,), 0)), Reason.EXPRESSION_INVALID),
    "a coefficient that is too large": (Dim(ANY, Expression(MAX + 1, (N,))), Reason.EXPRESSION_INVALID),
    "a symbol without a value": (Dim(ANY, Expression(2, (Symbol("N", Interval(3, 2)),))), Reason.INTERVAL_EMPTY),
}


@pytest.mark.parametrize(("dim", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_dim_is_refused(dim: AnyDim, reason: Reason):
    with pytest.raises(InvalidRequestError) as caught:
        check_partial_dims([1, dim], "data.dims")
    assert (caught.value.reason, caught.value.field) == (reason, "data.dims[1]")


def test_the_largest_dims_and_expressions_are_admitted():
    largest = Dim(Interval(0, MAX), Expression(MAX, (Symbol("N" * 64),) * 64, MAX))
    check_partial_dims([0, MAX, None, Dim(Interval(MAX, MAX)), largest], "data.dims")


@pytest.mark.parametrize("dims", [(), (0,), (MAX,), (0, 1, MAX)], ids=str)
def test_dims_from_0_to_the_largest_are_in_range(dims: tuple[int, ...]):
    assert check_dims(dims, "data.dims") == dims


@pytest.mark.parametrize("value", [-1, -(2**63), 2**63, 2**64], ids=str)
def test_a_dim_out_of_range_is_refused_by_its_name(value: int):
    with pytest.raises(InvalidRequestError) as caught:
        check_dims((1, value), "output.dims")
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_OUT_OF_RANGE, "output.dims[1]")
    assert caught.value.metadata == {"index": "1", "value": str(value)}
