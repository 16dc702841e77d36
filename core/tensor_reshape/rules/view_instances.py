"""Lists the instances of a query if there are only a few, so that each instance can be examined separately.

An instance is a data shape and an output shape with the same number of elements. Instances without elements are left
out, because their output can always be a view.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, find_bounds
from tensor_reshape.rules.limits import MAX_DIM

MAX_INSTANCES = 64
"""The largest number of instances that are listed. Examining one of them takes 10 to 50 microseconds."""

_INSTANCE_STEPS = 10
_CHOICES_A_STEP = 16
_MAX_CHOICES = 256  # for the values of the unknown data dims
_MAX_DIVISORS = 4096  # for the values of one output dim

Dims: TypeAlias = tuple[int, ...]


class Instance(NamedTuple):
    """A data shape and an output shape with the same number of elements."""

    data: Dims
    output: Dims


class _TooManyError(Exception):
    """The instances are not listed.

    The cause is one of these: unlimited data dims, too many values, several new names in one dim, or the end of the
    budget.
    """


def list_instances(
    data: Sequence[AnyDim],
    output: Sequence[AnyDim],
    copied: Collection[int],
    budget: StepBudget,
    most: int = MAX_INSTANCES,
) -> list[Instance] | None:
    """Returns every instance that has elements, or None if there are more than `most` or the budget ends.

    The result may contain instances that the rules reject for other reasons than their number of elements.

    Args:
        data: the input dims.
        output: the output dims.
        copied: the indices of the output dims that are copied.
        budget: the step budget of the query.
        most: the largest number of instances that are listed.
    """
    try:
        found = list[Instance]()
        for instance in _list_all(data, output, copied, budget):
            found.append(instance)
            if len(found) > most or not budget.spend(_INSTANCE_STEPS):
                return None
    except _TooManyError:
        return None
    return found


def _list_all(
    data: Sequence[AnyDim], output: Sequence[AnyDim], copied: Collection[int], budget: StepBudget
) -> Iterator[Instance]:
    domains = _list_domains(data, output)
    if prod(map(len, domains.values())) > _MAX_CHOICES:
        raise _TooManyError
    for choice in product(*domains.values()):
        _spend(budget, len(data))
        values = dict(zip(domains, choice, strict=True))
        dims = tuple(_find_value(dim, index, values) for index, dim in enumerate(data))
        volume = prod(dims)
        if volume == 0:
            continue
        wanted: list[AnyDim] = [dims[index] if index in copied else dim for index, dim in enumerate(output)]
        for outputs in _split(volume, wanted, values, budget):
            yield Instance(dims, outputs)


def _list_domains(data: Sequence[AnyDim], output: Sequence[AnyDim]) -> dict[str | int, range]:
    """Returns the possible values of each name in the data, and of each data dim without a name, by its index."""
    bounds = dict[str | int, Interval]()
    for index, dim in enumerate(data):
        expression = _find_expression(dim)
        if expression is not None:
            bounds |= {symbol.name: ANY for symbol in expression.symbols}
        elif not isinstance(dim, int):
            bounds[index] = find_bounds(dim)
    for dim in (*data, *output):
        expression = _find_expression(dim)
        for symbol in () if expression is None else expression.symbols:
            if symbol.name in bounds:
                bounds[symbol.name] = bounds[symbol.name].meet(symbol.bounds)
    return {key: _make_range(own) for key, own in bounds.items()}


def _make_range(bounds: Interval) -> range:
    if bounds.max is None:
        raise _TooManyError
    return range(max(bounds.min, 1), bounds.max + 1)


def _find_expression(dim: AnyDim) -> Expression | None:
    return dim.expression if isinstance(dim, Dim) else None


def _find_value(dim: AnyDim, index: int, values: Mapping[str | int, int]) -> int:
    """Returns the value of a data dim, or 0 if the dim has no valid value."""
    expression = _find_expression(dim)
    if expression is None:
        return dim if isinstance(dim, int) else values[index]
    value = _evaluate(expression, values)
    return value if find_bounds(dim).holds(value) else 0


def _evaluate(expression: Expression, values: Mapping[str | int, int]) -> int:
    """Returns the value of an expression, or 0 if it is not an integer."""
    above = expression.coefficient * prod([values[symbol.name] for symbol in expression.factors])
    value, remainder = divmod(above, expression.divisor * prod([values[symbol.name] for symbol in expression.divisors]))
    return 0 if remainder else value


def _spend(budget: StepBudget, steps: int) -> None:
    if not budget.spend(steps):
        raise _TooManyError


def _split(
    volume: int, output: Sequence[AnyDim], values: Mapping[str | int, int], budget: StepBudget
) -> Iterator[Dims]:
    """Yields the values of the output dims whose product is `volume`."""
    if not output:
        if volume == 1:
            yield ()
        return
    first, *others = output
    expression, bounds = _find_expression(first), find_bounds(first)
    if expression is None or any(symbol.name not in values for symbol in expression.symbols):
        # A name that is not in the data has the value of its dim. An expression of several such names is not solved.
        if expression is not None and expression.symbol is None:
            raise _TooManyError
        high = volume if bounds.max is None else min(bounds.max, volume)
        low = max(bounds.min, 1 if others else volume)  # the last dim is the quotient that is left
        if high - low >= _MAX_DIVISORS or high > MAX_DIM:
            raise _TooManyError
        choices: Sequence[int] = range(low, high + 1)
    else:
        choices = [value] if bounds.holds(value := _evaluate(expression, values)) else []
    # Most calls find no instance if many dims have small ranges, so the search could take very long without a budget.
    _spend(budget, 1 + len(choices) // _CHOICES_A_STEP)
    for choice in choices:
        if choice == 0 or volume % choice:
            continue
        symbol = None if expression is None else expression.symbol
        known = values if symbol is None else {**values, symbol.name: choice}
        yield from ((choice, *rest) for rest in _split(volume // choice, others, known, budget))
