"""Hypothesis strategies for dims of every kind, queries and tensors."""

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import strategies as st

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.layouts import compute_span
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_reshape.wire.reshapes import ReshapeCall
from tensor_reshape.wire.tensors import TensorView
from verification.prove import STYLES, choose_question

S64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from(["N", "M", "batch", "a name with spaces", "größe", "名", "", "\n", "N" * 65])


def _bound(low: int, more: int | None) -> Interval:
    return Interval(low, None if more is None else min(low + more, 2**63 - 1))


BOUNDS = st.just(ANY) | st.builds(_bound, st.integers(0, 2**63 - 1), st.none() | st.integers(0, 2**63 - 1))


def _make_term(
    coefficient: int, names: list[str], divisor: int, below: list[str], bounds: dict[str, Interval]
) -> Expression:
    symbols = [[Symbol(name, bounds.get(name, ANY)) for name in group] for group in (names, below)]
    return make_expression(coefficient, symbols[0], divisor, symbols[1])


TERMS = st.builds(
    _make_term,
    st.integers(1, 2**63 - 1),
    st.lists(NAMES, max_size=3),
    st.integers(1, 2**63 - 1),
    st.lists(NAMES, max_size=3),
    st.dictionaries(NAMES, BOUNDS, max_size=3),
)
UNNAMED: st.SearchStrategy[AnyDim] = BOUNDS.map(Dim)
NAMED: st.SearchStrategy[AnyDim] = st.builds(lambda name, bounds: name_dim(name, *bounds), NAMES, BOUNDS)
EXPRESSED: st.SearchStrategy[AnyDim] = st.builds(
    Dim, BOUNDS, TERMS.filter(lambda expression: expression.symbol is None)
)
DIMS: st.SearchStrategy[AnyDim] = st.none() | S64 | UNNAMED | NAMED | EXPRESSED
TARGETS = st.none() | st.lists(DIMS, max_size=3)
# In a message, the -1 of an input or expected shape means unknown, which is None in a query.
SHAPES = st.none() | st.lists(DIMS.filter(lambda dim: dim != -1), max_size=3)
QUESTIONS = st.builds(
    lambda operation, data, target, special_zero, data_type, expected: Question(
        operation=operation, data=data, target=target, special_zero=special_zero, data_type=data_type, expected=expected
    ),
    st.sampled_from(list(OPERATIONS.values())),
    SHAPES,
    TARGETS,
    st.none() | st.booleans(),
    st.none() | st.sampled_from(list(DataType)),
    SHAPES,
)
REQUESTS = st.builds(ShapeRequest, QUESTIONS, st.booleans())

# Queries that the rules mostly accept.
_LENGTHS: st.SearchStrategy[AnyDim] = (
    st.integers(0, 6)
    | st.just(2**63 - 1)
    | st.sampled_from([None, name_dim("N"), name_dim("M", 1, 9), Dim(Interval(2, 8))])
)
_ITEMS = st.sampled_from([-1, 0, 1]) | _LENGTHS
LAWFUL_REQUESTS = st.builds(
    lambda operation, data, target, explain: ShapeRequest(
        Question(operation=operation, data=data, target=target, special_zero=True), explain
    ),
    st.sampled_from(list(OPERATIONS.values())),
    st.none() | st.lists(_LENGTHS, max_size=5),
    st.none() | st.lists(_ITEMS, max_size=5),
    st.booleans(),
)

SMALL_QUESTIONS = st.builds(choose_question, st.randoms(), st.sampled_from([*STYLES.values()]))
"""Queries that are small enough to be enumerated. About half of them are rejected."""


MAX_ELEMENTS = 2**15
HUGE = st.integers(2**31, 2**63 - 1)
_TINY = st.sampled_from([1, 1, 1, 2, 3, 5])


def _limit(dims: Sequence[int]) -> list[int]:
    """Returns the dims. From the first one that would give too many elements, all are 1."""
    bounded: list[int] = []
    for dim in dims:
        bounded.append(dim if prod(bounded) * dim <= MAX_ELEMENTS else 1)
    return bounded


def _put_zero(dims: Sequence[int], index: int) -> list[int]:
    at = index % (len(dims) + 1)
    return [*dims[:at], 0, *dims[at:]]


FULL_DIMS = (
    st.lists(_TINY, max_size=12)
    | st.lists(_TINY, min_size=13, max_size=66)
    | st.lists(st.integers(1, 200), max_size=3)
    | st.builds(lambda dim, ones: [dim, *[1] * ones], st.integers(1, MAX_ELEMENTS), st.integers(0, 12))
).map(_limit)
EMPTY_DIMS = st.builds(_put_zero, st.lists(_TINY | HUGE, max_size=12), st.integers(0, 12))
DIMS_OF_DATA = FULL_DIMS | EMPTY_DIMS


def _choose_targets(dims: list[int]) -> st.SearchStrategy[list[int]]:
    """Chooses requested shapes that are mostly valid."""
    empty = st.lists(HUGE | _TINY, max_size=11).map(lambda others: [*others, 0])
    return st.one_of(
        st.just([-1]),
        st.permutations(dims).map(list),
        st.integers(0, len(dims)).map(lambda count: [0] * count + [-1]),
        st.integers(1, 20).map(lambda ones: [*[1] * ones, prod(dims) % 2**63]),
        empty if 0 in dims else st.just([prod(dims)]),
        st.lists(st.integers(-2, 6), max_size=4),
    )


def _choose_strides(dims: list[int]) -> st.SearchStrategy[tuple[int, ...] | None]:
    """Sometimes chooses column-major strides, and rarely invalid strides."""
    columns = tuple(min(prod(dims[:axis]), 2**63 - 1) for axis in range(len(dims)))
    return st.sampled_from([None, None, None, columns, (0,) * len(dims), (1, 2)])


@st.composite
def reshape_calls(draw: st.DrawFn, operation: Operation | None = None) -> tuple[ReshapeCall, TensorView | None]:
    """Draws a query with its data, and its requested shape as a tensor if the operation needs one."""
    operation = operation or draw(st.sampled_from(list(OPERATIONS.values())))
    data_type = draw(st.sampled_from(sorted(operation.data_types)))
    dims = draw(DIMS_OF_DATA)
    strides, target = draw(_choose_strides(dims)), draw(_choose_targets(dims))
    span = compute_span(dims, strides) if strides and len(strides) == len(dims) else prod(dims)
    size = data_type.count_bytes(span)
    data = TensorView(data_type, tuple(dims), strides, memoryview(draw(st.randoms()).randbytes(size)))
    shape = view_target(operation, target)
    question = Question(
        operation=operation,
        data=data.dims,
        target=target,
        special_zero=draw(st.sampled_from([True, True, True, False, None])),
        data_type=data_type,
        expected=draw(st.none() | st.none() | st.lists(DIMS, max_size=3)),
    )
    return ReshapeCall(question, data), shape


def view_target(operation: Operation, target: Sequence[int]) -> TensorView | None:
    """Returns the requested shape as a tensor. For DynamicReshape, too large values become the largest i32."""
    if operation is STATIC_RESHAPE:
        return None
    data_type = DataType.I32 if operation is DYNAMIC_RESHAPE else DataType.I64
    most = 2 ** (data_type.bits - 1) - 1
    items = np.array([min(item, most) for item in target], f"<i{data_type.group_bytes}")
    return TensorView(data_type, (len(target),), None, memoryview(items.tobytes()))


def make_packable(data_type: DataType, numbers: Array) -> Array:
    """Returns elements of a packed type that numpy supports. Each element has the lowest bits of a number."""
    values = numbers.astype(np.int64) % 2**data_type.bits
    sign = 2 ** (data_type.bits - 1) if data_type.kind is ElementKind.SIGNED else 0
    array: Array = ((values ^ sign) - sign).astype(np.int8).view(DTYPES[data_type])
    return array
