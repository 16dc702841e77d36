"""Queries that are small enough to try their instances one by one."""

from dataclasses import dataclass
from random import Random

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_dim, make_expression, name_dim
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, ONNX_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

_OPERATIONS = (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE, RESHAPE, ONNX_RESHAPE)
_NUMBERS = (0, 1, 1, 2, 2, 3, 4, 5, 6)
_NAMES = "NMK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The parameters of random queries.

    Attributes:
        rank: the maximum rank of the data and number of items.
        named: the share of symbols among the unknown dimensions.
        products: the share of expressions among the symbols.
        open: the share of intervals without an upper end.
        unknown: the share of unknown items.
        expected: the share of queries with an expected shape.
        rankless: the share of queries whose data has an unknown rank.
    """

    rank: int = 3
    named: float = 0.0
    products: float = 0.0
    open: float = 0.2
    unknown: float = 0.15
    expected: float = 0.15
    rankless: float = 0.0


STYLES = {
    "plain": Style(),
    "bounded": Style(open=0.0),
    "high rank": Style(rank=4, open=0.1, expected=0.1),
    "symbols": Style(named=0.6, open=0.1),
    "repeated symbols": Style(named=0.95, open=0.0, unknown=0.1, expected=0.05),
    "expressions": Style(named=0.8, products=0.5, open=0.1),
    "unknown items": Style(unknown=0.6, open=0.05),
    "expected": Style(expected=1.0, unknown=0.3, open=0.1),
    "unknown rank": Style(rankless=1.0, named=0.2),
}


def choose_question(random: Random, style: Style) -> AnyQuestion:
    """Returns a random query."""
    data = None if random.random() < style.rankless else _choose_dims(random, style)
    target: list[AnyDim] | None = [_choose_item(random, style) for _ in range(random.randint(0, style.rank))]
    expected = [_choose_dim(random, style) for _ in target or ()] if random.random() < style.expected else None
    if expected is not None and random.random() < style.unknown / 2:
        target = None
    return Question(
        operation=random.choice(_OPERATIONS),
        data=data,
        target=target,
        special_zero=random.random() < 0.6,
        expected=expected,
    )


def _choose_dims(random: Random, style: Style) -> list[AnyDim]:
    return [_choose_dim(random, style) for _ in range(random.randint(0, style.rank))]


def _choose_dim(random: Random, style: Style) -> AnyDim:
    if random.random() < 0.35:
        return random.choice(_NUMBERS)
    low = random.choice((0, 0, 0, 1, 1, 2, 3))
    high = None if random.random() < style.open else low + random.choice((0, 1, 1, 1, 2))
    if random.random() >= style.named:
        return make_dim(Interval(low, high))
    if random.random() < style.products:
        return _choose_expression(random)
    return name_dim(random.choice(_NAMES), low if random.random() < 0.5 else 0, high)


def _choose_expression(random: Random) -> Dim:
    symbols = [Symbol(name, Interval(0, 4)) for name in _NAMES]
    above, below = random.choices(symbols, k=random.randint(1, 2)), random.choices(symbols, k=random.random() < 0.2)
    bounds = Interval(random.choice((0, 0, 1)), None)
    return Dim(bounds, make_expression(random.choice((1, 1, 2, 4)), above, random.choice((1, 1, 1, 2)), below))


def _choose_item(random: Random, style: Style) -> AnyDim:
    if random.random() < style.unknown:
        return None
    kind = random.random()
    if kind < 0.3:
        return -1
    if kind < 0.55:
        return 0
    return random.choice((1, 2, 3, 4, 6)) if kind < 0.75 else _choose_dim(random, style)
