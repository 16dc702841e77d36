"""Rule 3: the -1 is what the other items leave of the volume; Reshape-1 takes copies out of both first."""

from math import prod

import pytest
from hypothesis import given, settings

from shape_questions import operations, questions, small_dims
from tensor_reshape.rules.dims import Dim, Interval, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from written_questions import (
    Dims,
    KnownRefusal,
    PartialRefusal,
    answer_or_refusal,
    ask,
    ask_known,
    check_known_refusal,
    check_partial_refusal,
    read_shape,
    refuse_known,
)

EVERY = tuple(OPERATIONS.values())
GRAPH = (STATIC_RESHAPE, DYNAMIC_RESHAPE)
MAX = 2**63 - 1


# data, target, special_zero, output: the same for all operations
TRUTHS: dict[str, tuple[Dims, Dims, bool, Dims]] = {
    "a scalar is flattened": ((), (-1,), False, (1,)),
    "a scalar is flattened among ones": ((), (1, -1, 1), True, (1, 1, 1)),
    "-1 alone flattens": ((2, 3, 4), (-1,), False, (24,)),
    "-1 first": ((2, 3, 4), (-1, 4), False, (6, 4)),
    "-1 in the middle": ((2, 3, 4), (2, -1, 2), False, (2, 6, 2)),
    "-1 last": ((2, 3, 4), (8, -1), True, (8, 3)),
    "-1 may be 1": ((2, 3), (2, 3, -1), False, (2, 3, 1)),
    "copy and infer": ((3, 4, 5), (0, -1), True, (3, 20)),
    "infer and copy": ((3, 1, 1), (-1, 0), True, (3, 1)),
    "copy in the middle": ((2, 3, 4), (-1, 3, 1, 2), True, (4, 3, 1, 2)),
    "empty data flattened": ((0, 3), (-1,), False, (0,)),
    "empty data, -1 beside 3": ((0, 3), (3, -1), False, (3, 0)),
    "empty data, -1 beside 3, special_zero": ((0, 3), (3, -1), True, (3, 0)),
    "empty data, copy and infer the 0": ((3, 0), (0, -1), True, (3, 0)),
    "the largest dim inferred": ((7, MAX), (-1, 7), False, (MAX, 7)),
    "a volume beyond 64 bits": ((MAX, MAX), (MAX, -1), False, (MAX, MAX)),
    "a volume beyond double precision": ((2**53 + 1, 3), (3, -1), False, (3, 2**53 + 1)),
    "a volume beyond 128 bits": ((MAX, MAX, MAX), (MAX, -1, MAX), True, (MAX, MAX, MAX)),
    "twelve dims of 2^62": ((2**62,) * 12, (0,) * 11 + (-1,), True, (2**62,) * 12),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "special_zero", "output"), TRUTHS.values(), ids=TRUTHS.keys())
def test_a_minus_one_is_the_quotient(operation: Operation, data: Dims, target: Dims, special_zero: bool, output: Dims):
    assert ask_known(operation, data, target, special_zero) == output


# data, target, special_zero, output: the same for all operations
PARTIAL_TRUTHS: dict[str, tuple[str | None, str | None, bool, str | None]] = {
    "a known -1": ("2 3", "-1", False, "6"),
    "an interval is flattened": ("1..3 4", "-1", False, "4..12"),
    "an unknown dim may be 0": ("? 4", "-1", False, "?"),
    "copy and infer": ("1 1..3 3 1..6", "0 -1 3", True, "1 1..18 3"),
    "the known dims cancel": ("? 1 2", "-1 2", False, "? 2"),
    "a quotient is rounded inwards": ("2..4 2 2..6 1 3", "-1 12 2", False, "1..6 12 2"),
    "an unknown rank": (None, "3 -1 2", False, "3 ? 2"),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("data", "target", "special_zero", "output"), PARTIAL_TRUTHS.values(), ids=PARTIAL_TRUTHS.keys()
)
def test_a_minus_one_lies_where_the_quotients_do(
    operation: Operation, data: str | None, target: str | None, special_zero: bool, output: str | None
):
    assert ask(operation, data, target, special_zero) == read_shape(output)


# Where an item is copied and a 0 leaves both sides with it, only Reshape-1 can infer.
CANCELLED: dict[str, tuple[Dims, Dims, Dims]] = {
    "the copied 0 is the only one": ((4, 0, 2), (-1, 0), (8, 0)),
    "the copied 0 comes first": ((0, 3, 4), (0, -1), (0, 12)),
    "two copied zeros": ((0, 0, 5), (0, 0, -1), (0, 0, 5)),
    "another 0 is inferred": ((0, 0, 5), (0, -1), (0, 0)),
    "the copied 0 in the middle": ((2, 0, 3), (3, 0, -1), (3, 0, 2)),
    "a copied 0 is all there is": ((0,), (0, -1), (0, 1)),
}


@pytest.mark.parametrize(("data", "target", "output"), CANCELLED.values(), ids=CANCELLED.keys())
def test_reshape_infers_beside_a_copied_zero(data: Dims, target: Dims, output: Dims):
    assert ask_known(RESHAPE, data, target, special_zero=True) == output


@pytest.mark.parametrize("operation", GRAPH, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "_"), CANCELLED.values(), ids=CANCELLED.keys())
def test_the_graph_operations_cannot_infer_beside_a_copied_zero(
    operation: Operation, data: Dims, target: Dims, _: Dims
):
    with pytest.raises(InvalidRequestError, match="product 0"):
        ask_known(operation, data, target, special_zero=True)


# data, target, special_zero; reason, field, a part of the metadata: the same for all operations
REFUSALS: dict[str, KnownRefusal] = {
    'a literal 0 beside -1': (
        (3, 4, 5), (0, -1), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[1]", {"index": "1", "value": "-1"}
    ),
    '-1 beside a literal 0 on empty data': (
        (0, 4, 5), (-1, 0), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[0]", {"index": "0"}
    ),
    'a literal 0 beside -1 on data of (0)': (
        (0,), (0, -1), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[1]", {"index": "1"}
    ),
    'no divisor': (
        (2, 3), (4, -1), False,
        Reason.NOT_DIVISIBLE, "shape[1]", {"index": "1", "dividend": "6", "divisor": "4"},
    ),
    'no divisor of one': ((), (2, -1), True, Reason.NOT_DIVISIBLE, "shape[1]", {"dividend": "1", "divisor": "2"}),
    'no divisor by 1 beyond 64 bits': (
        (MAX, MAX), (2, -1), False, Reason.NOT_DIVISIBLE, "shape[1]", {"dividend": str(MAX * MAX), "divisor": "2"}
    ),
    'no divisor by 1 beyond double precision': (
        (2**53 + 1,), (2, -1), False, Reason.NOT_DIVISIBLE, "shape[1]", {"dividend": "9007199254740993"}
    ),
    'an inferred dim of 2^63': ((2**62, 2), (-1,), False, Reason.DIM_OVERFLOW, "shape[0]", {"dim": str(2**63)}),
    'an inferred dim that wraps to 0 in 64 bits': (
        (2**32, 2**32), (1, -1), True, Reason.DIM_OVERFLOW, "shape[1]", {"index": "1", "dim": str(2**64)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_minus_one_is_refused(operation: Operation, row: KnownRefusal):
    check_known_refusal(operation, row)


# data, target, special_zero, expected; reason, field
PARTIAL_REFUSALS: dict[str, PartialRefusal] = {
    "a literal 0 beside a -1": ("?", "0 -1", False, None, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[1]"),
    "a remainder": ("7 1..2", "-1 5", False, None, Reason.NOT_DIVISIBLE, "shape[0]"),
    "a dim that no s64 holds": (f"{2**62}..{2**62 + 9} 4", "-1", False, None, Reason.DIM_OVERFLOW, "shape[0]"),
}


@pytest.mark.parametrize("row", PARTIAL_REFUSALS.values(), ids=PARTIAL_REFUSALS.keys())
def test_a_minus_one_without_a_quotient_is_refused(row: PartialRefusal):
    check_partial_refusal(row)


def test_reshape_divides_what_the_copies_leave():
    error = refuse_known(RESHAPE, (4, 0, 2), (3, 0, -1), special_zero=True)
    assert (error.reason, error.metadata["dividend"], error.metadata["divisor"]) == (Reason.NOT_DIVISIBLE, "8", "3")


def test_reshape_cannot_infer_beside_a_copied_dim_that_overflows():
    assert refuse_known(RESHAPE, (0, 2**62, 2), (0, -1), special_zero=True).reason == Reason.DIM_OVERFLOW


def test_the_graph_operations_divide_the_whole_volume():
    error = refuse_known(STATIC_RESHAPE, (4, 3, 2), (7, 0, -1), special_zero=True)
    assert (error.metadata["dividend"], error.metadata["divisor"]) == ("24", "21")


def test_a_copy_of_0_beside_a_minus_one_is_a_product_of_0_for_the_graph_operations():
    error = refuse_known(DYNAMIC_RESHAPE, (4, 0, 2), (-1, 0), special_zero=True)
    assert (error.reason, error.field) == (Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[0]")


@pytest.mark.parametrize(("data", "target"), [("0 1..3", "0 -1"), ("0..4 0", "0 0 -1"), ("0..0 ?", "0 -1")])
def test_a_copy_of_0_is_blamed_whatever_is_not_known_beside_it(data: str, target: str):
    with pytest.raises(InvalidRequestError) as refused:
        ask(STATIC_RESHAPE, data, target, True)
    assert refused.value.reason == Reason.MINUS_ONE_WITH_ZERO_VOLUME


def test_copies_of_a_dim_that_may_be_0_cancel_in_reshape():
    assert ask(RESHAPE, "4 0..1 2", "-1 0", True) == read_shape("8 0..1")


def test_copies_of_a_dim_that_may_be_0_divide_in_static_reshape():
    assert ask(STATIC_RESHAPE, "4 0..1 2", "-1 0", True) == [8, 1]


def test_huge_bounds_stay_exact():
    assert ask(RESHAPE, f"{2**61}..{2**61 + 1} 2", "-1", False) == [Dim(Interval(2**62, 2**62 + 2))]


def test_a_bound_above_the_largest_dim_is_none():
    assert ask(RESHAPE, f"1..{MAX} 1..{MAX}", "-1", False) == [Dim(Interval(1, None))]


def test_the_largest_rank_of_unknown_dims_is_answered():
    assert ask(RESHAPE, "? " * 64, "0 " * 63 + "-1", True) == [None] * 64


def test_the_largest_rank_of_copies_that_divide_is_answered():
    assert ask(STATIC_RESHAPE, "? " * 12, "0 " * 11 + "-1", True) == [Dim(Interval(1, None))] * 11 + [None]


def test_what_divides_is_not_0():
    dims = infer(Question(RESHAPE, read_shape("N 6/N"), read_shape("0 0"), special_zero=True)).dims
    assert [find_bounds(dim) for dim in dims or ()] == [Interval(1, None), Interval(1, 6)]


@settings(deadline=None)
@given(operations, small_dims)
def test_a_minus_one_alone_is_the_volume(operation: Operation, data: Dims):
    assert ask_known(operation, data, (-1,), special_zero=False) == (prod(data),)


@settings(deadline=None)
@given(questions())
def test_static_and_dynamic_reshape_agree(question: tuple[Dims, Dims, bool]):
    assert answer_or_refusal(STATIC_RESHAPE, *question) == answer_or_refusal(DYNAMIC_RESHAPE, *question)


@settings(deadline=None)
@given(questions())
def test_reshape_agrees_with_static_reshape_unless_a_dim_of_0_is_copied_beside_a_minus_one(
    question: tuple[Dims, Dims, bool],
):
    data, target, special_zero = question
    copies_zero = special_zero and any(item == 0 for item, dim in zip(target, data, strict=False) if dim == 0)
    if not (copies_zero and -1 in target):
        assert answer_or_refusal(RESHAPE, *question) == answer_or_refusal(STATIC_RESHAPE, *question)
