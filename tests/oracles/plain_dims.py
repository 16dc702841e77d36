"""Oracle for dims, which uses only the generated classes."""

from collections.abc import Iterable, Sequence

from google.protobuf.unknown_fields import UnknownFieldSet

from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.operations import Operation, check_rank
from tensor_reshape.v1 import reshape_pb2, tensor_pb2


def read_dims_plainly(shape: tensor_pb2.Shape, path: str) -> list[AnyDim]:
    """Returns the dims of a shape, in which -1 is unknown. `path` is the path of its field `dims`."""
    entries = _read_entries(shape.partial, shape.dims, path, path.replace("dims", "partial"))
    return [entries.get(index) if dim == -1 else dim for index, dim in enumerate(shape.dims)]


def read_items_plainly(operation: Operation, target: reshape_pb2.TargetShape) -> list[AnyDim]:
    """Returns the items of a requested shape, in which -1 infers."""
    if len(target.items) > MAX_RANK:
        check_rank(operation, len(target.items), "shape", DEFAULT_LIMITS)
    entries = _read_entries(target.partial, target.items, "shape", "shape.partial")
    return [entries.get(index, item) for index, item in enumerate(target.items)]


def _read_entries(
    entries: Sequence[tensor_pb2.PartialDim], numbers: Sequence[int], path: str, own: str
) -> dict[int, AnyDim]:
    """Returns the entries by index. The index of an entry is above that of the entry before, and its number is -1."""
    for at, entry in enumerate(entries):
        if not entry.HasField("index"):
            raise InvalidRequestError.of(Reason.FIELD_MISSING, "", f"{own}[{at}].index")
        lowest = entries[at - 1].index + 1 if at else 0
        if entry.index < lowest or entry.index >= len(numbers):
            raise InvalidRequestError.of(Reason.PARTIAL_DIM_INVALID, "", f"{own}[{at}].index")
        if numbers[entry.index] != -1:
            raise InvalidRequestError.of(Reason.PARTIAL_DIM_INVALID, "", f"{own}[{at}]")
        _read_dim(entry, path, entry.index)
    return {entry.index: _read_dim(entry, path, entry.index) for entry in entries}


def _read_dim(dim: tensor_pb2.PartialDim, path: str, index: int) -> AnyDim:
    if dim.HasField("interval"):
        return Dim(_read_interval(dim.interval))
    if dim.HasField("symbol"):
        symbol = _read_symbol(dim.symbol)
        return Dim(symbol.bounds, Expression(1, (symbol,)))
    if dim.HasField("expression"):
        return _read_expression(dim.expression)
    if len(UnknownFieldSet(dim)):  # a kind of a later version
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
    return read_dims_plainly(shape, path)
