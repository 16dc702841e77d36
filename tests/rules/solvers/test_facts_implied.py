"""Conditions that other conditions imply."""

from tensor_reshape.rules.dims import ANY, Interval
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.solvers.equations import Range
from tensor_reshape.rules.solvers.facts import DIVIDES, EQUAL, RANGE, Found, drop_implied, find_implied, is_solved

DECLARED = [Range(0, MAX_DIM), Range(1, MAX_DIM), Range(0, MAX_DIM)]
A, B, C = range(3)


def bound(key: int, low: int, high: int | None) -> Found:
    return Found(RANGE, Product(1, (key,)), Interval(low, high))


def drop(*listed: Found) -> list[Found]:
    """Returns the conditions that are left."""
    implied = find_implied(listed, DECLARED)
    return [*drop_implied(listed, implied)]


def test_only_values_and_ranges_of_one_variable_are_solved():
    solved = [bound(A, 1, None), Found(EQUAL, Product(1, (A,), 7))]
    others = [
        Found(DIVIDES, Product(1, (A,), 2)),
        Found(EQUAL, Product(1, (A, B), 7)),
        Found(EQUAL, Product(1, (A,), 7, (B,))),
        Found(EQUAL, Product(1, (A,), 7), shared=(B,)),
    ]
    assert [is_solved(found) for found in (*solved, *others)] == [True, True, False, False, False, False]


def test_tightest_ends_are_listed_once():
    assert drop(bound(A, 1, 9), bound(A, 3, None), bound(A, 3, 8), bound(B, 2, 5)) == [
        bound(A, 3, None),
        bound(A, 0, 8),
        bound(B, 2, 5),
    ]


def test_value_replaces_the_ranges_of_a_variable():
    value = Found(EQUAL, Product(1, (A,), 7))
    assert drop(bound(A, 1, 9), value, value) == [value]


def test_product_with_elements_implies_a_lower_end_of_one():
    for product in (
        Found(EQUAL, Product(1, (A, C), 12)),
        Found(EQUAL, Product(1, (B,), 3, (A, C))),
        Found(DIVIDES, Product(4, (B,), 1, (A, C))),
    ):
        assert drop(bound(A, 1, None), bound(C, 1, 5), product) == [bound(C, 0, 5), product]


def test_product_that_may_be_empty_implies_nothing():
    for product in (
        Found(EQUAL, Product(1, (A,), 1, (C,))),
        Found(DIVIDES, Product(1, (C,), 1, (A,))),
        Found(EQUAL, Product(1, (A,), 12, (B,)), shared=(C,)),
    ):
        assert drop(bound(A, 1, None), product) == [bound(A, 1, None), product]


def test_relation_of_two_products_is_listed_once():
    equal, turned = Found(EQUAL, Product(2, (A, B), 3, (C,))), Found(EQUAL, Product(3, (C,), 2, (B, A)))
    assert drop(equal, turned) == [equal]
    multiple = Found(DIVIDES, Product(2, (B, A), 3, (C,)))
    assert drop(multiple, equal) == [equal]  # equal products divide each other
    assert drop(multiple, Found(DIVIDES, Product(3, (C,), 2, (A, B)))) != [multiple]


def test_relation_with_fewer_exceptions_replaces_the_others():
    often, seldom = (Found(EQUAL, Product(1, (A,), 1, (B,)), shared=shared) for shared in ((C,), (C, B)))
    assert drop(seldom, often) == drop(often, seldom) == [often]
    other = Found(EQUAL, Product(1, (A,), 1, (B,)), shared=(A,))
    assert drop(often, other) == [often, other]


def test_range_without_ends_is_not_listed():
    assert drop(bound(A, 0, None)) == []
    assert bound(A, 0, None).bounds == ANY
