"""Hypothesis strategies for dims of every kind."""

from hypothesis import strategies as st

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import OPERATIONS, SHAPE_OPERATIONS
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest

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
        operation=operation,
        data=data,
        target=target,
        special_zero=special_zero,
        data_type=data_type,
        expected=expected,
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

# Queries with every legal kind of value, which are small enough to be enumerated. About half of them are rejected.
_SMALL = st.sampled_from([0, 1, 1, 2, 2, 3, 4, 5, 6, 12])
_LETTERS = st.sampled_from("NMK")
_SMALL_BOUNDS = st.builds(
    lambda low, more: Interval(low, None if more is None else low + more),
    st.integers(0, 4),
    st.none() | st.integers(0, 3),
)
_SMALL_NAMED = st.builds(lambda name, bounds: name_dim(name, *bounds), _LETTERS, st.just(ANY) | _SMALL_BOUNDS)
_SMALL_PRODUCTS = st.builds(
    lambda number, above, divisor, below, bounds: Dim(
        bounds, make_expression(number, [*map(Symbol, above)], divisor, [*map(Symbol, below)])
    ),
    st.sampled_from([1, 2, 4, 6]),
    st.lists(_LETTERS, min_size=1, max_size=3),
    st.sampled_from([1, 1, 2, 3]),
    st.lists(_LETTERS, max_size=1),
    st.just(ANY) | _SMALL_BOUNDS,
).filter(lambda dim: dim.is_product)
SMALL_DIMS: st.SearchStrategy[AnyDim] = st.one_of(
    _SMALL, _SMALL, st.none(), _SMALL_BOUNDS.map(Dim), _SMALL_NAMED, _SMALL_PRODUCTS
)


@st.composite
def _draw_small_question(draw: st.DrawFn) -> AnyQuestion:
    data = draw(st.none() | st.lists(SMALL_DIMS, max_size=3) | st.lists(SMALL_DIMS, max_size=3))
    known = [dim for dim in data or () if isinstance(dim, Dim)]
    same = st.sampled_from(known) if known else SMALL_DIMS
    target = draw(st.lists(st.sampled_from([-1, 0]) | SMALL_DIMS | SMALL_DIMS | same, max_size=3))
    expected = draw(st.none() | st.tuples(*[SMALL_DIMS | same for _ in target]))
    return Question(
        operation=draw(st.sampled_from([*SHAPE_OPERATIONS.values()])),
        data=data,
        target=None if expected is not None and draw(st.integers(0, 9)) == 0 else target,
        special_zero=draw(st.booleans()),
        expected=expected,
    )


SMALL_QUESTIONS = _draw_small_question()
