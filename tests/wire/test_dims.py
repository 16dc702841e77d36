"""Dims on the wire: every kind is read back, and none is taken for another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dim_strategies import BOUNDS, DIMS, TERMS
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_expression, name_dim
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


# dim, the message that it is
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


def test_a_dim_is_written_and_read_as_the_contract_says():
    for name, (dim, message) in KINDS.items():
        assert encode_dim(dim) == message, name
        assert read_message(message) == dim, name


@given(st.lists(DIMS, max_size=6), TERMS, BOUNDS)
def test_dims_and_terms_are_read_back(dims: list[AnyDim], expression: Expression, bounds: Interval):
    raw = encode_shape(dims).SerializeToString()
    assert decode_dims(tensor_pb2.Shape.FromString(raw).dims, "shape") == dims
    term = encode_expression(expression, bounds).SerializeToString()
    assert decode_expression(tensor_pb2.Expression.FromString(term)) == expression


@given(TERMS)
def test_the_order_of_factors_does_not_matter(expression: Expression):
    groups = (expression.factors, expression.divisors)
    factors, divisors = ([tensor_pb2.Symbol(name=symbol.name) for symbol in reversed(group)] for group in groups)
    message = tensor_pb2.Expression(
        coefficient=expression.coefficient, factors=factors, divisor=expression.divisor, divisors=divisors
    )
    names = [[Symbol(symbol.name) for symbol in group] for group in groups]
    assert decode_expression(message) == make_expression(expression.coefficient, names[0], expression.divisor, names[1])


# the encoding of a dim; the dim
READ: dict[bytes, AnyDim] = {
    b"\x12\x00": Dim(ANY),
    b"\x12\x02\x08\x00": Dim(ANY),
    b"\x08\x00": 0,
    b"\x12\x04\x08\x02\x18\x01": Dim(Interval(2, None)),  # beside a later field of an interval
    b"\x08\x07\x12\x02\x08\x02": Dim(Interval(2, None)),  # the last kind counts
}


def test_an_odd_or_empty_dim_is_read_as_its_kind():
    assert {raw: read(raw) for raw in READ} == READ
    for kind in ("interval", "symbol", "expression"):
        message = tensor_pb2.Dim()
        getattr(message, kind).SetInParent()
        assert read_message(message) is not None, kind


def test_a_coefficient_or_divisor_of_0_is_not_an_absent_one():
    factors = [tensor_pb2.Symbol(name="N")]
    expressions = {
        tensor_pb2.Expression(factors=factors).SerializeToString(): Expression(1, (N,)),
        tensor_pb2.Expression(factors=factors, coefficient=0).SerializeToString(): Expression(0, (N,)),
        tensor_pb2.Expression(factors=factors, divisor=0).SerializeToString(): Expression(1, (N,), 0),
    }
    for raw, expression in expressions.items():
        assert read_message(tensor_pb2.Dim(expression=tensor_pb2.Expression.FromString(raw))) == Dim(ANY, expression)


def test_one_symbol_with_two_bounds_in_an_expression_is_read():
    factors = [tensor_pb2.Symbol(name="N"), tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(max=5))]
    dim = read_message(tensor_pb2.Dim(expression=tensor_pb2.Expression(factors=factors)))
    assert isinstance(dim, Dim)
    assert dim.expression is not None
    assert {symbol.bounds for symbol in dim.expression.factors} == {ANY, Interval(0, 5)}


def test_a_dim_of_a_later_kind_is_refused_by_its_index():
    for index, later in enumerate([b"\x2a\x02\x08\x01", b"\x2a\x00", b"\x28\x00", b"\xfa\x01\x01a"]):
        dims = [tensor_pb2.Dim(value=3) for _ in range(4)]
        dims[index] = tensor_pb2.Dim.FromString(later)
        with pytest.raises(InvalidRequestError) as caught:
            decode_dims(dims, "data.dims")
        assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNKNOWN, f"data.dims[{index}]")
        assert caught.value.metadata == {"index": str(index)}


def test_a_number_that_s64_cannot_hold_is_not_written():
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="out of range"):
            encode_dim(number)
