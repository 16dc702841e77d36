"""Converts dims and shapes between protobuf messages and Python values.

A dim of a kind that this version does not know is rejected and never ignored. Shapes and expressions that exceed their
limits are rejected before they are read, because reading them would take long. The rules check numbers and names later.
"""

from collections.abc import Iterable, Sequence

from tensor_reshape.rules.dims import (
    ANY,
    MAX_FACTORS,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    make_expression,
    reject_factors,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.operations import Operation, check_rank
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.methods import ReshapeRequest


def decode_dims(dims: Iterable[tensor_pb2.Dim], path: str) -> list[AnyDim]:
    """Reads a list of dims. `path` is the path of the list in errors.

    Raises:
        InvalidRequestError: DIM_UNKNOWN, if a dim is of an unknown kind.
    """
    # Most dims are numbers above 0, which need no call of `_decode_dim`.
    return [dim.value or _decode_dim(dim, path, index) for index, dim in enumerate(dims)]


def decode_shape(operation: Operation, shape: tensor_pb2.Shape, path: str) -> list[AnyDim]:
    """Reads a shape of a request, after checking that its rank is not above the limit of all operations.

    Raises:
        InvalidRequestError: RANK_UNSUPPORTED, or DIM_UNKNOWN if a dim is of an unknown kind.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    if len(shape.dims) > MAX_RANK:
        check_rank(operation, len(shape.dims), path, DEFAULT_LIMITS)
    return decode_dims(shape.dims, path)


def decode_expected(
    operation: Operation, message: ReshapeRequest | reshape_pb2.InferShapeRequest
) -> list[AnyDim] | None:
    """Reads the expected shape of a request; None if the request has no expected shape.

    Raises:
        ReshapeError: the errors of `decode_shape`.
    """
    if not message.HasField("expected_shape"):
        return None
    return decode_shape(operation, message.expected_shape, "expected_shape.dims")


def encode_shape(dims: Sequence[AnyDim]) -> tensor_pb2.Shape:
    """Returns the message of a shape."""
    return tensor_pb2.Shape(dims=[encode_dim(dim) for dim in dims])


def encode_dim(dim: AnyDim) -> tensor_pb2.Dim:
    """Returns the message of one dim."""
    if isinstance(dim, int):
        return tensor_pb2.Dim(value=dim)
    if dim is None:
        return tensor_pb2.Dim()
    if dim.expression is None:
        return tensor_pb2.Dim(interval=_encode_interval(dim.bounds))
    symbol = dim.expression.symbol
    if symbol is not None:
        # The message has only one field for bounds, so the encoder sends the intersection of the bounds of the dim and
        # of its symbol.
        return tensor_pb2.Dim(symbol=_encode_symbol(Symbol(symbol.name, dim.bounds.meet(symbol.bounds))))
    return tensor_pb2.Dim(expression=encode_expression(dim.expression, dim.bounds))


def encode_expression(expression: Expression, bounds: Interval = ANY) -> tensor_pb2.Expression:
    """Returns the message of an expression."""
    message = tensor_pb2.Expression(
        factors=map(_encode_symbol, expression.factors), divisors=map(_encode_symbol, expression.divisors)
    )
    # Default values are omitted, so that equal expressions have equal encoded bytes.
    if expression.coefficient != 1:
        message.coefficient = expression.coefficient
    if expression.divisor != 1:
        message.divisor = expression.divisor
    if bounds != ANY:
        message.bounds.CopyFrom(_encode_interval(bounds))
    return message


def decode_expression(message: tensor_pb2.Expression) -> Expression:
    """Reads an expression without checking its numbers and names."""
    return make_expression(
        message.coefficient if message.HasField("coefficient") else 1,
        list(map(_decode_symbol, message.factors)),
        message.divisor if message.HasField("divisor") else 1,
        list(map(_decode_symbol, message.divisors)),
    )


def _decode_dim(dim: tensor_pb2.Dim, path: str, index: int) -> AnyDim:
    kind = dim.WhichOneof("kind")
    if kind == "value":
        return dim.value
    if kind == "interval":
        return Dim(_decode_interval(dim.interval))
    if kind == "symbol":
        symbol = _decode_symbol(dim.symbol)
        return Dim(symbol.bounds, Expression(1, (symbol,)))
    if kind == "expression":
        count = len(dim.expression.factors) + len(dim.expression.divisors)
        # Such a long expression is rejected before it is read, because reading it would take long.
        if count > MAX_FACTORS:
            raise reject_factors(count, f"{path}[{index}]", index)
        bounds = _decode_interval(dim.expression.bounds) if dim.expression.HasField("bounds") else ANY
        return Dim(bounds, decode_expression(dim.expression))
    # The message contains a kind of dim that this version does not know. If the server ignored such a dim, it would
    # check less than the client requested.
    if dim.ByteSize():
        text = f"{path}[{index}] has a kind that this server does not know"
        raise InvalidRequestError.of(Reason.DIM_UNKNOWN, text, f"{path}[{index}]", index=index)
    return None


def _encode_symbol(symbol: Symbol) -> tensor_pb2.Symbol:
    if symbol.bounds == ANY:
        return tensor_pb2.Symbol(name=symbol.name)
    return tensor_pb2.Symbol(name=symbol.name, bounds=_encode_interval(symbol.bounds))


def _decode_symbol(message: tensor_pb2.Symbol) -> Symbol:
    return Symbol(message.name, _decode_interval(message.bounds) if message.HasField("bounds") else ANY)


def _encode_interval(bounds: Interval) -> tensor_pb2.Interval:
    return tensor_pb2.Interval(min=bounds.min, max=bounds.max)


def _decode_interval(message: tensor_pb2.Interval) -> Interval:
    return Interval(message.min, message.max if message.HasField("max") else None)
