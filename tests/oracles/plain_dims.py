"""Oracle for dims, which uses only the generated classes."""

from collections.abc import Iterable

from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.operations import Operation, check_rank
from tensor_reshape.v1 import tensor_pb2


def read_dims_plainly(dims: Iterable[tensor_pb2.Dim], path: str) -> list[AnyDim]:
    """Returns the dims. A dim with only unknown fields has a kind of a later version."""
    return [_read_dim(dim, path, index) for index, dim in enumerate(dims)]


def _read_dim(dim: tensor_pb2.Dim, path: str, index: int) -> AnyDim:
    if dim.HasField("value"):
        return dim.value
    if dim.HasField("interval"):
        return Dim(_read_interval(dim.interval))
    if dim.HasField("symbol"):
        symbol = _read_symbol(dim.symbol)
        return Dim(symbol.bounds, Expression(1, (symbol,)))
    if dim.HasField("expression"):
        return _read_expression(dim.expression)
    if dim.SerializeToString():
        raise InvalidRequestError.of(Reason.DIM_UNKNOWN, "", f"{path}[{index}]", index=index)
    return None


def _read_interval(interval: tensor_pb2.Interval) -> Interval:
    return Interval(interval.min, interval.max if interval.HasField("max") else None)


def _read_symbol(symbol: tensor_pb2.Symbol) -> Symbol:
    return Symbol(symbol.name, _read_interval(symbol.bounds) if symbol.HasField("bounds") else Interval(0, None))


def _read_expression(expression: tensor_pb2.Expression) -> Dim:
    bounds = _read_interval(expression.bounds) if expression.HasField("bounds") else Interval(0, None)
    return Dim(bounds, read_term_plainly(expression))


def read_term_plainly(expression: tensor_pb2.Expression) -> Expression:
    """Returns the product with its symbols in alphabetical order."""
    return Expression(
        expression.coefficient if expression.HasField("coefficient") else 1,
        _read_symbols(expression.factors),
        expression.divisor if expression.HasField("divisor") else 1,
        _read_symbols(expression.divisors),
    )


def _read_symbols(symbols: Iterable[tensor_pb2.Symbol]) -> tuple[Symbol, ...]:
    return tuple(sorted(map(_read_symbol, symbols), key=lambda symbol: symbol.name))


def read_shape_plainly(operation: Operation, shape: tensor_pb2.Shape, path: str) -> list[AnyDim]:
    """Reads the shape of a request. A rank that no operation supports is rejected before the dims are checked."""
    if len(shape.dims) > MAX_RANK:
        check_rank(operation, len(shape.dims), path, DEFAULT_LIMITS)
    return read_dims_plainly(shape.dims, path)
