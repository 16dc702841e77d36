"""Converts dims and shapes between protobuf messages and Python values.

A dim of a kind that this version does not know is rejected and never ignored. Shapes and expressions that exceed their
limits are rejected before they are read, because reading them would take long. The package `rules` checks numbers and
names later.
"""

from collections.abc import Iterable, Sequence

from google.protobuf.unknown_fields import UnknownFieldSet

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


def decode_dims(shape: tensor_pb2.Shape, path: str) -> list[AnyDim]:
    """Reads a shape. A -1 is an unknown dim, unless the field `partial` describes it.

    Args:
        shape: the message.
        path: the path of the list of dims, for errors. The path ends with `dims`.

    Raises:
        InvalidRequestError: the reason is PARTIAL_DIM_INVALID, or DIM_UNKNOWN if a dim is of an unknown kind.
    """
    dims: list[AnyDim] = [*shape.dims[:]]  # a slice is twice as fast as an iteration
    if shape.partial or -1 in dims:  # most shapes are known
        found = _decode_partial(shape.partial, shape.dims, path, path.removesuffix("dims"))
        return [found.get(index) if dim == -1 else dim for index, dim in enumerate(dims)]
    return dims


def decode_shape(operation: Operation, shape: tensor_pb2.Shape, path: str) -> list[AnyDim]:
    """Reads a shape of a request. A rank above MAX_RANK is rejected before the dims are read.

    Raises:
        InvalidRequestError: the reason is RANK_UNSUPPORTED, or a reason of `decode_dims`.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    if len(shape.dims) > MAX_RANK:
        check_rank(operation, len(shape.dims), path, DEFAULT_LIMITS)
    return decode_dims(shape, path)


def decode_target(operation: Operation, shape: reshape_pb2.TargetShape) -> list[AnyDim]:
    """Reads the requested shape of a query. A -1 infers a dim, unless the field `partial` describes it.

    Raises:
        InvalidRequestError: the reason is RANK_UNSUPPORTED, PARTIAL_DIM_INVALID or DIM_UNKNOWN.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    if len(shape.items) > MAX_RANK:
        check_rank(operation, len(shape.items), "shape", DEFAULT_LIMITS)
    items: list[AnyDim] = [*shape.items[:]]
    for index, dim in _decode_partial(shape.partial, shape.items, "shape", "shape.").items():
        items[index] = dim
    return items


def decode_expected(
    operation: Operation, message: ReshapeRequest | reshape_pb2.InferShapeRequest
) -> list[AnyDim] | None:
    """Reads the expected shape of a request; None if the request has no expected shape.

    Raises:
        ReshapeError: `decode_shape` rejects the expected shape.
    """
    if not message.HasField("expected_shape"):
        return None
    return decode_shape(operation, message.expected_shape, "expected_shape.dims")


def reject_partial(text: str, field: str) -> InvalidRequestError:
    """Returns the error for an invalid entry of the field `partial`."""
    return InvalidRequestError.of(Reason.PARTIAL_DIM_INVALID, text, field)


def encode_shape(dims: Sequence[AnyDim]) -> tensor_pb2.Shape:
    """Returns the protobuf message for a shape."""
    message = tensor_pb2.Shape()
    write_shape(message, dims)
    return message


def write_shape(message: tensor_pb2.Shape, dims: Sequence[AnyDim]) -> None:
    """Writes a shape into an empty message. An unknown dim is written as a -1 without an entry in `partial`."""
    message.SetInParent()  # the shape of a scalar is an empty message
    message.dims.extend(_list_numbers(dims))
    _write_partial(message, [index for index, dim in enumerate(dims) if isinstance(dim, Dim)], dims)


def encode_target(items: Sequence[AnyDim]) -> reshape_pb2.TargetShape:
    """Returns the protobuf message for a requested shape."""
    message = reshape_pb2.TargetShape()
    write_target(message, items)
    return message


def write_target(message: reshape_pb2.TargetShape, items: Sequence[AnyDim]) -> None:
    """Writes a requested shape into an empty message.

    An unknown item is written as a -1 with an entry in `partial`, because a -1 without an entry infers a dim.
    """
    message.SetInParent()
    message.items.extend(_list_numbers(items))
    _write_partial(message, [index for index, dim in enumerate(items) if not isinstance(dim, int)], items)


def _list_numbers(dims: Sequence[AnyDim]) -> list[int]:
    return [dim if isinstance(dim, int) else -1 for dim in dims]


def _write_partial(
    message: tensor_pb2.Shape | reshape_pb2.TargetShape, indices: Iterable[int], dims: Sequence[AnyDim]
) -> None:
    """Writes an entry of `partial` for each dim at these indices, because these dims are not numbers."""
    for index in indices:
        entry, dim = message.partial.add(index=index), dims[index]
        if isinstance(dim, Dim):
            _write_dim(entry, dim)


def _write_dim(entry: tensor_pb2.PartialDim, dim: Dim) -> None:
    """Writes a dim into an entry of `partial` that has only an index."""
    if dim.expression is None:
        _write_interval(entry.interval, dim.bounds)
        return
    symbol = dim.expression.symbol
    if symbol is None:
        _write_expression(entry.expression, dim.expression, dim.bounds)
    else:
        # The message has only one field for bounds, so the encoder intersects the bounds of the dim with the bounds of
        # its symbol.
        _write_symbol(entry.symbol, Symbol(symbol.name, dim.bounds.meet(symbol.bounds)))


def encode_expression(expression: Expression, bounds: Interval = ANY) -> tensor_pb2.Expression:
    """Returns the protobuf message for an expression."""
    message = tensor_pb2.Expression()
    _write_expression(message, expression, bounds)
    return message


def _write_expression(message: tensor_pb2.Expression, expression: Expression, bounds: Interval) -> None:
    message.SetInParent()  # an expression without names is an empty message, which a server rejects
    for symbol in expression.factors:
        _write_symbol(message.factors.add(), symbol)
    for symbol in expression.divisors:
        _write_symbol(message.divisors.add(), symbol)
    # Default values are omitted, so that equal expressions have equal encoded bytes.
    if expression.coefficient != 1:
        message.coefficient = expression.coefficient
    if expression.divisor != 1:
        message.divisor = expression.divisor
    if bounds != ANY:
        _write_interval(message.bounds, bounds)


def decode_expression(message: tensor_pb2.Expression) -> Expression:
    """Reads an expression without checking its numbers and names."""
    return make_expression(
        message.coefficient if message.HasField("coefficient") else 1,
        list(map(_decode_symbol, message.factors)),
        message.divisor if message.HasField("divisor") else 1,
        list(map(_decode_symbol, message.divisors)),
    )


def _decode_partial(
    entries: Iterable[tensor_pb2.PartialDim], numbers: Sequence[int], path: str, parent: str
) -> dict[int, Dim | None]:
    """Reads the entries of the field `partial`, and returns their dims by index.

    Args:
        entries: the entries.
        numbers: the numbers of the shape.
        path: the path of the numbers in errors.
        parent: the path of the shape in errors, with a period at its end.
    """
    found, last = dict[int, Dim | None](), -1
    for position, entry in enumerate(entries):
        index = entry.index
        if not last < index < len(numbers) or not entry.HasField("index"):
            raise _reject_index(entry, f"{parent}partial[{position}].index", last, len(numbers))
        if numbers[index] != -1:
            field = f"{parent}partial[{position}]"
            text = f"{field} describes {path}[{index}], which is {numbers[index]}; the number must be -1"
            raise reject_partial(text, field)
        found[index], last = _decode_dim(entry, path, index), index
    return found


def _reject_index(entry: tensor_pb2.PartialDim, field: str, last: int, rank: int) -> InvalidRequestError:
    """Returns the error for an entry of `partial` whose index is absent, too large, or not above the previous index."""
    if not entry.HasField("index"):
        return InvalidRequestError.of(Reason.FIELD_MISSING, f"{field} is required", field)
    index = entry.index
    if 0 <= index <= last:
        return reject_partial(f"{field} is {index}; it must be above {last}, the index of the entry before it", field)
    return reject_partial(f"{field} is {index}, but the shape has {rank} items", field)


def _decode_dim(entry: tensor_pb2.PartialDim, path: str, index: int) -> Dim | None:
    kind = entry.WhichOneof("kind")
    if kind == "interval":
        return Dim(_decode_interval(entry.interval))
    if kind == "symbol":
        symbol = _decode_symbol(entry.symbol)
        return Dim(symbol.bounds, Expression(1, (symbol,)))
    if kind == "expression":
        count = len(entry.expression.factors) + len(entry.expression.divisors)
        # If an expression is too long, it is rejected before it is read, because reading it would take long.
        if count > MAX_FACTORS:
            raise reject_factors(count, f"{path}[{index}]", index)
        return Dim(_decode_interval(entry.expression.bounds), decode_expression(entry.expression))
    # The message contains a kind of dim that this version does not know. If the server ignored such a dim, it would
    # check less than the client requested.
    if len(UnknownFieldSet(entry)):
        text = f"{path}[{index}] has a kind that this server does not know"
        raise InvalidRequestError.of(Reason.DIM_UNKNOWN, text, f"{path}[{index}]", index=index)
    return None


def _write_symbol(message: tensor_pb2.Symbol, symbol: Symbol) -> None:
    message.name = symbol.name
    if symbol.bounds != ANY:
        _write_interval(message.bounds, symbol.bounds)


def _decode_symbol(message: tensor_pb2.Symbol) -> Symbol:
    return Symbol(message.name, _decode_interval(message.bounds))


def _write_interval(message: tensor_pb2.Interval, bounds: Interval) -> None:
    message.min = bounds.min
    if bounds.max is not None:
        message.max = bounds.max


def _decode_interval(message: tensor_pb2.Interval) -> Interval:
    """Reads an interval, which is `ANY` if the message is absent."""
    return Interval(message.min, message.max if message.HasField("max") else None)
