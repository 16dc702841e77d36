"""Hypothesis strategies for dims of every kind."""

from hypothesis import strategies as st

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.questions import Question, ShapeRequest
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
SHAPES = st.none() | st.lists(DIMS, max_size=3)
QUESTIONS = st.builds(
    lambda operation, data, target, special_zero, data_type, expected: Question(
        operation=operation, data=data, target=target, special_zero=special_zero, data_type=data_type, expected=expected
    ),
    st.sampled_from(list(OPERATIONS.values())),
    SHAPES,
    SHAPES,
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
