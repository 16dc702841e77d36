"""Oracle for shape inference, which tries the concrete queries that match a partial one.

The rules are implemented again from the specifications. If a dim is unbounded, or if there are more than BUDGET
instances, the oracle tries only some of them. These can show that a result is unsound, but not that it is loose.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import isqrt, prod
from random import Random

from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    find_bounds,
    find_name,
    format_dims,
)
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer

Dims = tuple[int, ...]
Item = tuple[bool, int]
"""Whether a target item is a dimension whatever its value, and the value."""

Names = dict[str, int]
BUDGET = 600
BIG = 1_000_003
"""A prime above every volume. An output with it as a dim is empty, and could have any number at its place."""

_CAP = 4  # the largest tried value of an unbounded input dim
_WIDEST = 50  # tried values of a bounded dim; if there are more, `Found.complete` is false
_MAX_ROWS = 50_000  # maximum number of listed input shapes, from which the budget is drawn
_LARGEST_VOLUME = 1_000_000  # the largest volume whose divisors are listed; this takes sqrt(volume) steps
_RANKS = (0, 1, 2, 3)  # the tried values of an unknown rank
_UNKNOWN_DIMS = (0, 1, 2, 3, 6)
_UNNAMED = "\0"  # begins the placeholder of a missing name; no name contains it


@dataclass(frozen=True, slots=True)
class Accepted:
    """An instance that the rules accept."""

    data: Dims
    output: Dims
    names: tuple[tuple[str, int], ...]
    items: Dims = ()

    @property
    def values(self) -> Names:
        """The values of its dims, by name or position."""
        return place_values(self.data, self.items) | dict(self.names)


@dataclass(slots=True)
class Found:
    """The results of trying the instances.

    Attributes:
        accepted: the instances that the rules accept.
        rejected: the values of the dims of all other instances, by name or position.
        tried: the number of instances.
        complete: whether no other instance can move an end of an output dim.
    """

    accepted: set[Accepted] = field(default_factory=set)
    rejected: list[Names] = field(default_factory=list)
    tried: int = 0
    complete: bool = True


def answer_concrete(question: AnyQuestion, data: Dims, items: Sequence[Item]) -> Dims | None:
    """Returns the output of one instance, or None if the rules reject it."""
    instructions = [value for is_length, value in items if not is_length]
    if min(instructions, default=0) < -1 or instructions.count(-1) > 1:
        return None
    output, copied = [value for _, value in items], set[int]()
    if question.special_zero:
        copied = {index for index, item in enumerate(items) if item == (False, 0)}
    if max(copied, default=-1) >= len(data):
        return None
    for index in copied:
        output[index] = data[index]
    if -1 in instructions:
        inferred, left_out = items.index((False, -1)), copied if question.operation.copies_cancel else set()
        dividend = prod(dim for index, dim in enumerate(data) if index not in left_out)
        divisor = prod(dim for index, dim in enumerate(output) if index not in {inferred, *left_out})
        if divisor == 0 or dividend % divisor:
            return None
        output[inferred] = dividend // divisor
    return tuple(output) if prod(output) == prod(data) and max(output, default=0) <= MAX_DIM else None


def find_accepted(question: AnyQuestion, random: Random | None = None, budget: int = BUDGET) -> Found:
    """Tries the instances of a query. If there are more than the budget, `random` chooses them."""
    found, random = Found(), random or Random(0)
    symbols = _meet_symbols(question)
    rows, complete = _list_data(question, symbols)
    target = question.target if question.target is not None else [None] * len(question.expected or ())
    domains = _list_domains(target, symbols, _list_points(question, rows))
    found.complete = not _cut(rows, domains, random, budget) and complete
    for data, names in rows:
        for values in product(*domains.values()):
            all_names = dict(zip(domains, values, strict=True)) | names
            items = _place_items(target, all_names)
            found.tried += 1
            output = None if items is None else answer_concrete(question, data, items)
            kept = None if output is None else _meet_expected(question.expected, output, all_names)
            if items is None:  # an expression of the target is not a dim
                continue
            numbers = tuple(value for _, value in items)
            if output is not None and kept is not None:
                found.accepted.add(Accepted(data, output, tuple(sorted(kept.items())), numbers))
            else:
                own = {name: value for name, value in all_names.items() if not name.startswith(_UNNAMED)}
                found.rejected.append(place_values(data, numbers) | own)
    return found


def place_values(data: Dims, items: Dims) -> Names:
    """Returns the values of dims by their positions."""
    values = {f"data[{index}]": dim for index, dim in enumerate(data)}
    return values | {f"shape[{index}]": item for index, item in enumerate(items)}


def ask(question: AnyQuestion) -> ShapeAnswer | None:
    """Returns the product's answer, or None for a rejection."""
    try:
        return infer(question)
    except InvalidRequestError:
        return None


def check_soundness(found: Found, answer: ShapeAnswer | None) -> str:
    """Returns the first instance that contradicts the answer; empty if none does."""
    if answer is None:
        return f"rejected, but {next(iter(found.accepted))} is accepted" if found.accepted else ""
    if answer.dims is None:
        return ""
    return next(filter(None, (_contradict(answer.dims, answer, case) for case in found.accepted)), "")


def _contradict(dims: Sequence[AnyDim], answer: ShapeAnswer, case: Accepted) -> str:
    names = dict(case.names)
    if len(dims) != len(case.output):
        return f"the rank of {format_dims(dims)} is not that of {case}"
    for index, (dim, value) in enumerate(zip(dims, case.output, strict=True)):
        if not find_bounds(dim).holds(value):
            return f"dim {index} of {format_dims(dims)} ({find_bounds(dim)}) leaves out {case}"
        if isinstance(dim, Dim) and dim.expression is not None and not _is_term(dim.expression, value, names):
            return f"dim {index} is not {dim.expression} in {case}"
    wrong = [condition for condition in answer.conditions if not condition.holds(case.values)]
    return f"{wrong[0]} is false in {case}" if wrong else ""


def check_tightness(found: Found, answer: ShapeAnswer | None) -> str:
    """Returns an end of the answer that no instance reaches; empty if all are reached, or if instances are missing."""
    if not found.complete or answer is None or answer.dims is None:
        return ""
    if not found.accepted:
        return f"{format_dims(answer.dims)}, but no instance is accepted"
    for index, (dim, values) in enumerate(zip(answer.dims, find_ends(found), strict=True)):
        bounds = find_bounds(dim)
        if bounds != values:
            return f"dim {index} of {format_dims(answer.dims)} is {bounds}; the instances have {values}"
    return ""


def check_completeness(question: AnyQuestion, found: Found, answer: ShapeAnswer | None) -> str:
    """Returns a rejected instance that satisfies complete conditions; empty if there is none."""
    if answer is None or not answer.conditions_complete:
        return ""
    free = dict[str, Interval]()
    for dim in question.expected or ():
        name = find_name(dim)
        if name is not None:
            free[name] = _bound_name(dim).meet(free.get(name, ANY))
    for values in found.rejected:
        is_declared = all(bounds.holds(values.get(name, bounds.min)) for name, bounds in free.items())
        if is_declared and any(_satisfies(answer, chosen) for chosen in _choose_names(values, free)):
            shown = ", ".join(map(str, answer.conditions))
            return f"{values} is rejected, but satisfies {shown or 'everything'}"
    return ""


def _choose_names(values: Names, free: Mapping[str, Interval]) -> Iterator[Names]:
    """Yields the values with every value of the names that only the expected shape has."""
    volume = prod(value for name, value in values.items() if name.startswith("data["))
    unknown = [name for name in free if name not in values]
    ranges = [[value for value in range(volume + 2) if free[name].holds(value)] for name in unknown]
    for chosen in product(*ranges) if volume < _CAP**3 else ():
        yield values | dict(zip(unknown, chosen, strict=True))


def _satisfies(answer: ShapeAnswer, values: Names) -> bool:
    return all(condition.holds(values) for condition in answer.conditions)


def find_ends(found: Found) -> list[Interval]:
    """Returns the tightest bounds of each output dim."""
    columns = zip(*(case.output for case in found.accepted), strict=True)
    return [Interval(min(column), None if max(column) >= BIG else max(column)) for column in columns]


def is_exact(question: AnyQuestion) -> bool:
    """Whether the tightest answer is required: bounds of expressions and names of expected dims may be ignored."""
    dims = [*(question.data or ()), *(question.target or ()), *(question.expected or ())]
    terms = [dim.expression for dim in dims if isinstance(dim, Dim) and dim.expression is not None]
    named = any(find_name(dim) is not None for dim in question.expected or ())
    return not named and all(expression.symbol is not None for expression in terms)


def _meet_symbols(question: AnyQuestion) -> dict[str, Interval]:
    """Returns the intersection of all bounds of each symbol."""
    symbols: dict[str, Interval] = {}

    def meet(name: str, bounds: Interval) -> None:
        symbols[name] = symbols.get(name, bounds).meet(bounds)

    for dim in (*(question.data or ()), *(question.target or ())):
        if isinstance(dim, Dim) and dim.expression is not None:
            for symbol in _list_symbols(dim):
                meet(symbol.name, symbol.bounds)
            if dim.expression.symbol is not None:
                meet(dim.expression.symbol.name, dim.bounds)
    return symbols


def _list_data(question: AnyQuestion, symbols: Mapping[str, Interval]) -> tuple[list[tuple[Dims, Names]], bool]:
    """Returns the input shapes of the instances with the values of their symbols, and whether these are all."""
    if question.data is None:
        return [(data, {}) for rank in _RANKS for data in product(_UNKNOWN_DIMS, repeat=rank)], False
    domains: dict[str, Interval] = {}
    for index, dim in enumerate(question.data):
        if isinstance(dim, Dim) and dim.expression is not None:
            domains.update((symbol.name, symbols[symbol.name]) for symbol in _list_symbols(dim))
        elif not isinstance(dim, int):
            domains[f"{_UNNAMED}data {index}"] = find_bounds(dim)
    ranges = [_list_values(bounds) for bounds in domains.values()]
    complete = all(bounds.max is not None and bounds.max - bounds.min < _WIDEST for bounds in domains.values())
    while prod(map(len, ranges)) > _MAX_ROWS:
        complete = False
        longest = max(ranges, key=len)
        ranges[ranges.index(longest)] = longest[::2]
    rows = []
    for values in product(*ranges):
        names = dict(zip(domains, values, strict=True))
        dims = [_find_value(dim, f"{_UNNAMED}data {index}", names) for index, dim in enumerate(question.data)]
        if None not in dims:
            known = tuple(dim for dim in dims if dim is not None)
            rows.append((known, {name: value for name, value in names.items() if name in symbols}))
    return rows, complete and all(prod(data) <= _LARGEST_VOLUME for data, _ in rows)


def _list_values(bounds: Interval) -> range:
    low, high = bounds
    return range(low, 1 + (max(_CAP, low + 2) if high is None else min(high, low + _WIDEST)))


def _list_points(question: AnyQuestion, rows: Iterable[tuple[Dims, Names]]) -> set[int]:
    """Returns the values of a dimension that can be an end: divisors of a volume, ends of an interval, 1, and BIG."""
    points = {0, 1, BIG}
    for volume in {prod(max(dim, 1) for dim in data) for data, _ in rows}:
        for low in range(1, isqrt(min(volume, _LARGEST_VOLUME)) + 1):
            if volume % low == 0:
                points |= {low, volume // low}
    for dim in (*(question.data or ()), *(question.target or ()), *(question.expected or ())):
        for low, high in (find_bounds(dim), *(symbol.bounds for symbol in _list_symbols(dim))):
            points |= {max(low, 0), low + 1, max(low if high is None else high, 0)}
    return points


def _list_domains(
    target: Sequence[AnyDim], symbols: Mapping[str, Interval], points: set[int]
) -> dict[str, Sequence[int]]:
    """Returns the possible values of each unknown target item."""
    domains: dict[str, Sequence[int]] = {}
    for index, item in enumerate(target):
        if item is None:
            domains[f"{_UNNAMED}item {index}"] = [-1, *sorted(points)]
        elif isinstance(item, Dim) and item.expression is not None:
            for name in {symbol.name for symbol in _list_symbols(item)}:
                domains[name] = [value for value in sorted(points) if symbols[name].holds(value)]
        elif isinstance(item, Dim):
            domains[f"{_UNNAMED}item {index}"] = [value for value in sorted(points) if item.bounds.holds(value)]
    return domains


def _cut(rows: list[tuple[Dims, Names]], domains: dict[str, Sequence[int]], random: Random, budget: int) -> bool:
    """Drops choices that the data excludes or that exceed the budget; returns whether the budget was exceeded."""
    for name in list(domains):
        if rows and name in rows[0][1]:
            del domains[name]
    cut = False
    while len(rows) * prod(len(domain) for domain in domains.values()) > budget:
        cut = True
        name = max(domains, key=lambda key: len(domains[key]), default="")
        if not name or len(rows) > len(domains[name]):
            rows[:] = random.sample(rows, (len(rows) + 1) // 2)
        else:
            domains[name] = random.sample(domains[name], (len(domains[name]) + 1) // 2)
    return cut


def _place_items(target: Sequence[AnyDim], names: Names) -> list[Item] | None:
    items = list[Item]()
    for index, item in enumerate(target):
        value = item if isinstance(item, int) else _find_value(item, f"{_UNNAMED}item {index}", names)
        if value is None:
            return None
        items.append((isinstance(item, Dim), value))
    return items


def _find_value(dim: AnyDim, key: str, names: Names) -> int | None:
    """Returns the value of a dim, or None if it cannot exist."""
    if isinstance(dim, int):
        return dim
    if dim is None or dim.expression is None:
        return names[key]
    if dim.expression.symbol is not None:
        return names[dim.expression.symbol.name]
    above, below = _multiply(dim.expression, names)
    return above // below if below and above % below == 0 and dim.bounds.holds(above // below) else None


def _meet_expected(expected: Sequence[AnyDim] | None, output: Dims, names: Names) -> Names | None:
    """Returns the names and those of the expected dims, or None if the output differs."""
    kept = {name: value for name, value in names.items() if not name.startswith(_UNNAMED)}
    if expected is None:
        return kept
    if len(expected) != len(output):
        return None
    for want, have in zip(expected, output, strict=True):
        name = find_name(want)
        bounds = _bound_name(want)
        if not bounds.holds(have) or (name is not None and kept.setdefault(name, have) != have):
            return None
    return kept


def _bound_name(dim: AnyDim) -> Interval:
    """Returns the bounds of a dim. If it is a single symbol, the bounds of the symbol apply as well."""
    symbol = dim.expression.symbol if isinstance(dim, Dim) and dim.expression is not None else None
    return find_bounds(dim) if symbol is None else find_bounds(dim).meet(symbol.bounds)


def _list_symbols(dim: AnyDim) -> Sequence[Symbol]:
    expression = dim.expression if isinstance(dim, Dim) else None
    return () if expression is None else (*expression.factors, *expression.divisors)


def _multiply(expression: Expression, names: Names) -> tuple[int, int]:
    """Returns the dividend and the divisor of an expression."""
    return (
        expression.coefficient * prod(names[symbol.name] for symbol in expression.factors),
        expression.divisor * prod(names[symbol.name] for symbol in expression.divisors),
    )


def _is_term(expression: Expression, value: int, names: Names) -> bool:
    above, below = _multiply(expression, names)
    return below != 0 and above == value * below
