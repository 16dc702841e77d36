"""Dims on the wire: every kind is read back, and none is taken for another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dim_strategies import BOUNDS, DIMS, TERMS
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.dims import decode_dims, decode_expression, encode_dim, encode_expression, encode_shape

MAX = 2**63 - 1
LATER = b"\x2a\x02\x08\x01"  # field 5 of Dim, a message
N = Symbol("N")


def read(raw: bytes) -> AnyDim:
    (dim,) = decode_dims([tensor_pb2.Dim.FromString(raw)], "shape")
    return dim


def read_message(message: tensor_pb2.Dim) -> AnyDim:
    return read(message.SerializeToString())


def build_message(*factors: tensor_pb2.Symbol) -> tensor_pb2.Dim:
    return tensor_pb2.Dim(expression=tensor_pb2.Expression(factors=factors))


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


@pytest.mark.parametrize(("dim", "message"), KINDS.values(), ids=KINDS.keys())
def test_a_dim_is_written_as_the_contract_says(dim: AnyDim, message: tensor_pb2.Dim):
    assert encode_dim(dim) == message


@pytest.mark.parametrize(("dim", "message"), KINDS.values(), ids=KINDS.keys())
def test_a_dim_is_read_as_the_contract_says(dim: AnyDim, message: tensor_pb2.Dim):
    assert read_message(message) == dim


@settings(deadline=None)
@given(st.lists(DIMS, max_size=6))
def test_dims_are_read_back(dims: list[AnyDim]):
    raw = encode_shape(dims).SerializeToString()
    assert decode_dims(tensor_pb2.Shape.FromString(raw).dims, "shape") == dims


@settings(deadline=None)
@given(TERMS, BOUNDS)
def test_a_term_is_read_back(expression: Expression, bounds: Interval):
    raw = encode_expression(expression, bounds).SerializeToString()
    assert decode_expression(tensor_pb2.Expression.FromString(raw)) == expression


@settings(deadline=None)
@given(TERMS)
def test_the_order_of_factors_does_not_matter(expression: Expression):
    message = tensor_pb2.Expression(
        coefficient=expression.coefficient,
        factors=[tensor_pb2.Symbol(name=symbol.name) for symbol in reversed(expression.factors)],
        divisor=expression.divisor,
        divisors=[tensor_pb2.Symbol(name=symbol.name) for symbol in reversed(expression.divisors)],
    )
    names = [[Symbol(symbol.name) for symbol in group] for group in (expression.factors, expression.divisors)]
    assert decode_expression(message) == make_expression(expression.coefficient, names[0], expression.divisor, names[1])


@pytest.mark.parametrize("raw", [b"\x12\x00", b"\x12\x02\x08\x00"], ids=["empty", "with its 0 written"])
def test_an_interval_from_0_is_not_an_unset_dim(raw: bytes):
    assert read(raw) == Dim(ANY)


def test_a_value_of_0_is_not_an_unset_dim():
    assert read(b"\x08\x00") == 0


@pytest.mark.parametrize("kind", ["interval", "symbol", "expression"])
def test_an_empty_message_of_a_kind_is_not_an_unset_dim(kind: str):
    message = tensor_pb2.Dim()
    getattr(message, kind).SetInParent()
    assert read_message(message) is not None


def test_an_absent_coefficient_is_1():
    assert read_message(build_message(tensor_pb2.Symbol(name="N"))) == Dim(ANY, Expression(1, (N,)))


def test_a_coefficient_of_0_is_not_an_absent_one():
    message = tensor_pb2.Dim(expression=tensor_pb2.Expression(coefficient=0, factors=[tensor_pb2.Symbol(name="N")]))
    assert read_message(message) == Dim(ANY, Expression(0, (N,)))


def test_a_divisor_of_0_is_not_an_absent_one():
    message = tensor_pb2.Dim(expression=tensor_pb2.Expression(divisor=0, factors=[tensor_pb2.Symbol(name="N")]))
    assert read_message(message) == Dim(ANY, Expression(1, (N,), 0))


def test_one_symbol_with_two_bounds_in_an_expression_is_read():
    bounded = tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(max=5))
    dim = read_message(build_message(tensor_pb2.Symbol(name="N"), bounded))
    assert isinstance(dim, Dim)
    assert dim.expression is not None
    assert {symbol.bounds for symbol in dim.expression.factors} == {ANY, Interval(0, 5)}


@pytest.mark.parametrize("index", [0, 2])
def test_a_dim_of_a_kind_to_come_is_refused_by_its_index(index: int):
    dims = [tensor_pb2.Dim(value=3) for _ in range(3)]
    dims[index] = tensor_pb2.Dim.FromString(LATER)
    with pytest.raises(InvalidRequestError) as caught:
        decode_dims(dims, "data.dims")
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNKNOWN, f"data.dims[{index}]")
    assert caught.value.metadata == {"index": str(index)}


@pytest.mark.parametrize("raw", [b"\x2a\x00", b"\x28\x00", b"\xfa\x01\x01a"], ids=bytes.hex)
def test_a_kind_to_come_may_have_any_encoding(raw: bytes):
    with pytest.raises(InvalidRequestError) as caught:
        read(raw)
    assert caught.value.reason == Reason.DIM_UNKNOWN


def test_what_a_known_kind_says_besides_is_left_unread():
    assert read(b"\x12\x04\x08\x02\x18\x01") == Dim(Interval(2, None))


def test_the_last_kind_of_a_dim_counts():
    assert read(b"\x08\x07" + b"\x12\x02\x08\x02") == Dim(Interval(2, None))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_that_s64_cannot_hold_is_not_written(number: int):
    with pytest.raises(ValueError, match="out of range"):
        encode_dim(number)
