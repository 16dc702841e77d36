"""Dims that are known in part: bounds, names, and how they are written and checked."""

import pytest

from tensor_reshape.core.dims import (
    ANY,
    AnyDim,
    Bounds,
    Dim,
    Symbol,
    Term,
    check_partial_dims,
    find_bounds,
    find_name,
    format_dims,
    format_product,
    make_dim,
    make_term,
    name_dim,
)
from tensor_reshape.core.errors import InvalidRequestError, Reason

MAX = 2**63 - 1
N, M = Symbol("N"), Symbol("M")

# one, other, what both admit, the least that holds both
PAIRS: dict[str, tuple[Bounds, Bounds, Bounds, Bounds]] = {
    "overlapping": (Bounds(1, 4), Bounds(3, 8), Bounds(3, 4), Bounds(1, 8)),
    "one inside the other": (Bounds(0, 9), Bounds(2, 3), Bounds(2, 3), Bounds(0, 9)),
    "one is open": (Bounds(2, None), Bounds(0, 5), Bounds(2, 5), Bounds(0, None)),
    "both are open": (Bounds(2, None), Bounds(4, None), Bounds(4, None), Bounds(2, None)),
}


@pytest.mark.parametrize(("one", "other", "met", "_joined"), PAIRS.values(), ids=PAIRS.keys())
def test_bounds_meet_in_what_both_admit(one: Bounds, other: Bounds, met: Bounds, _joined: Bounds):
    assert (one.meet(other), other.meet(one)) == (met, met)


@pytest.mark.parametrize(("one", "other", "_met", "joined"), PAIRS.values(), ids=PAIRS.keys())
def test_bounds_join_to_what_either_admits(one: Bounds, other: Bounds, _met: Bounds, joined: Bounds):
    assert (one.join(other), other.join(one)) == (joined, joined)


def test_bounds_apart_meet_in_nothing():
    assert Bounds(0, 2).meet(Bounds(3, None)).is_empty


@pytest.mark.parametrize(("bounds", "value", "holds"), [((2, 3), 2, True), ((2, 3), 4, False), ((2, None), MAX, True)])
def test_bounds_hold_their_ends(bounds: tuple[int, int | None], value: int, holds: bool):
    assert Bounds(*bounds).holds(value) is holds


# bounds, term, dim
MADE: dict[str, tuple[Bounds, Term | None, AnyDim]] = {
    "one value is a number": (Bounds(4, 4), None, 4),
    "one value of a name is a number": (Bounds(4, 4), make_term(1, [N]), 4),
    "all values are an unknown dim": (ANY, None, None),
    "the largest dim bounds nothing": (Bounds(0, MAX), None, None),
    "more than the largest dim bounds nothing": (Bounds(2, MAX + 5), None, Dim(Bounds(2, None))),
    "a name of any value": (ANY, make_term(1, [N]), Dim(ANY, make_term(1, [N]))),
}


@pytest.mark.parametrize(("bounds", "term", "dim"), MADE.values(), ids=MADE.keys())
def test_a_dim_is_made_as_plain_as_it_can_be(bounds: Bounds, term: Term | None, dim: AnyDim):
    assert make_dim(bounds, term) == dim


TEXTS: dict[str, Term] = {
    "4*N": make_term(4, [N]),
    "M*N": make_term(1, [N, M]),
    "N^2/2": make_term(1, [N, N], 2),
    "N/(2*M)": make_term(1, [N], 2, [M]),
    "N/M": make_term(1, [N], 1, [M]),
    "6/N": make_term(6, [], 1, [N]),
}


@pytest.mark.parametrize(("text", "term"), TEXTS.items(), ids=TEXTS.keys())
def test_an_expression_is_written_as_people_do(text: str, term: Term):
    assert str(term) == text


def test_a_shape_is_written_as_people_do():
    assert format_dims([3, name_dim("N"), Dim(Bounds(2, 8)), Dim(Bounds(2, None)), None]) == "[3, N, 2..8, 2.., ?]"


def test_an_unknown_rank_is_written_as_dots():
    assert format_dims(None) == "[...]"


@pytest.mark.parametrize(
    ("dims", "text"),
    [([], "1"), ([2, 3], "6"), ([2, name_dim("N"), 3], "N*6"), ([None], "?"), ([Dim(Bounds(1, 2)), 2], "(1..2)*2")],
)
def test_a_product_is_written_with_its_known_part_last(dims: list[AnyDim], text: str):
    assert format_product(dims) == text


@pytest.mark.parametrize(("dim", "name"), [(name_dim("N"), "N"), (4, None), (None, None), (Dim(Bounds(1, 2)), None)])
def test_a_dim_of_one_symbol_has_its_name(dim: AnyDim, name: str | None):
    assert find_name(dim) == name


@pytest.mark.parametrize("text", TEXTS)
def test_a_dim_of_an_expression_has_no_name(text: str):
    assert find_name(Dim(ANY, TEXTS[text])) is None


@pytest.mark.parametrize(("dim", "bounds"), [(None, ANY), (4, Bounds(4, 4)), (name_dim("N", 2), Bounds(2, None))])
def test_a_dim_lies_between_its_bounds(dim: AnyDim, bounds: Bounds):
    assert find_bounds(dim) == bounds


REFUSALS: dict[str, tuple[AnyDim, Reason]] = {
    "negative": (-1, Reason.DIM_OUT_OF_RANGE),
    "too large": (MAX + 1, Reason.DIM_OUT_OF_RANGE),
    "a negative low": (Dim(Bounds(-1, 4)), Reason.DIM_OUT_OF_RANGE),
    "a high that is too large": (Dim(Bounds(0, MAX + 1)), Reason.DIM_OUT_OF_RANGE),
    "ends that are not in order": (Dim(Bounds(4, 3)), Reason.INTERVAL_EMPTY),
    "no symbol": (Dim(ANY, Term(4, ())), Reason.EXPRESSION_INVALID),
    "65 symbols": (Dim(ANY, Term(1, (N,) * 65)), Reason.EXPRESSION_INVALID),
    "a name of 65 characters": (name_dim("N" * 65), Reason.EXPRESSION_INVALID),
    "a name without characters": (name_dim(""), Reason.EXPRESSION_INVALID),
    "a name that does not print": (name_dim("N\n"), Reason.EXPRESSION_INVALID),
    "a coefficient of 0": (Dim(ANY, Term(0, (N,))), Reason.EXPRESSION_INVALID),
    "a divisor of 0": (Dim(ANY, Term(1, (N,), 0)), Reason.EXPRESSION_INVALID),
    "a coefficient that is too large": (Dim(ANY, Term(MAX + 1, (N,))), Reason.EXPRESSION_INVALID),
    "a symbol without a value": (Dim(ANY, Term(2, (Symbol("N", Bounds(3, 2)),))), Reason.INTERVAL_EMPTY),
}


@pytest.mark.parametrize(("dim", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_dim_is_refused(dim: AnyDim, reason: Reason):
    with pytest.raises(InvalidRequestError) as caught:
        check_partial_dims([1, dim], "data.dims")
    assert (caught.value.reason, caught.value.field) == (reason, "data.dims[1]")


def test_the_largest_dims_and_expressions_are_admitted():
    largest = Dim(Bounds(0, MAX), Term(MAX, (Symbol("N" * 64),) * 64, MAX))
    check_partial_dims([0, MAX, None, Dim(Bounds(MAX, MAX)), largest], "data.dims")
