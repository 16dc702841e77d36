"""Finds concrete instances of partially known queries.

An instance has a number for each unknown value of the query, and the output shape that follows from the rules.

The search gives a number to one unknown value after the other. After each number, the rules decide whether an instance
is still possible. The search can therefore find an instance that contradicts an answer, even if the query has very many
instances.

Invariants:

- The rules accept every instance that the search returns. If the search finds no instance, there may still be one,
  because the search tries few numbers for each unknown value and a limited number of queries.
- For the same query, the search returns the same instances on every machine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol, are_known, find_bounds, format_dims
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.questions import AnyQuestion

Candidate: TypeAlias = tuple[Mapping[str, int], bool]
"""Values of the unknown dims of a query, by name or position, and whether the rules accept them."""

_MAX_QUERIES = 3000
_MAX_VALUES = 48
_MAX_HINTS = 64
_RANKS = range(4)  # these values are tried for an unknown rank, and for an unknown length of a requested shape
_NEAR = 6  # this many values are tried at each end of the bounds of a dim
_TOO_LARGE = {Reason.DIM_OUT_OF_RANGE, Reason.DIM_OVERFLOW}
_MAX_CHOSEN = 800  # this many queries are tried with chosen numbers


class Instance(NamedTuple):
    """An instance of a query, which the rules accept.

    Attributes:
        data: the data shape.
        target: the items of the target in this instance. A length is a `Dim`, so that a length of 0 does not count as a
            copy.
        names: the value of each name in this instance.
        output: the output shape.
    """

    data: tuple[int, ...]
    target: Sequence[AnyDim]
    names: Mapping[str, int]
    output: tuple[int, ...]

    def __str__(self) -> str:
        """Returns the instance as one line of text."""
        target = [find_bounds(item).min if isinstance(item, Dim) else item for item in self.target]
        return f"{format_dims(self.data)} to {format_dims(target)} gives {format_dims(self.output)}"

    def evaluate(self, expression: Expression, value: int) -> bool:
        """Whether an expression has the value `value` in this instance."""
        return expression.evaluate(self.names) == value


@dataclass(slots=True)
class _InstanceSearch:
    """The state of a search for instances.

    Attributes:
        hints: values that the search tries in addition to values near the bounds, in ascending order.
        left: the number of queries that the search may still try.
    """

    hints: Sequence[int]
    left: int = _MAX_QUERIES

    def accepts(self, question: AnyQuestion) -> bool:
        """Whether the rules accept a query, so that an instance of it may exist. False if no query is left."""
        if self.left <= 0:
            return False
        self.left -= 1
        try:
            infer(question)
        except InvalidRequestError:
            return False
        return True

    def list_values(self, bounds: Interval) -> Sequence[int]:
        """Returns the values to try within bounds, which are values near the bounds and the hints."""
        low, high = bounds
        ends = {*range(low, low + _NEAR), *(() if high is None else range(max(high - _NEAR, low), high + 1))}
        values = sorted(value for value in {*ends, *self.hints} if bounds.holds(value))
        return values if len(values) <= _MAX_VALUES else [*values[: _MAX_VALUES // 2], *values[-_MAX_VALUES // 2 :]]


class _ChosenSearch(_InstanceSearch):
    """A search that tries only the hints, in their order, and the least value."""

    def list_values(self, bounds: Interval) -> Sequence[int]:
        """Returns the values to try within bounds."""
        values = dict.fromkeys((*self.hints[:2], bounds.min, *self.hints[2:]))
        return [value for value in values if bounds.holds(value)][:_MAX_VALUES]


def list_names(question: AnyQuestion) -> frozenset[str]:
    """Returns the names in a query."""
    return frozenset(_find_names(question))


def list_instances(question: AnyQuestion) -> Iterator[Instance]:
    """Yields instances of a query that the rules accept."""
    search = _InstanceSearch(_list_hints(question))
    for ranked in _list_ranked(question):
        yield from _solve(ranked, search)


def list_candidates(question: AnyQuestion) -> Iterator[Candidate]:
    """Yields values of the unknown dims of a query, and whether the rules accept these values.

    The values are named as in conditions. A dim without a name is called by its position. Values are left out if an
    expression in the query would not be a whole number, or if a dim of the input or output would be too large. The
    values directly outside the bounds of each dim are tried for the other dims, too, because a condition may end there.
    """
    outside = {end for dim in _list_dims(question) for end in _list_outside(find_bounds(dim))}
    search = _InstanceSearch(sorted({*_list_hints(question), *outside}))
    for ranked in _list_ranked(question):
        for candidate in _replace_unknown(ranked, search, lambda _: True):
            names = {name: bounds.min for name, bounds in _find_names(candidate).items()}
            expressions = [dim.expression for dim in _list_dims(candidate) if isinstance(dim, Dim)]
            is_accepted = _is_accepted(candidate)
            if is_accepted is not None and all(one is None or one.evaluate(names) is not None for one in expressions):
                yield _list_values(question, candidate, names), is_accepted


def list_accepted(question: AnyQuestion, chosen: Sequence[int]) -> Iterator[Mapping[str, int]]:
    """Yields values of the unknown dims of a query that the rules accept, and which are among the chosen numbers.

    Multiples of the chosen numbers for numbers of the query are tried, too. If many dims are unknown, each one has only
    the first of these numbers, so that the search is short.
    """
    factors = sorted({end for dim in _list_dims(question) for end in find_bounds(dim) if end and 1 < end <= _MAX_HINTS})
    multiples = [
        value
        for one in chosen
        for factor in factors
        for value in (-(-one // factor) * factor, one * factor, one // factor)
    ]
    search = _ChosenSearch([*dict.fromkeys((*chosen[:2], 1, 2, *multiples, *chosen, *factors))], _MAX_CHOSEN)
    for ranked in _list_ranked(question):
        unnamed = [
            dim for dim in _list_dims(ranked) if dim is None or (isinstance(dim, Dim) and dim.expression is None)
        ]
        unknown = len(_find_names(ranked)) + len(unnamed)
        most = max(2, int(_MAX_CHOSEN ** (1 / max(unknown, 1))))
        for candidate in _choose_values(ranked, search, most):
            if _build_instance(candidate) is not None:
                names = {name: bounds.min for name, bounds in _find_names(candidate).items()}
                yield _list_values(question, candidate, names)


def _choose_values(question: AnyQuestion, search: _InstanceSearch, most: int) -> Iterator[AnyQuestion]:
    """Yields a query with numbers for its unknown values, at most `most` accepted numbers for each of them."""
    alternatives = next(_list_alternatives(question, search), None)
    if alternatives is None:
        yield question
        return
    for alternative in islice((one for one in alternatives if search.accepts(one)), most):
        yield from _choose_values(alternative, search, most)


def _list_outside(bounds: Interval) -> Iterator[int]:
    if bounds.min > 0:
        yield bounds.min - 1
    if bounds.max is not None:
        yield bounds.max + 1


def _list_values(asked: AnyQuestion, candidate: AnyQuestion, names: Mapping[str, int]) -> dict[str, int]:
    values = dict(names)
    sides = (("data", asked.data, candidate.data), ("shape", asked.target, candidate.target))
    for field, unknown, known in sides:
        length = len(known or ())
        # If a rank is unknown, each dim of the candidate is one that the query does not give.
        for index, (dim, value) in enumerate(
            zip((None,) * length if unknown is None else unknown, known or (), strict=False)
        ):
            if not isinstance(dim, int) and (dim is None or dim.expression is None):
                values[f"{field}[{index}]"] = find_bounds(value).min
    return values


def find_outside(question: AnyQuestion, index: int, part: Interval) -> Instance | None:
    """Returns an instance whose output dim is within given bounds. The result is None if no such instance was found."""
    search = _InstanceSearch(sorted({*_list_hints(question), *_list_multiples(question, part)}))
    instances = (one for ranked in _list_ranked(question) for one in _solve(_expect(ranked, index, part), search))
    return next((one for one in instances if index < len(one.output) and part.holds(one.output[index])), None)


def _expect(question: AnyQuestion, index: int, part: Interval) -> AnyQuestion:
    """Returns the query with bounds for an output dim, so that the search has to try fewer values."""
    expected = tuple(question.expected if question.expected is not None else (None,) * len(question.target or ()))
    if index >= len(expected) or expected[index] is not None:
        return question
    target = tuple(question.target or ())
    item = target[index] if index < len(target) else None
    if isinstance(item, Dim) and item.expression is None and not (length := item.bounds.meet(part)).is_empty:
        # If a target item is partially known (a length), its value is the output dim, so the item gets the bounds of
        # the output dim.
        question = question._replace(target=_put(target, index, Dim(length)))
    return question._replace(expected=_put(expected, index, Dim(part)))


def _list_ranked(question: AnyQuestion) -> Iterator[AnyQuestion]:
    """Yields the query once for each rank that a shape of unknown rank may have."""
    expected = question.expected
    lengths = _RANKS if expected is None else range(len(expected), len(expected) + 1)
    datas = [question.data] if question.data is not None else [(None,) * rank for rank in _RANKS]
    targets = [question.target] if question.target is not None else [(None,) * length for length in lengths]
    for data, target in product(datas, targets):
        yield question._replace(data=data, target=target)


def _solve(question: AnyQuestion, search: _InstanceSearch) -> Iterator[Instance]:
    """Yields the instances of a query with known ranks."""
    for candidate in _replace_unknown(question, search, search.accepts):
        if (instance := _build_instance(candidate)) is not None:
            yield instance


def _replace_unknown(
    question: AnyQuestion, search: _InstanceSearch, keep: Callable[[AnyQuestion], bool]
) -> Iterator[AnyQuestion]:
    """Yields a query with numbers for its unknown values. Queries for which `keep` returns False are left out."""
    if not keep(question):
        return
    alternatives = next(_list_alternatives(question, search), None)
    if alternatives is None:
        yield question
        return
    for alternative in alternatives:
        yield from _replace_unknown(alternative, search, keep)


def _list_alternatives(question: AnyQuestion, search: _InstanceSearch) -> Iterator[Iterator[AnyQuestion]]:
    """For each unknown value, yields the queries in which this value is replaced by a number."""
    data, target = tuple(question.data or ()), tuple(question.target or ())
    for name, bounds in _find_names(question).items():
        if bounds.min != bounds.max:
            yield (_set_name(question, name, value) for value in search.list_values(bounds))
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


def _is_accepted(question: AnyQuestion) -> bool | None:
    """Whether the rules accept a query without unknown values. None: a dim would be too large for an instance."""
    try:
        return are_known(infer(question).dims)
    except InvalidRequestError as error:
        return None if error.reason in _TOO_LARGE else False


def _build_instance(question: AnyQuestion) -> Instance | None:
    """Returns the instance of a query without unknown values, if the rules accept the query."""
    names = {name: bounds.min for name, bounds in _find_names(question).items()}
    data = [
        dim.expression.evaluate(names) if isinstance(dim, Dim) and dim.expression is not None else find_bounds(dim).min
        for dim in question.data or ()
    ]
    try:
        output = infer(question).dims
    except InvalidRequestError:
        return None
    if None in data or not are_known(output):
        return None
    return Instance(tuple(dim for dim in data if dim is not None), question.target or (), names, tuple(output))


def _list_dims(question: AnyQuestion) -> Iterator[AnyDim]:
    for dims in (question.data, question.target, question.expected):
        yield from dims or ()


def _find_names(question: AnyQuestion) -> dict[str, Interval]:
    """Returns the bounds of each name. A name may occur in several dims of the query."""
    names = dict[str, Interval]()
    for dim in _list_dims(question):
        if isinstance(dim, Dim) and dim.expression is not None:
            for symbol in dim.expression.symbols:
                names[symbol.name] = names.get(symbol.name, symbol.bounds).meet(symbol.bounds)
    return names


def _set_name(question: AnyQuestion, name: str, value: int) -> AnyQuestion:
    """Returns the query in which a name is replaced by a value."""
    known = Symbol(name, Interval(value, value))

    def set_symbols(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
        return tuple(known if symbol.name == name else symbol for symbol in symbols)

    def set_dim(dim: AnyDim) -> AnyDim:
        if not isinstance(dim, Dim) or dim.expression is None:
            return dim
        expression = dim.expression._replace(
            factors=set_symbols(dim.expression.factors), divisors=set_symbols(dim.expression.divisors)
        )
        symbol = expression.symbol
        return Dim(dim.bounds if symbol is None else symbol.bounds, expression)

    return _map_dims(question, set_dim)


def _map_dims(question: AnyQuestion, change: Callable[[AnyDim], AnyDim]) -> AnyQuestion:
    data, target, expected = (
        None if dims is None else tuple(map(change, dims))
        for dims in (question.data, question.target, question.expected)
    )
    return question._replace(data=data, target=target, expected=expected)


def _list_multiples(question: AnyQuestion, part: Interval) -> Iterator[int]:
    """Yields values of an unknown dim for which an output dim may be equal to one of its bounds."""
    ends = {max(find_bounds(dim).min, 1) for dim in _list_dims(question)}
    volume = prod(max(find_bounds(dim).min, 1) for dim in question.data or ())
    ends |= {volume, prod(item for item in question.target or () if isinstance(item, int) and item > 0)}
    stop = part.min + _NEAR if part.max is None else min(part.min + _NEAR, part.max + 1)
    multiple = -(-part.min // volume) * volume  # the smallest multiple of the volume within the bounds
    for value in [*range(part.min, stop), multiple, *([] if part.max is None else [part.max])]:
        yield value
        yield from (value * one // other for one in ends for other in ends if value * one % other == 0)


def _list_hints(question: AnyQuestion) -> Sequence[int]:
    """Returns the bounds of all dims of a query, and the products and quotients of these bounds.

    The dims of most instances are such numbers.
    """
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
