"""Questions as callers ask them: shapes of ints, intervals, names, and dims of which nothing is known.

Laws: what a caller writes is read before anything is sent, so what cannot be a question is refused by this process as a
server would refuse it; and nothing is rounded: what is no integer where one is meant is a TypeError.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import TypeAlias, TypedDict

from tensor_reshape.client.arguments import (
    DataTypeLike,
    check_flag,
    check_shape,
    read_data_type,
    read_integer,
    read_integers,
    read_operation,
    require_flag,
    require_special_zero,
)
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
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import Operation, check_rank
from tensor_reshape.rules.questions import Question, ShapeRequest

MAX_CALL_QUERIES = 1024
"""How many independent queries go in one call: some tens of milliseconds of work for a server."""

MAX_PARALLEL_CALLS = 8
"""How many calls of one batch are under way: the server answers one while the next is written."""

_parse_dim = lru_cache(4096)(parse_dim)  # a graph has few names, which come in most of its shapes

DimLike: TypeAlias = int | tuple[int, int | None] | str | Dim | Expression | Symbol | None
"""A number; `(min, max)`, max None where unbounded; text as in `rules.notation`: "N", "4*C", "2..8"; a `Symbol` of any
name, an `Expression` of symbols; or None.

>>> client.infer_shape(["N", 4, (2, 8), None], [0, 0, -1], special_zero=True)
InferredShape([N, 4, ?])
"""


class ShapeOptions(TypedDict, total=False):
    """What may be asked besides.

    Attributes:
        operation: "static_reshape", the default, "dynamic_reshape" or "reshape".
        expected_shape: the output that the caller counts on, known in part; what it says is part of what is known.
        data_type: of the data, where it is to be checked.
        explain: whether the answer says where each dim comes from, and a refusal what would have been accepted.
        data_strides: of the data, in elements, where it is asked whether the output can be a view of it.

    >>> client.infer_shape((6,), (-1,), special_zero=False, operation="reshape", data_type="f64", expected_shape=[None])
    InferredShape([6])
    """

    operation: str
    expected_shape: Sequence[DimLike] | None
    data_type: DataTypeLike | None
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

    >>> flatten = ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True)
    >>> halve = ShapeQuery(data_from=0, shape=[-1, 6], special_zero=False)
    >>> client.infer_shapes([flatten, halve])
    [InferredShape([N, 12]), InferredShape([2*N, 6])]
    """

    data_shape: Sequence[DimLike] | None = None
    shape: Sequence[DimLike] | None = None
    special_zero: bool  # required: `__post_init__` says so
    operation: str = "static_reshape"
    expected_shape: Sequence[DimLike] | None = None
    data_type: DataTypeLike | None = None
    explain: bool = False
    data_strides: Sequence[int] | None = None
    data_from: int | None = None

    def __post_init__(self) -> None:
        """Raises TypeError where `special_zero` is missing: where it was to be written, not where it is asked."""
        require_flag(self.special_zero)


require_special_zero(ShapeQuery.__init__)


def split_queries(queries: Iterable[ShapeQuery]) -> Iterator[Sequence[ShapeQuery]]:
    """Splits a batch into calls; one with links stays whole, as a link counts the items of its own call.

    Raises:
        TypeError: it is a single query, or holds what is none.
    """
    queries = _check_queries(queries)
    size = MAX_CALL_QUERIES if all(query.data_from is None for query in queries) else max(len(queries), 1)
    return (queries[start : start + size] for start in range(0, len(queries), size))


def infer_locally(queries: Iterable[ShapeQuery]) -> list[InferredShape | ReshapeError]:
    """Answers as a server does, in this process and by the same rules.

    >>> infer_locally([ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True)])
    [InferredShape([N, 12])]
    """
    return wrap_answers(answer_batch(map(_try_query, _check_queries(queries))))


def _check_queries(queries: Iterable[ShapeQuery]) -> Sequence[ShapeQuery]:
    if isinstance(queries, ShapeQuery) or not isinstance(queries, Iterable):
        kind = type(queries).__name__
        message = f"queries is a single {kind}, and a list of ShapeQuery is meant: write [query]"
        raise TypeError(message)
    listed = queries if isinstance(queries, list | tuple) else list(queries)
    for place, query in enumerate(listed):
        if not isinstance(query, ShapeQuery):
            kind = type(query).__name__
            message = (
                f"queries[{place}] is of the type {kind}: write ShapeQuery(data_shape=..., shape=..., special_zero=...)"
            )
            raise TypeError(message)
    return listed


def _try_query(query: ShapeQuery) -> BatchItem | ReshapeError:
    try:
        return read_query(query)
    except ReshapeError as error:
        return error


def read_query(query: ShapeQuery) -> BatchItem:
    """Returns a query as the rules take it.

    Raises:
        InvalidRequestError: OPERATION_UNSPECIFIED or DIM_SYNTAX_INVALID.
        TypeError: a dim or a flag is none.
    """
    operation = read_operation(query.operation)
    question = Question(
        operation,
        _read_shape(operation, query.data_shape, "data.dims"),
        _read_shape(operation, query.shape, "shape"),
        check_flag(query.special_zero),
        None if query.data_type is None else read_data_type(query.data_type),
        _read_shape(operation, query.expected_shape, "expected_shape.dims"),
    )
    strides = None if query.data_strides is None else read_integers(query.data_strides, "data_strides")
    data_from = None if query.data_from is None else read_integer(query.data_from, "data_from")
    return BatchItem(ShapeRequest(question, bool(query.explain), strides), data_from)


def _read_shape(operation: Operation, dims: Sequence[DimLike] | None, field: str) -> tuple[AnyDim, ...] | None:
    """Reads a shape; as on a server, one of a rank that no operation takes is refused unread."""
    if dims is None:
        return None
    listed = _list_dims(dims, field)
    if len(listed) > MAX_RANK:
        check_rank(operation, len(listed), field, DEFAULT_LIMITS)
    return _read_all(listed, field)


def read_dims(dims: Sequence[DimLike] | None, field: str = "dims") -> tuple[AnyDim, ...] | None:
    """Returns dims as the rules take them; numpy's integers become Python's.

    Raises:
        InvalidRequestError: DIM_SYNTAX_INVALID, of an item of `field`.
        TypeError: a dim is none.
    """
    return None if dims is None else _read_all(_list_dims(dims, field), field)


def _list_dims(dims: Sequence[DimLike], field: str) -> Sequence[DimLike]:
    if type(dims) is tuple or type(dims) is list:  # as most are, which need no call
        return dims
    check_shape(dims, field)
    return tuple(dims)


def _read_all(dims: Sequence[DimLike], field: str) -> tuple[AnyDim, ...]:
    # Most dims are ints, and need no call; a bool is none by its type, and is refused.
    return tuple([dim if type(dim) is int else _read_dim(dim, field, place) for place, dim in enumerate(dims)])


def _read_dim(dim: DimLike, field: str, place: int) -> AnyDim:
    if dim is None:
        return dim
    if isinstance(dim, str):
        try:
            return _parse_dim(dim)
        except InvalidRequestError as error:
            path = f"{field}[{place}]"
            raise InvalidRequestError.of(
                Reason.DIM_SYNTAX_INVALID, error.message, path, index=place, value=dim
            ) from None
    if isinstance(dim, Dim | Expression | Symbol):
        return _index_dim(_check_factors(_name_dim(dim), f"{field}[{place}]", place))
    if not isinstance(dim, tuple | list):
        return read_integer(dim, field, place)
    if isinstance(dim, list) or len(dim) != len(Interval._fields):
        message = f"{field}[{place}] is {dim}: write a tuple (low, high); high is None where nothing bounds it"
        raise TypeError(message)
    low, high = dim
    low = read_integer(low, f"the least of {field}", place)
    return Dim(Interval(low, None if high is None else read_integer(high, f"the most of {field}", place)))


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
