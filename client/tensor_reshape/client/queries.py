"""Checks shape queries in the caller's notation, with ints, intervals, names, and unknown dimensions.

Invariants:

- A query is checked before anything is sent. An invalid query is rejected in this process, with the error that a server
  would return.
- Nothing is rounded. If an integer is required, a value of another type raises a TypeError.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import TypeAlias, TypedDict, Unpack

from tensor_reshape.client.arguments import (
    DataTypeLike,
    check_flag,
    check_keywords,
    check_shape,
    read_data_type,
    read_integer,
    read_operation,
    require_flag,
    require_special_zero,
)
from tensor_reshape.client.errors import keep_question
from tensor_reshape.client.shapes import InferredShape
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
    read_unknown,
    reject_factors,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_RANK
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import Operation, OperationName, check_rank
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer, ShapeRequest

MAX_CALL_QUERIES = 1024
"""Number of independent queries in one call. A server needs some tens of milliseconds for them."""

MAX_PARALLEL_CALLS = 8
"""Number of simultaneous calls of one batch. The server processes one call while the client writes the next."""

# the results are cached, because most shapes of a model graph use the same few names
_parse_dim = lru_cache(4096)(parse_dim)

DimLike: TypeAlias = int | tuple[int, int | None] | str | Dim | Expression | Symbol | None
"""One dimension: an int, `(min, max)`, text, a `Symbol`, an `Expression`, or None for an unknown dimension.

In the shape of an input or an expected output, -1 is an unknown dimension too. In a requested shape, -1 is an inferred
dimension. In `(min, max)`, a max of None means no upper limit. Text is in the notation of `rules.notation`, such as
"N", "4*C" or "2..8". A `Symbol` may have any name.

>>> client.infer_shape(["N", 4, (2, 8), None], [0, 0, -1], special_zero=True)
InferredShape([N, 4, ?])
"""


class ShapeOptions(TypedDict, total=False):
    """Optional arguments of a shape query.

    Attributes:
        operation: "static_reshape" (default), "dynamic_reshape", "reshape" or "onnx_reshape".
        expected_shape: the output shape that you rely on. The expected shape may be partially known, and the
            inference uses the expected shape as additional information.
        data_type: the element type of the data, which is checked if you pass it.
        explain: whether results name the origin of each dimension, and whether errors suggest values that would be
            accepted.

    >>> client.infer_shape((6,), (-1,), special_zero=False, operation="reshape", data_type="f64", expected_shape=[None])
    InferredShape([6])
    """

    operation: OperationName
    expected_shape: Sequence[DimLike] | None
    data_type: DataTypeLike | None
    explain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeQuery:
    """One shape query of a batch, with the arguments of `Client.infer_shape` and the options in `ShapeOptions`.

    Attributes:
        data_shape: the known part of the input shape, or None if not even its rank is known.
        shape: the known part of the requested shape, or None if not even its length is known.
        special_zero: whether a 0 in `shape` copies the input dimension at its index.
        operation: see `ShapeOptions`.
        expected_shape: see `ShapeOptions`.
        data_type: see `ShapeOptions`.
        explain: see `ShapeOptions`.
        data_from: the index of an earlier query of the batch. The output shape of that query is used instead of
            `data_shape`. If this query has no `data_type`, the `data_type` of the earlier query applies.

    >>> flatten = ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True)
    >>> halve = ShapeQuery(data_from=0, shape=[-1, 6], special_zero=False)
    >>> client.infer_shapes([flatten, halve])
    [InferredShape([N, 12]), InferredShape([2*N, 6])]
    """

    data_shape: Sequence[DimLike] | None = None
    shape: Sequence[DimLike] | None = None
    special_zero: bool  # `__post_init__` checks that this required field has a value
    operation: OperationName = "static_reshape"
    expected_shape: Sequence[DimLike] | None = None
    data_type: DataTypeLike | None = None
    explain: bool = False
    data_from: int | None = None

    def __post_init__(self) -> None:
        """Raises TypeError if `special_zero` is missing, so that the traceback shows the line of the query."""
        require_flag(self.special_zero)


require_special_zero(ShapeQuery.__init__)


def split_queries(queries: Iterable[ShapeQuery]) -> Iterator[Sequence[ShapeQuery]]:
    """Splits a batch into calls.

    A batch with `data_from` is not split, because the index in `data_from` must refer to a query of the same call.

    Raises:
        TypeError: the argument is a single query, or an item is not a query.
    """
    queries = _check_queries(queries)
    size = MAX_CALL_QUERIES if all(query.data_from is None for query in queries) else max(len(queries), 1)
    return (queries[start : start + size] for start in range(0, len(queries), size))


def infer_locally(queries: Iterable[ShapeQuery]) -> list[InferredShape | ReshapeError]:
    """Infers shapes in this process, by the same rules as a server.

    >>> infer_locally([ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True)])
    [InferredShape([N, 12])]
    """
    items = [try_query(query) for query in _check_queries(queries)]
    return wrap_answers(answer_batch(items), items)


@require_special_zero
def infer_shape_locally(
    data_shape: Sequence[DimLike] | None,
    shape: Sequence[DimLike] | None,
    *,
    special_zero: bool,
    **more: Unpack[ShapeOptions],
) -> InferredShape:
    """Infers the output shape of an operation in this process, by the same rules as a server.

    Args:
        data_shape: the known part of the input shape. None means that nothing is known about the input shape.
        shape: the known part of the requested shape. None means that nothing is known about the requested shape.
        special_zero: whether a 0 in `shape` copies the input dimension at the same index.
        **more: the options that `ShapeOptions` describes.

    Raises:
        ReshapeError: the error that `Client.infer_shape` raises.
        TypeError: an argument is missing or has a wrong type.

    >>> infer_shape_locally(["N", "C", 4], [0, -1], special_zero=True)
    InferredShape([N, 4*C])
    """
    check_keywords("infer_shape_locally", more, ("data_shape", "shape", "special_zero"), ShapeOptions)
    (answer,) = infer_locally([ShapeQuery(data_shape=data_shape, shape=shape, special_zero=special_zero, **more)])
    if isinstance(answer, ReshapeError):
        raise answer
    return answer


def wrap_answers(
    answers: Iterable[ShapeAnswer | ReshapeError], items: Sequence[BatchItem | ReshapeError]
) -> list[InferredShape | ReshapeError]:
    """Returns the results of a batch. Each `InferredShape` object and each error contains its query."""
    results = list[InferredShape | ReshapeError]()
    for answer, item in zip(answers, items, strict=True):
        question = None if isinstance(item, ReshapeError) else _find_question(item, results)
        if isinstance(answer, ShapeAnswer):
            results.append(InferredShape(answer, question))
        else:
            results.append(keep_question(answer, question))
    return results


def _find_question(item: BatchItem, results: Sequence[InferredShape | ReshapeError]) -> AnyQuestion | None:
    """Returns the query of a batch item, or None if its `data_from` refers to a query without a result."""
    question, data_from = item.request.question, item.data_from
    if data_from is None:
        return question
    source = results[data_from] if 0 <= data_from < len(results) else None
    return question._replace(data=source.dims) if isinstance(source, InferredShape) else None


def _check_queries(queries: Iterable[ShapeQuery]) -> Sequence[ShapeQuery]:
    if isinstance(queries, ShapeQuery) or not isinstance(queries, Iterable):
        kind = type(queries).__name__
        raise TypeError(f"queries is a single {kind}, not a list: write [query]")
    listed = queries if isinstance(queries, list | tuple) else list(queries)
    for place, query in enumerate(listed):
        if not isinstance(query, ShapeQuery):
            kind = type(query).__name__
            message = (
                f"queries[{place}] is of the type {kind}: write ShapeQuery(data_shape=..., shape=..., special_zero=...)"
            )
            raise TypeError(message)
    return listed


def try_query(query: ShapeQuery) -> BatchItem | ReshapeError:
    """Converts a query to the form that the rules use. If the query is invalid, returns its rejection instead."""
    try:
        return read_query(query)
    except ReshapeError as error:
        return error


def read_query(query: ShapeQuery) -> BatchItem:
    """Converts a query to the form that the rules use.

    Raises:
        InvalidRequestError: OPERATION_UNSPECIFIED or DIM_SYNTAX_INVALID.
        TypeError: a dimension or a flag has a wrong type.
    """
    operation = read_operation(query.operation)
    question = Question(
        operation,
        read_unknown(read_dims(query.data_shape, "data.dims", operation)),
        read_dims(query.shape, "shape", operation),
        check_flag(query.special_zero),
        None if query.data_type is None else read_data_type(query.data_type),
        read_unknown(read_dims(query.expected_shape, "expected_shape.dims", operation)),
    )
    data_from = None if query.data_from is None else read_integer(query.data_from, "data_from")
    return BatchItem(ShapeRequest(question, bool(query.explain)), data_from)


def read_dims(
    dims: Sequence[DimLike] | None, field: str = "dims", operation: Operation | None = None
) -> tuple[AnyDim, ...] | None:
    """Converts dimensions to the form that the rules use. Integers of numpy become Python integers.

    Like a server, this function first rejects a rank that the operation does not support, and then reads the
    dimensions.

    Raises:
        InvalidRequestError: DIM_SYNTAX_INVALID, if the text of a dimension is invalid.
        TypeError: an item is not a dimension.
    """
    if dims is None:
        return None
    # a shape is usually a list or a tuple, which needs no further check here
    if type(dims) is not tuple and type(dims) is not list:
        check_shape(dims, field)
        dims = tuple(dims)
    if operation is not None and len(dims) > MAX_RANK:
        check_rank(operation, len(dims), field, DEFAULT_LIMITS)
    # Most dimensions have the exact type int. `_read_dim` is called only for other types, such as bools, which it
    # rejects.
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
        return _read_named(dim, f"{field}[{place}]", place)
    if not isinstance(dim, tuple | list):
        return read_integer(dim, field, place)
    if isinstance(dim, list) or len(dim) != len(Interval._fields):
        raise TypeError(f"{field}[{place}] is {dim}: write a tuple (low, high), with high None for no upper limit")
    low, high = dim
    low = read_integer(low, f"the minimum of {field}", place)
    return Dim(Interval(low, None if high is None else read_integer(high, f"the maximum of {field}", place)))


def _read_named(name: Dim | Expression | Symbol, path: str, place: int) -> Dim:
    """Returns a named dimension in the form of the API, with factors ordered by name."""
    if not isinstance(name, Dim):
        name = Dim(ANY, name if isinstance(name, Expression) else Expression(1, (name,)))
    bounds, expression = _index_bounds(name.bounds), name.expression
    if expression is None:
        return Dim(bounds)
    # Like a server, the client counts the symbols before it simplifies the expression, because simplifying takes longer
    # with more symbols.
    if len(expression.symbols) > MAX_FACTORS:
        raise reject_factors(len(expression.symbols), path, place)
    coefficient, factors, divisor, divisors = expression.map_factors(
        lambda symbol: Symbol(symbol.name, _index_bounds(symbol.bounds))
    )
    named = make_expression(index(coefficient), factors, index(divisor), divisors)
    return Dim(bounds, named) if named.symbol is None else bound_dim(bounds.meet(named.symbol.bounds), named)


def _index_bounds(bounds: Interval) -> Interval:
    low, high = bounds
    return Interval(index(low), None if high is None else index(high))
