"""Dims of every kind round-trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dim_strategies import BOUNDS, DIMS, TERMS
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.dims import decode_dims, decode_expression, encode_dim, encode_expression, encode_shape

MAX = 2**63 - 1
N = Symbol("N")


def read(raw: bytes) -> AnyDim:
    (dim,) = decode_dims([tensor_pb2.Dim.FromString(raw)], "shape")
    return dim


def read_message(message: tensor_pb2.Dim) -> AnyDim:
    return read(message.SerializeToString())


# a dim; its message
KINDS: dict[str, tuple[AnyDim, tensor_pb2.Dim]] = {
    "a number": (4, tensor_pb2.Dim(value=4)),
    "0": (0, tensor_pb2.Dim(value=0)),
    "-1": (-1, tensor_pb2.Dim(value=-1)),
    "the largest": (MAX, tensor_pb2.Dim(value=MAX)),
    "unknown": (None, tensor_pb2.Dim()),
    "an interval": (Dim(Interval(2, 8)), tensor_pb2.Dim(interval=tensor_pb2.Interval(min=2, max=8))),
    "from 0 to 0": (Dim(Interval(0, 0)), tensor_pb2.Dim(interval=tensor_pb2.Interval(max=0))),
    "unbounded": (Dim(Interval(2, None)), tensor_pb2.Dim(interval=tensor_pb2.Interval(min=2))),
    "from 0": (Dim(ANY), tensor_pb2.Dim(interval=tensor_pb2.Interval())),
    "a name": (name_dim("N"), tensor_pb2.Dim(symbol=tensor_pb2.Symbol(name="N"))),
    "a bounded name": (
        name_dim("N", 1, 8),
        tensor_pb2.Dim(symbol=tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(min=1, max=8))),
    ),
    "a product": (
        Dim(Interval(4, 8), Expression(4, (N,))),
        tensor_pb2.Dim(
            expression=tensor_pb2.Expression(
                coefficient=4, factors=[tensor_pb2.Symbol(name="N")], bounds=tensor_pb2.Interval(min=4, max=8)
            )
        ),
    ),
    "a power over a product": (
        Dim(ANY, Expression(1, (N, N), 2, (Symbol("M"),))),
        tensor_pb2.Dim(
            expression=tensor_pb2.Expression(
                factors=[tensor_pb2.Symbol(name="N"), tensor_pb2.Symbol(name="N")],
                divisor=2,
                divisors=[tensor_pb2.Symbol(name="M")],
            )
        ),
    ),
}


def test_dim_encoding_matches_the_proto_definition():
    for name, (dim, message) in KINDS.items():
        assert encode_dim(dim) == message, name
        assert read_message(message) == dim, name


def test_unknown_dim_kind_is_rejected():
    with pytest.raises(InvalidRequestError) as caught:
        read(b"\x7a\x00")  # an unknown field
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNKNOWN, "shape[0]")


@given(st.lists(DIMS, max_size=6), TERMS, BOUNDS)
def test_encoded_dims_and_symbol_products_are_decoded_unchanged(
    dims: list[AnyDim], expression: Expression, bounds: Interval
):
    raw = encode_shape(dims).SerializeToString()
    assert decode_dims(tensor_pb2.Shape.FromString(raw).dims, "shape") == dims
    term = encode_expression(expression, bounds).SerializeToString()
    assert decode_expression(tensor_pb2.Expression.FromString(term)) == expression


def test_encoding_a_dim_above_s64_raises_an_error():
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="out of range"):
            encode_dim(number)
