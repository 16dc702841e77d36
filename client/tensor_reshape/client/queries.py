"""Questions as callers ask them: shapes of ints, intervals, names, and dims of which nothing is known.

Laws: what a caller writes is read before anything is sent, so what cannot be a question is refused by this process as a
server would refuse it; and nothing is rounded: what is no integer where one is meant is a TypeError.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import TypeAlias, TypedDict

from tensor_reshape.client.shapes import InferredShape, wrap_answers
from tensor_reshape.rules.batches import BatchItem, answer_batch
from tensor_reshape.rules.dims import (
    ANY,
    MAX_FACTORS,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    bound_dim,
    make_expression,
    refuse_factors,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import OPERATIONS, Operation, check_rank
from tensor_reshape.rules.questions import Question, ShapeRequest

MAX_CALL_QUERIES = 1024
"""How many independent queries go in one call: some tens of milliseconds of work for a server."""

MAX_PARALLEL_CALLS = 8
"""How many calls of one batch are under way: the server answers one while the next is written."""

_FLAG_TYPES = ("bool", "bool_")  # Python's and numpy's, which is no subclass of it
_parse_dim = lru_cache(4096)(parse_dim)  # a graph has few names, which come in most of its shapes

DimLike: TypeAlias = int | tuple[int, int | None] | str | Dim | Expression | Symbol | None
"""A number; `(min, max)`, max None where unbounded; text as in `rules.notation`: "N", "4*C", "2..8"; a `Symbol` of any
name, an `Expression` of symbols; or None."""


class ShapeOptions(TypedDict, total=False):
    """What may be asked besides.

    Attributes:
        operation: "static_reshape", the default, "dynamic_reshape" or "reshape".
        expected_shape: the output that the caller counts on, known in part; what it says is part of what is known.
        data_type: of the data, where it is to be checked.
        explain: whether the answer says where each dim comes from, and a refusal what would have been accepted.
        data_strides: of the data, in elements, where it is asked whether the output can be a view of it.
    """

    operation: str
    expected_shape: Sequence[DimLike] | None
    data_type: DataType | None
    explain: bool
    data_strides: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeQuery:
    """One question of a batch; what `Client.infer_shape` takes, and its `ShapeOptions`.

    Attributes:
        data_shape: what is known of the data; None: not even its rank.
        shape: what is known of the target; None: not even its length.
        special_zero: whether a 0 in `shape` copies the data dim at its index.
        operation: as in `ShapeOptions`.
        expected_shape: as in `ShapeOptions`.
        data_type: as in `ShapeOptions`.
        explain: as in `ShapeOptions`.
        data_strides: as in `ShapeOptions`.
        data_from: the index of the earlier query whose output is the data, in place of `data_shape`; its `data_type` is
            the data's as well, where this query names none.
    """

    data_shape: Sequence[DimLike] | None = None
    shape: Sequence[DimLike] | None = None
    special_zero: bool
    operation: str = "static_reshape"
    expected_shape: Sequence[DimLike] | None = None
    data_type: DataType | None = None
    explain: bool = False
    data_strides: Sequence[int] | None = None
    data_from: int | None = None


def split_queries(queries: Sequence[ShapeQuery]) -> Iterator[Sequence[ShapeQuery]]:
    """Splits a batch into calls; one with links stays whole, as a link counts the items of its own call."""
    size = MAX_CALL_QUERIES if all(query.data_from is None for query in queries) else max(len(queries), 1)
    return (queries[start : start + size] for start in range(0, len(queries), size))


def infer_locally(queries: Sequence[ShapeQuery]) -> list[InferredShape | ReshapeError]:
    """Answers as a server does, in this process and by the same rules."""
    return wrap_answers(answer_batch(map(_try_query, queries)))


def _try_query(query: ShapeQuery) -> BatchItem | ReshapeError:
    try:
        return read_query(query)
    except ReshapeError as error:
        return error


def read_query(query: ShapeQuery) -> BatchItem:
    """Returns a query as the rules take it.

    Raises:
        InvalidRequestError: OPERATION_UNSPECIFIED or DIM_UNREADABLE.
        TypeError: a dim or a flag is none.
    """
    operation = OPERATIONS.get(query.operation)
    if operation is None:
        message = f"operation is {query.operation!r}; it is one of {', '.join(OPERATIONS)}"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, message, "operation", value=query.operation)
    question = Question(
        operation,
        _read_shape(operation, query.data_shape, "data.dims"),
        _read_shape(operation, query.shape, "shape"),
        check_flag(query.special_zero),
        _check_data_type(query.data_type),
        _read_shape(operation, query.expected_shape, "expected_shape.dims"),
    )
    strides = None if query.data_strides is None else tuple(map(index, query.data_strides))
    data_from = None if query.data_from is None else index(query.data_from)
    return BatchItem(ShapeRequest(question, bool(query.explain), strides), data_from)


def _read_shape(operation: Operation, dims: Sequence[DimLike] | None, field: str) -> tuple[AnyDim, ...] | None:
    """Reads a shape; as on a server, one of a rank that no operation takes is refused unread."""
    if dims is not None and len(dims) > MAX_RANK:
        check_rank(operation, len(dims), field, DEFAULT_LIMITS)
    return read_dims(dims, field)


def read_dims(dims: Sequence[DimLike] | None, field: str = "dims") -> tuple[AnyDim, ...] | None:
    """Returns dims as the rules take them; numpy's integers become Python's.

    Raises:
        InvalidRequestError: DIM_UNREADABLE, of an item of `field`.
        TypeError: a dim is none.
    """
    if isinstance(dims, str):  # a sequence, too, of dims of one letter
        message = f"a shape is a sequence of dims, not the text {dims!r}"
        raise TypeError(message)
    if dims is None:
        return None
    # Most dims are ints, and need no call; a bool is none by its type, and is made one.
    return tuple([dim if type(dim) is int else _read_dim(dim, field, place) for place, dim in enumerate(dims)])


def check_flag(special_zero: object) -> bool | None:
    """Returns the flag; None passes: it is the rules that refuse it.

    Raises:
        TypeError: it is something else.
    """
    # By identity: 1 and 0 equal them, and are no flags.
    if special_zero is True or special_zero is False:
        return special_zero
    if special_zero is not None and type(special_zero).__name__ not in _FLAG_TYPES:
        message = f"special_zero is a bool, not {type(special_zero).__name__}"
        raise TypeError(message)
    return None if special_zero is None else bool(special_zero)


def _check_data_type(data_type: object) -> DataType | None:
    if data_type is None or isinstance(data_type, DataType):
        return data_type
    message = f"data_type is a DataType, not {data_type!r}"
    raise TypeError(message)


def _read_dim(dim: DimLike, field: str, place: int) -> AnyDim:
    if dim is None:
        return dim
    if isinstance(dim, str):
        try:
            return _parse_dim(dim)
        except InvalidRequestError as error:
            path = f"{field}[{place}]"
            raise InvalidRequestError.of(Reason.DIM_UNREADABLE, error.message, path, index=place, value=dim) from None
    if isinstance(dim, Dim | Expression | Symbol):
        return _index_dim(_check_factors(_name_dim(dim), f"{field}[{place}]", place))
    if not isinstance(dim, tuple):
        return index(dim)  # takes numpy's integers, and refuses whatever would have to be rounded
    if len(dim) != len(Interval._fields):
        message = f"an interval is (low, high), not {dim}"
        raise TypeError(message)
    return Dim(_index_bounds(*dim))


def _name_dim(name: Dim | Expression | Symbol) -> Dim:
    if isinstance(name, Dim):
        return name
    return Dim(ANY, name if isinstance(name, Expression) else Expression(1, (name,)))


def _check_factors(dim: Dim, path: str, place: int) -> Dim:
    """Returns a dim that is read; as on a server, an expression of too many symbols is refused unread."""
    # Before it is normalized, which takes longer the more symbols there are.
    count = 0 if dim.expression is None else len(dim.expression.factors) + len(dim.expression.divisors)
    if count > MAX_FACTORS:
        raise refuse_factors(count, path, place)
    return dim


def _index_bounds(low: int, high: int | None) -> Interval:
    return Interval(index(low), None if high is None else index(high))


def _index_dim(dim: Dim) -> Dim:
    """Returns a dim as the contract has it: factors in the order of their names, a symbol with bounds of its own."""
    bounds, expression = (
        _index_bounds(*dim.bounds),
        None if dim.expression is None else _index_expression(dim.expression),
    )
    symbol = None if expression is None else expression.symbol
    return Dim(bounds, expression) if symbol is None else bound_dim(bounds.meet(symbol.bounds), expression)


def _index_expression(expression: Expression) -> Expression:
    def index_all(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
        return tuple(Symbol(symbol.name, _index_bounds(*symbol.bounds)) for symbol in symbols)

    return make_expression(
        index(expression.coefficient),
        index_all(expression.factors),
        index(expression.divisor),
        index_all(expression.divisors),
    )
