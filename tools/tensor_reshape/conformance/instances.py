"""Instances of a question that is known in part: data and targets of numbers, and what the rules answer them.

Unknowns are settled one by one, and after each the rules say whether an instance is still possible: so one that
contradicts an answer is found among very many.

Laws:

- What is found is an instance, by the rules. That none is found does not prove that there is none: few values of each
  unknown are tried, and no more than a budget of questions is asked.
- The same question has the same instances on every machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from tensor_reshape.client.queries import read_query
from tensor_reshape.client.question_records import read_question
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol, are_known, find_bounds, format_dims
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.json_format import Json
from tensor_reshape.rules.questions import AnyQuestion

_MAX_QUESTIONS = 3000
_MAX_VALUES = 48
_MAX_HINTS = 64
_RANKS = range(4)  # what an unknown rank, or length of a target, may be
_NEAR = 6  # how many values are tried at each end of bounds


class Instance(NamedTuple):
    """An instance that the rules accept.

    Attributes:
        data: its shape.
        target: its items; one that is a length stands as its number.
        names: what each name is.
        output: the answer.
    """

    data: tuple[int, ...]
    target: Sequence[AnyDim]
    names: Mapping[str, int]
    output: tuple[int, ...]

    def __str__(self) -> str:
        """The instance in a line."""
        target = [find_bounds(item).min if isinstance(item, Dim) else item for item in self.target]
        return f"{format_dims(self.data)} to {format_dims(target)} gives {format_dims(self.output)}"

    def evaluate(self, expression: Expression, value: int) -> bool:
        """Whether an expression has this value here."""
        above = expression.coefficient * prod(self.names[symbol.name] for symbol in expression.factors)
        below = expression.divisor * prod(self.names[symbol.name] for symbol in expression.divisors)
        return below != 0 and above == value * below


@dataclass(slots=True)
class _Search:
    """What is left of a search.

    Attributes:
        hints: values that may matter, in order.
        left: how many questions may still be asked.
    """

    hints: Sequence[int]
    left: int = _MAX_QUESTIONS

    def accepts(self, question: AnyQuestion) -> bool:
        """Whether an instance is possible, as far as the rules can tell."""
        self.left -= 1
        try:
            infer(question)
        except InvalidRequestError:
            return False
        return True

    def list_values(self, bounds: Interval) -> Sequence[int]:
        """Returns values between bounds: those at the ends, and hints."""
        low, high = bounds
        ends = {*range(low, low + _NEAR), *(() if high is None else range(max(high - _NEAR, low), high + 1))}
        values = sorted(value for value in {*ends, *self.hints} if bounds.holds(value))
        return values if len(values) <= _MAX_VALUES else [*values[: _MAX_VALUES // 2], *values[-_MAX_VALUES // 2 :]]


def read_rules_question(asked: Json) -> AnyQuestion:
    """Returns a question of the kit as the rules take it.

    Raises:
        InvalidRequestError: it is none, and so to be rejected.
    """
    record = {key: value for key, value in asked.items() if key not in {"id", "bytes"}}
    return read_query(read_question(record)).request.question


def list_names(question: AnyQuestion) -> frozenset[str]:
    """Returns the names that a question has."""
    return frozenset(_meet_names(question))


def list_instances(question: AnyQuestion) -> Iterator[Instance]:
    """Yields instances that the rules accept."""
    search = _Search(_list_hints(question))
    for ranked in _settle_ranks(question):
        yield from _settle(ranked, search)


def find_outside(question: AnyQuestion, index: int, part: Interval) -> Instance | None:
    """Returns an instance whose output has a dim between these bounds; None: none was found.

    Args:
        question: whose output has a rank that is known.
        index: of the dim.
        part: the bounds.
    """
    search = _Search(sorted({*_list_hints(question), *_list_multiples(question, part)}))
    instances = (case for ranked in _settle_ranks(question) for case in _settle(_expect(ranked, index, part), search))
    return next((case for case in instances if index < len(case.output) and part.holds(case.output[index])), None)


def _expect(question: AnyQuestion, index: int, part: Interval) -> AnyQuestion:
    """Returns a question whose output has a dim between bounds: the rules then leave few values to try."""
    expected = tuple(question.expected if question.expected is not None else (None,) * len(question.target or ()))
    if index >= len(expected) or expected[index] is not None:
        return question
    target = question.target or ()
    item = target[index] if index < len(target) else None
    if isinstance(item, Dim) and item.expression is None and not (length := item.bounds.meet(part)).is_empty:
        question = question._replace(target=_put(tuple(target), index, Dim(length)))  # a length is the dim itself
    return question._replace(expected=_put(expected, index, Dim(part)))


def _settle_ranks(question: AnyQuestion) -> Iterator[AnyQuestion]:
    expected = question.expected
    lengths = _RANKS if expected is None else range(len(expected), len(expected) + 1)
    datas = [question.data] if question.data is not None else [(None,) * rank for rank in _RANKS]
    targets = [question.target] if question.target is not None else [(None,) * length for length in lengths]
    for data, target in product(datas, targets):
        yield question._replace(data=data, target=target)


def _settle(question: AnyQuestion, search: _Search) -> Iterator[Instance]:
    """Yields the instances of a question whose ranks are known."""
    if search.left <= 0 or not search.accepts(question):
        return
    following = next(_split(question, search), None)
    if following is None:
        yield from _read_instance(question)
        return
    for settled in following:
        yield from _settle(settled, search)


def _split(question: AnyQuestion, search: _Search) -> Iterator[Iterator[AnyQuestion]]:
    """Yields for each unknown the questions that it makes, one for each of its values."""
    data, target = tuple(question.data or ()), tuple(question.target or ())
    for name, bounds in _meet_names(question).items():
        if bounds.min != bounds.max:
            yield (_name(question, name, value) for value in search.list_values(bounds))
    for index, dim in enumerate(data):
        if dim is None or (isinstance(dim, Dim) and dim.expression is None):
            values = search.list_values(find_bounds(dim))
            yield (question._replace(data=_put(data, index, value)) for value in values)
    for index, item in enumerate(target):
        if item is None or (isinstance(item, Dim) and item.expression is None and item.bounds.min != item.bounds.max):
            lengths = [Dim(Interval(value, value)) for value in search.list_values(find_bounds(item))]
            instructions = [-1, *([0] if question.special_zero else [])] if item is None else []
            items: list[AnyDim] = [*instructions, *lengths]
            yield (question._replace(target=_put(target, index, value)) for value in items)


def _put(dims: tuple[AnyDim, ...], index: int, dim: AnyDim) -> tuple[AnyDim, ...]:
    return (*dims[:index], dim, *dims[index + 1 :])


def _read_instance(question: AnyQuestion) -> Iterator[Instance]:
    """Yields the one instance of a question in which nothing is unknown, if the rules accept it."""
    names = {name: bounds.min for name, bounds in _meet_names(question).items()}
    data = [_find_value(dim, names) for dim in question.data or ()]
    output = infer(question).dims
    if None not in data and are_known(output):
        yield Instance(tuple(dim for dim in data if dim is not None), question.target or (), names, tuple(output))


def _find_value(dim: AnyDim, names: Mapping[str, int]) -> int | None:
    if not isinstance(dim, Dim) or dim.expression is None:
        return find_bounds(dim).min
    above = dim.expression.coefficient * prod(names[symbol.name] for symbol in dim.expression.factors)
    below = dim.expression.divisor * prod(names[symbol.name] for symbol in dim.expression.divisors)
    return above // below if below and above % below == 0 else None


def _list_dims(question: AnyQuestion) -> Iterator[AnyDim]:
    for dims in (question.data, question.target, question.expected):
        yield from dims or ()


def _meet_names(question: AnyQuestion) -> dict[str, Interval]:
    """Returns what is said of each name in all places."""
    names = dict[str, Interval]()
    for dim in _list_dims(question):
        if isinstance(dim, Dim) and dim.expression is not None:
            for symbol in (*dim.expression.factors, *dim.expression.divisors):
                names[symbol.name] = names.get(symbol.name, symbol.bounds).meet(symbol.bounds)
    return names


def _name(question: AnyQuestion, name: str, value: int) -> AnyQuestion:
    """Returns a question in which a name has a value."""

    def settle(dims: Sequence[AnyDim] | None) -> tuple[AnyDim, ...] | None:
        return None if dims is None else tuple(_settle_dim(dim, name, value) for dim in dims)

    return question._replace(
        data=settle(question.data), target=settle(question.target), expected=settle(question.expected)
    )


def _settle_dim(dim: AnyDim, name: str, value: int) -> AnyDim:
    if not isinstance(dim, Dim) or dim.expression is None:
        return dim

    def settle(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
        return tuple(Symbol(name, Interval(value, value)) if symbol.name == name else symbol for symbol in symbols)

    expression = dim.expression._replace(
        factors=settle(dim.expression.factors), divisors=settle(dim.expression.divisors)
    )
    symbol = expression.symbol
    return Dim(dim.bounds if symbol is None else symbol.bounds, expression)


def _list_multiples(question: AnyQuestion, part: Interval) -> Iterator[int]:
    """Yields what an unknown may have to be for a dim to be at an end of these bounds."""
    ends = {max(find_bounds(dim).min, 1) for dim in _list_dims(question)}
    volume = prod(max(find_bounds(dim).min, 1) for dim in question.data or ())
    ends |= {volume, prod(item for item in question.target or () if isinstance(item, int) and item > 0)}
    stop = part.min + _NEAR if part.max is None else min(part.min + _NEAR, part.max + 1)
    multiple = -(-part.min // volume) * volume  # the first one: what has this dim alone for its output
    for value in [*range(part.min, stop), multiple, *([] if part.max is None else [part.max])]:
        yield value
        yield from (value * one // other for one in ends for other in ends if value * one % other == 0)


def _list_hints(question: AnyQuestion) -> Sequence[int]:
    """Returns the ends of all bounds, and their products and quotients: an instance is mostly made of these."""
    ends = {0, 1, 2}
    for dim in _list_dims(question):
        low, high = find_bounds(dim)
        ends |= {max(low, 0), max(low if high is None else high, 0)}
    products = {1}
    for dim in question.data or ():
        bounds = find_bounds(dim)
        products |= {one * max(end, 1) for one in products for end in (bounds.min, bounds.max or 1)}
        products = set(sorted(products)[-_MAX_HINTS:])
    quotients = {one // end for one in products for end in ends if end and one % end == 0}
    return sorted({*ends, *products, *quotients})[: 4 * _MAX_HINTS]
