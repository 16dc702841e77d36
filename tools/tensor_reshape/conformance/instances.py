"""Finds instances of queries with partially known shapes.

An instance consists of a number for each unknown value of the query, and the output shape that the rules infer for
these numbers.

The search replaces the unknown values by numbers, one after the other. After each replacement, it uses the rules to
check whether an instance is still possible. It can therefore find an instance that contradicts an answer, even if the
query has very many instances.

Invariants:

- The rules accept every instance that the search returns. If the search finds no instance, an instance may still exist,
  because the search tries only a few numbers for each unknown value and a limited number of queries.
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
_RANKS = range(4)  # these ranks are tried for a shape whose rank or number of items is unknown
_NEAR = 6  # this many values are tried at each end of the bounds of a dim
_TOO_LARGE = {Reason.DIM_OUT_OF_RANGE, Reason.DIM_OVERFLOW}
_MAX_CHOSEN = 800  # number of queries that `list_accepted` tries


class Instance(NamedTuple):
    """An instance of a query. The rules accept it.

    Attributes:
        data: the input shape.
        target: the items of the requested shape in this instance. An item that stands for a size is a `Dim`, so that
            the size 0 does not count as an instruction to copy.
        names: the value of each symbolic dimension's name in this instance.
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
        """Whether an expression of names has the value `value` in this instance."""
        return expression.evaluate(self.names) == value


@dataclass(slots=True)
class _InstanceSearch:
    """The state of a search for instances.

    Attributes:
        hints: numbers that the search tries in addition to numbers near the bounds of a dim, in ascending order.
        left: the number of queries that the search may still try.
    """

    hints: Sequence[int]
    left: int = _MAX_QUERIES

    def accepts(self, question: AnyQuestion) -> bool:
        """Whether the rules accept a query, so that it may have instances.

        False if the search may try no more queries.
        """
        if self.left <= 0:
            return False
        self.left -= 1
        try:
            infer(question)
        except InvalidRequestError:
            return False
        return True

    def list_values(self, bounds: Interval) -> Sequence[int]:
        """Returns the values within bounds that the search tries, which are near the bounds or among the hints."""
        low, high = bounds
        ends = {*range(low, low + _NEAR), *(() if high is None else range(max(high - _NEAR, low), high + 1))}
        values = sorted(value for value in {*ends, *self.hints} if bounds.holds(value))
        return values if len(values) <= _MAX_VALUES else [*values[: _MAX_VALUES // 2], *values[-_MAX_VALUES // 2 :]]


class _ChosenSearch(_InstanceSearch):
    """A search that tries only the hints, in their order, and the smallest possible value."""

    def list_values(self, bounds: Interval) -> Sequence[int]:
        """Returns the values within bounds that the search tries."""
        values = dict.fromkeys((*self.hints[:2], bounds.min, *self.hints[2:]))
        return [value for value in values if bounds.holds(value)][:_MAX_VALUES]


def list_names(question: AnyQuestion) -> frozenset[str]:
    """Returns the names of the symbolic dimensions in a query."""
    return frozenset(_find_names(question))


def list_instances(question: AnyQuestion) -> Iterator[Instance]:
    """Yields the instances of a query that the search finds."""
    search = _InstanceSearch(_list_hints(question))
    for ranked in _list_ranked(question):
        yield from _solve(ranked, search)


def list_candidates(question: AnyQuestion) -> Iterator[Candidate]:
    """Yields candidates, each with a flag that is True if the rules accept it.

    A candidate is a set of values for the unknown dims of a query. The values have the same names as in conditions. A
    dim without a name is named after its position, for example `data[0]`. Candidates are left out if an expression in
    the query would not be a whole number, or if a dim of the input or output would be too large. The values directly
    outside the bounds of a dim are also tried for the other dims, because a condition may have its limit there.
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
    """Yields values for the unknown dims of a query. The rules accept the values, which come from `chosen`.

    The search also tries products and quotients of a chosen number and a number in the query. If many dims are unknown,
    only the first few values are tried for each of them, so that the search is short.
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
    """Yields the query with numbers for its unknown values. Uses at most `most` numbers for each value."""
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
        # If the rank is unknown in the query, all dims of the candidate count as unknown in the query.
        for index, (dim, value) in enumerate(
            zip((None,) * length if unknown is None else unknown, known or (), strict=False)
        ):
            if not isinstance(dim, int) and (dim is None or dim.expression is None):
                values[f"{field}[{index}]"] = find_bounds(value).min
    return values


def find_outside(question: AnyQuestion, index: int, part: Interval) -> Instance | None:
    """Returns an instance in which the output dim at `index` is within the bounds `part`, or None if none was found."""
    search = _InstanceSearch(sorted({*_list_hints(question), *_list_multiples(question, part)}))
    instances = (one for ranked in _list_ranked(question) for one in _solve(_expect(ranked, index, part), search))
    return next((one for one in instances if index < len(one.output) and part.holds(one.output[index])), None)


def _expect(question: AnyQuestion, index: int, part: Interval) -> AnyQuestion:
    """Adds bounds for an output dim to the query, so that the search has to try fewer values."""
    expected = tuple(question.expected if question.expected is not None else (None,) * len(question.target or ()))
    if index >= len(expected) or expected[index] is not None:
        return question
    target = tuple(question.target or ())
    item = target[index] if index < len(target) else None
    if isinstance(item, Dim) and item.expression is None and not (length := item.bounds.meet(part)).is_empty:
        # If the requested item is a partially known size, it is equal to the output dim. It therefore gets the same
        # bounds.
        question = question._replace(target=_put(target, index, Dim(length)))
    return question._replace(expected=_put(expected, index, Dim(part)))


def _list_ranked(question: AnyQuestion) -> Iterator[AnyQuestion]:
    """Yields the query once for each choice of ranks that is tried for its shapes of unknown rank."""
    expected = question.expected
    lengths = _RANKS if expected is None else range(len(expected), len(expected) + 1)
    datas = [question.data] if question.data is not None else [(None,) * rank for rank in _RANKS]
    targets = [question.target] if question.target is not None else [(None,) * length for length in lengths]
    for data, target in product(datas, targets):
        yield question._replace(data=data, target=target)


def _solve(question: AnyQuestion, search: _InstanceSearch) -> Iterator[Instance]:
    """Yields the instances of a query in which all ranks are known."""
    for candidate in _replace_unknown(question, search, search.accepts):
        if (instance := _build_instance(candidate)) is not None:
            yield instance


def _replace_unknown(
    question: AnyQuestion, search: _InstanceSearch, keep: Callable[[AnyQuestion], bool]
) -> Iterator[AnyQuestion]:
    """Yields the query with numbers for its unknown values. Leaves out queries for which `keep` returns False."""
    if not keep(question):
        return
    alternatives = next(_list_alternatives(question, search), None)
    if alternatives is None:
        yield question
        return
    for alternative in alternatives:
        yield from _replace_unknown(alternative, search, keep)


def _list_alternatives(question: AnyQuestion, search: _InstanceSearch) -> Iterator[Iterator[AnyQuestion]]:
    """For each unknown value of the query, yields an iterator of the queries in which a number replaces this value."""
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
    """Whether the rules accept a query without unknown values, or None if a dim would be too large for an instance."""
    try:
        return are_known(infer(question).dims)
    except InvalidRequestError as error:
        return None if error.reason in _TOO_LARGE else False


def _build_instance(question: AnyQuestion) -> Instance | None:
    """Returns a query without unknown values as an instance, or None if the rules reject the query."""
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
    """Returns the bounds of each name in a query. If a name occurs in several dims, the bounds of all of them apply."""
    names = dict[str, Interval]()
    for dim in _list_dims(question):
        if isinstance(dim, Dim) and dim.expression is not None:
            for symbol in dim.expression.symbols:
                names[symbol.name] = names.get(symbol.name, symbol.bounds).meet(symbol.bounds)
    return names


def _set_name(question: AnyQuestion, name: str, value: int) -> AnyQuestion:
    """Returns the query with a value for a name."""
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
    """Yields values for an unknown dim. Such a value may make an output dim equal to a bound of `part`."""
    ends = {max(find_bounds(dim).min, 1) for dim in _list_dims(question)}
    volume = prod(max(find_bounds(dim).min, 1) for dim in question.data or ())
    ends |= {volume, prod(item for item in question.target or () if isinstance(item, int) and item > 0)}
    stop = part.min + _NEAR if part.max is None else min(part.min + _NEAR, part.max + 1)
    multiple = -(-part.min // volume) * volume  # the smallest multiple of the number of elements within the bounds
    for value in [*range(part.min, stop), multiple, *([] if part.max is None else [part.max])]:
        yield value
        yield from (value * one // other for one in ends for other in ends if value * one % other == 0)


def _list_hints(question: AnyQuestion) -> Sequence[int]:
    """Returns the bounds of all dims of a query, and the products and quotients of these bounds.

    In most instances, the dims are such numbers.
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
