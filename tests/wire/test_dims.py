"""Dims of every kind round-trip, in a shape and in a requested shape."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import BOUNDS, DIMS, TERMS
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_RANK
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, ONNX_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import (
    decode_dims,
    decode_expected,
    decode_expression,
    decode_shape,
    decode_target,
    encode_expression,
    encode_shape,
    encode_target,
)

MAX = 2**63 - 1
N = Symbol("N")
UNKNOWN = tensor_pb2.PartialDim(index=0)


# a dim; its entry in `partial`
KINDS: dict[str, tuple[Dim, tensor_pb2.PartialDim]] = {
    "an interval": (Dim(Interval(2, 8)), tensor_pb2.PartialDim(index=0, interval=tensor_pb2.Interval(min=2, max=8))),
    "from 0 to 0": (Dim(Interval(0, 0)), tensor_pb2.PartialDim(index=0, interval=tensor_pb2.Interval(max=0))),
    "unbounded": (Dim(Interval(2, None)), tensor_pb2.PartialDim(index=0, interval=tensor_pb2.Interval(min=2))),
    "from 0": (Dim(ANY), tensor_pb2.PartialDim(index=0, interval=tensor_pb2.Interval())),
    "no name": (name_dim(""), tensor_pb2.PartialDim(index=0, symbol=tensor_pb2.Symbol())),
    "a name with empty bounds": (
        name_dim("N", 0, 0),
        tensor_pb2.PartialDim(index=0, symbol=tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(max=0))),
    ),
    "a name": (name_dim("N"), tensor_pb2.PartialDim(index=0, symbol=tensor_pb2.Symbol(name="N"))),
    "a bounded name": (
        name_dim("N", 1, 8),
        tensor_pb2.PartialDim(index=0, symbol=tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(min=1, max=8))),
    ),
    "a product": (
        Dim(Interval(4, 8), Expression(4, (N,))),
        tensor_pb2.PartialDim(
            index=0,
            expression=tensor_pb2.Expression(
                coefficient=4, factors=[tensor_pb2.Symbol(name="N")], bounds=tensor_pb2.Interval(min=4, max=8)
            ),
        ),
    ),
    "a power over a product": (
        Dim(ANY, Expression(1, (N, N), 2, (Symbol("M"),))),
        tensor_pb2.PartialDim(
            index=0,
            expression=tensor_pb2.Expression(
                factors=[tensor_pb2.Symbol(name="N"), tensor_pb2.Symbol(name="N")],
                divisor=2,
                divisors=[tensor_pb2.Symbol(name="M")],
            ),
        ),
    ),
}


def read_shape(dims: list[int], *partial: tensor_pb2.PartialDim) -> list[AnyDim]:
    return decode_dims(tensor_pb2.Shape(dims=dims, partial=partial), "data.dims")


def read_target(items: list[int], *partial: tensor_pb2.PartialDim) -> list[AnyDim]:
    return decode_target(RESHAPE, reshape_pb2.TargetShape(items=items, partial=partial))


def test_dim_encoding_matches_the_proto_definition():
    for name, (dim, entry) in KINDS.items():
        assert encode_shape([dim]) == tensor_pb2.Shape(dims=[-1], partial=[entry]), name
        assert encode_target([dim]) == reshape_pb2.TargetShape(items=[-1], partial=[entry]), name
        assert read_shape([-1], entry) == read_target([-1], entry) == [dim], name


def test_minus_one_is_unknown_in_a_shape_but_infers_in_a_target():
    assert read_shape([-1, 0, MAX]) == [None, 0, MAX]
    assert read_target([-1, 0, MAX]) == [-1, 0, MAX]
    assert encode_shape([None, 0, MAX]) == tensor_pb2.Shape(dims=[-1, 0, MAX])
    assert encode_target([-1, 0, MAX]) == reshape_pb2.TargetShape(items=[-1, 0, MAX])


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (STATIC_RESHAPE, Reason.RANK_UNSUPPORTED),
        (DYNAMIC_RESHAPE, Reason.RANK_UNSUPPORTED),
        (RESHAPE, Reason.RANK_LIMIT_EXCEEDED),
        (ONNX_RESHAPE, Reason.RANK_LIMIT_EXCEEDED),
    ],
)
def test_shape_is_read_up_to_the_limit_of_all_operations(operation: Operation, reason: Reason):
    readers: list[tuple[str, Callable[[list[int]], object]]] = [
        ("data.dims", lambda dims: decode_shape(operation, tensor_pb2.Shape(dims=dims), "data.dims")),
        ("shape", lambda dims: decode_target(operation, reshape_pb2.TargetShape(items=dims))),
        (
            "expected_shape.dims",
            lambda dims: decode_expected(
                operation, reshape_pb2.InferShapeRequest(expected_shape=tensor_pb2.Shape(dims=dims))
            ),
        ),
    ]
    for path, read in readers:
        assert read([1] * MAX_RANK) == [1] * MAX_RANK
        with pytest.raises(ReshapeError) as caught:
            read([1] * (MAX_RANK + 1))
        assert (caught.value.reason, caught.value.field) == (reason, path)


def test_product_has_at_most_64_names():
    def write(count: int, below: int) -> tensor_pb2.Expression:
        names = [tensor_pb2.Symbol(name="N")]
        return tensor_pb2.Expression(factors=names * (count - below), divisors=names * below)

    for below in (0, 1, 40):
        (dim,) = read_shape([-1], tensor_pb2.PartialDim(index=0, expression=write(64, below)))
        assert isinstance(dim, Dim)
        for read, path in ((read_shape, "data.dims[1]"), (read_target, "shape[1]")):
            with pytest.raises(InvalidRequestError) as caught:
                read([3, -1], tensor_pb2.PartialDim(index=1, expression=write(65, below)))
            assert caught.value.field == path
            assert caught.value.metadata.items() >= {"index": "1"}.items()


def test_unknown_item_of_a_requested_shape_has_an_entry_without_a_kind():
    target = encode_target([None, -1])
    assert target == reshape_pb2.TargetShape(items=[-1, -1], partial=[UNKNOWN])
    assert decode_target(RESHAPE, target) == [None, -1]
    assert read_shape([-1, -1], UNKNOWN) == [None, None]


def test_unknown_dim_kind_is_rejected():
    later = tensor_pb2.PartialDim.FromString(b"\x08\x00\x7a\x00")  # an unknown field
    for read, path in ((read_shape, "data.dims[0]"), (read_target, "shape[0]")):
        with pytest.raises(InvalidRequestError) as caught:
            read([-1], later)
        assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNKNOWN, path)


# numbers, the indices of entries, and the end of the field in the error
CONFLICTS = [
    ([-1, -1], [1, 0], "partial[1].index"),
    ([-1, -1], [1, 1], "partial[1].index"),
    ([-1, -1], [2], "partial[0].index"),
    ([], [0], "partial[0].index"),
    ([-1], [-1], "partial[0].index"),
    ([-1, 4], [0, 1], "partial[1]"),
    ([0], [0], "partial[0]"),
    ([4, 4], [1], "partial[0]"),
]


@pytest.mark.parametrize(("numbers", "indices", "field"), CONFLICTS)
def test_entry_that_does_not_fit_the_numbers_is_rejected(numbers: list[int], indices: list[int], field: str):
    entries = [tensor_pb2.PartialDim(index=index) for index in indices]
    for read, parent in ((read_shape, "data"), (read_target, "shape")):
        with pytest.raises(InvalidRequestError) as caught:
            read(numbers, *entries)
        assert (caught.value.reason, caught.value.field) == (Reason.PARTIAL_DIM_INVALID, f"{parent}.{field}")
        assert caught.value.metadata == {}


def test_error_of_an_entry_names_the_index_that_does_not_fit():
    for indices, text in (
        ([0, 0], "is 0; it must be above 0, the index of the entry before it"),
        ([1, 0], "is 0; it must be above 1, the index of the entry before it"),
        ([2], "is 2, but the shape has 2 items"),
        ([-1], "is -1, but the shape has 2 items"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            read_shape([-1, -1], *(tensor_pb2.PartialDim(index=index) for index in indices))
        assert caught.value.message == f"data.partial[{len(indices) - 1}].index {text}"


def test_entry_without_an_index_is_rejected():
    for read, parent in ((read_shape, "data"), (read_target, "shape")):
        with pytest.raises(InvalidRequestError) as caught:
            read([-1], tensor_pb2.PartialDim())
        assert (caught.value.reason, caught.value.field) == (Reason.FIELD_MISSING, f"{parent}.partial[0].index")


@given(st.lists(DIMS, max_size=6), st.lists(DIMS | st.just(-1), max_size=6), TERMS, BOUNDS)
def test_encoded_dims_and_symbol_products_are_decoded_unchanged(
    dims: list[AnyDim], items: list[AnyDim], expression: Expression, bounds: Interval
):
    raw = encode_shape(dims).SerializeToString()
    assert decode_dims(tensor_pb2.Shape.FromString(raw), "shape") == dims
    target = encode_target(items).SerializeToString()
    assert decode_target(RESHAPE, reshape_pb2.TargetShape.FromString(target)) == items
    term = encode_expression(expression, bounds).SerializeToString()
    assert decode_expression(tensor_pb2.Expression.FromString(term)) == expression
