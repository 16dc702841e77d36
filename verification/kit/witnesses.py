"""Whether an answer to a question that is known in part is the hull, shown by instances.

Laws: the instances are answered by a reading of the rules that is not the product's (`tests.oracles.shape_instances`).
An answer is wrong where an instance contradicts it. It is shown to be the hull where each of its ends is the output of
an instance; an end that is unbounded, where an output is far away.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from tensor_reshape.client.queries import read_dims, read_query
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, find_bounds
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer
from tensor_reshape.rules.records import Json
from tests.oracles.shape_instances import Accepted, check_soundness, find_accepted
from verification.kit.found_instances import FOUND
from verification.kit.questions import make_query

LARGE = 720_720 * 101
"""What an unbounded dim is tried as: divisible by the numbers up to 16, and its square is a dim."""

_FAR = 100_000  # an output from here on shows that nothing bounds the dim
_BUDGET = 4000
_MAX_PRODUCTS = 64
_NEAR = 12  # so many values at the lower end of a dim are tried
_RANKS = (0, 1, 2, 3)


class Showing(NamedTuple):
    """What was shown of an answer.

    Attributes:
        wrong: how an instance contradicts it; empty: none does.
        loose: the end that no instance reaches; empty: each is reached.
    """

    wrong: str = ""
    loose: str = ""


def show(question: Json, told: Json) -> Showing:
    """Tries the instances of a question against what is told of it."""
    answer, accepted = _read_answer(told), set[Accepted]()
    for part in (*_list_parts(_read_question(question)), *list_found(question)):
        found = find_accepted(part, budget=_BUDGET)
        wrong = check_soundness(found, answer)
        if wrong:
            return Showing(wrong=wrong)
        accepted |= found.accepted
    return Showing(loose="" if answer is None else _find_loose(answer, accepted))


def _read_question(question: Json) -> AnyQuestion:
    return _rename(read_query(make_query(question)).request.question)


def _read_answer(told: Json) -> ShapeAnswer | None:
    if "error" in told:
        return None
    dims = read_dims(None if told["shape"] is None else list(map(_write, told["shape"])))
    return ShapeAnswer(None if dims is None else tuple(map(_rename_dim, dims)))


def _write(dim: int | Json | None) -> int | str | None:
    """Returns a dim of an answer as people write it."""
    if not isinstance(dim, dict):
        return dim
    bounds = f"{dim['min']}..{'' if dim['max'] is None else dim['max']}"
    return f"{dim['name']}:{bounds}" if "name" in dim else bounds


def _find_loose(answer: ShapeAnswer, accepted: set[Accepted]) -> str:
    if answer.dims is None:
        ranks = {len(case.output) for case in accepted}
        return "" if len(ranks) > 1 else f"the rank is {ranks}"
    if not accepted:
        return "no instance is accepted"
    for index, dim in enumerate(answer.dims):
        low, high = find_bounds(dim)
        values = {case.output[index] for case in accepted}
        if low not in values or (max(values) < _FAR if high is None else high not in values):
            return f"dim {index} is {low}..{'' if high is None else high}, tried are {min(values)} to {max(values)}"
    return ""


def _list_parts(question: AnyQuestion) -> Iterator[AnyQuestion]:
    """Yields the question, and it with dims of the data where they matter: at ends, and where volumes are equal."""
    yield question
    data, target = question.data, question.target
    if target is None:
        yield from (question._replace(target=(None,) * rank) for rank in _RANKS if question.expected is None)
    if data is None:
        yield from (question._replace(data=dims) for dims in _list_data(question))
        return
    ends = [_list_ends(question, dim) for dim in data]
    for index, dims in enumerate(ends):
        yield from (question._replace(data=(*data[:index], end, *data[index + 1 :])) for end in dims)
    yield question._replace(data=tuple(dims[-1] if dims else dim for dims, dim in zip(ends, data, strict=True)))


def list_found(question: Json) -> Iterator[AnyQuestion]:
    """Yields the question with the numbers that were found by hand; nothing where they are not of its dims."""
    asked = _read_question(question)
    data, target = asked.data or (), asked.target
    for found in FOUND.get(question["id"].partition("@")[0], ()):
        if all(map(_may_be, (*data, *(target or ())), (*found.data, *found.target))):
            items = found.target if target is None else map(_put_exactly, target, found.target)
            yield asked._replace(data=tuple(map(_put_exactly, data, found.data)), target=tuple(items))


def _may_be(dim: AnyDim, number: int) -> bool:
    """Whether a dim, or its name, may be a number; what is a number stays as it is."""
    return isinstance(dim, int) or find_bounds(dim).holds(number)


def _put_exactly(dim: AnyDim, number: int) -> AnyDim:
    """Returns a dim that is a number as a length: a 0 in a target does not copy."""
    put = dim if isinstance(dim, int) else _put(dim, number)
    return Dim(Interval(put, put)) if isinstance(put, int) and not isinstance(dim, int) else put


def _list_data(question: AnyQuestion) -> Iterator[tuple[int, ...]]:
    """Yields data of some ranks, for a question that does not say which."""
    yield from ((LARGE,) * count + (1,) * more for count in (0, 1, 2) for more in _RANKS)
    target = question.target or ()
    for rank in range(1, len(target) + 1):
        rest = [max(find_bounds(item).min, 1) for item in target[:rank]]
        for volume, index in product(_list_products(target), range(rank)):
            yield from ((*rest[:index], value, *rest[index + 1 :]) for value in (volume, LARGE, 0))
            yield tuple(volume if at == index else 1 for at in range(rank))


def _list_ends(question: AnyQuestion, dim: AnyDim) -> list[AnyDim]:
    """Returns a dim at its ends, at those of what is expected, and where data and target have one volume."""
    low, high = find_bounds(dim)
    if low == high:
        return []
    others = {end for want in question.expected or () for end in find_bounds(want) if end is not None}
    known = _list_products([other for other in question.data or () if other is not dim])
    others |= {want // have for want in _list_products(_copy(question)) for have in known if want % have == 0}
    last = max(low, LARGE) if high is None else high
    values = [*sorted({*others, *range(low, low + _NEAR), *range(last - _NEAR, last)}), last]
    return [_put(dim, value) for value in values if find_bounds(dim).holds(value)]


def _copy(question: AnyQuestion) -> list[AnyDim]:
    """Returns the target, dims of the data in place of copies."""
    data, target = question.data or (), question.target or ()
    copies = [item == 0 and question.special_zero and index < len(data) for index, item in enumerate(target)]
    return [data[index] if copies[index] else item for index, item in enumerate(target)]


def _list_products(dims: Sequence[AnyDim]) -> list[int]:
    """Returns what the product of dims may be, each at one of its ends; an unbounded one may be large."""
    products = {1}
    for dim in dims:
        low, high = find_bounds(dim)
        ends = {max(low, 1), max(low, LARGE) if high is None else max(high, 1)}
        products = set(sorted({one * end for one in products for end in ends})[:_MAX_PRODUCTS])
    return sorted(products)


def _put(dim: AnyDim, value: int) -> AnyDim:
    """Returns a dim that has a value; where it has names, the first has it."""
    if not isinstance(dim, Dim) or dim.expression is None or not dim.expression.factors:
        return value
    first, *rest = dim.expression.factors
    exact = Interval(value, value)
    expression = dim.expression._replace(factors=(Symbol(first.name, exact), *rest))
    return Dim(exact if dim.expression.symbol else dim.bounds, expression)


def _rename(question: AnyQuestion) -> AnyQuestion:
    """Returns a question whose names are words: of others the oracle takes the space for its own."""
    data, target, expected = (
        None if dims is None else tuple(map(_rename_dim, dims))
        for dims in (question.data, question.target, question.expected)
    )
    return question._replace(data=data, target=target, expected=expected)


def _rename_dim(dim: AnyDim) -> AnyDim:
    if not isinstance(dim, Dim) or dim.expression is None:
        return dim
    factors, divisors = (
        tuple(Symbol(symbol.name.replace(" ", "_"), symbol.bounds) for symbol in symbols)
        for symbols in (dim.expression.factors, dim.expression.divisors)
    )
    return Dim(dim.bounds, dim.expression._replace(factors=factors, divisors=divisors))
