"""The conditions of a query: which instances are accepted.

Every accepted instance has equal volumes, so `a * L = b * R` holds, where L and R are products of variables. A -1 is a
quotient: it exists if every other factor of its divisor is at least 1, and if the divisor divides the other side. An
expected shape adds equalities and ranges of output dims. These demands are *facts*. `solvers.facts` brings each fact
into its normal form, and this module lists the facts and the conditions.

Without unknown items, the conditions are exactly the accepted instances. An unknown item may be any factor of the
output, so only the divisibility of the other factors is left.

Invariants: nothing here decides which output dims follow. A contradiction of the conditions rejects the query.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tensor_reshape.rules.conditions import Condition, name_position
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol, find_bounds, find_name, make_expression
from tensor_reshape.rules.questions import AnyQuestion, Kind
from tensor_reshape.rules.solvers.equations import Monomial, System, build_system, find_range
from tensor_reshape.rules.solvers.facts import Facts
from tensor_reshape.rules.solvers.products import DIVIDES, EQUAL, RANGE, Ratio
from tensor_reshape.rules.targets import Target


class Conditions(NamedTuple):
    """The conditions of a query.

    Attributes:
        listed: the conditions.
        complete: whether every instance that satisfies them is accepted.
        contradict: whether no instance satisfies them.
    """

    listed: tuple[Condition, ...]
    complete: bool
    contradict: bool = False


NO_CONDITIONS = Conditions((), complete=True)
"""The conditions of a query that accepts every instance."""


def list_conditions(question: AnyQuestion, target: Target[AnyDim], system: System) -> Conditions:
    """Returns the conditions of a query.

    Lemma: quotient-is-divisibility.

    Args:
        question: the query.
        target: its target.
        system: its variables, which the expected shape may have narrowed.
    """
    # The bounds of expected dims are demands, so they must not be in the declared ranges.
    if question.expected is not None:
        system = build_system(question._replace(expected=None), target)
    wants = _list_wants(question, system)
    facts = Facts(system.ranges, _name_variables(system, target))
    _declare_steps(facts, system)
    _add_divisor(facts, system, target)
    for index, (monomial, want) in wants.items():
        if target.kinds[index] not in {Kind.INFERRED, Kind.UNKNOWN}:
            _add_want(facts, index, Ratio.of(monomial), want)
    _add_volumes(facts, system, target, wants)
    listed, contradict = facts.solve()
    # A copy demands a rank, which no condition expresses.
    is_rank_enough = question.data is not None or not target.copied
    complete = facts.complete and is_rank_enough and Kind.UNKNOWN not in target.kinds
    return Conditions(listed, complete, contradict)


class _Want(NamedTuple):
    """An expected dim: its value, or its bounds."""

    exact: Ratio | None
    bounds: Interval


def _name_variables(system: System, target: Target[AnyDim]) -> dict[int, str]:
    """Returns the name of each variable, which is its position if it has no symbol."""
    named = {key: symbol.name for key, symbol in system.symbols.items()}
    names = {*named.values()}
    output = [
        (index, monomial)
        for index, monomial in enumerate(system.output)
        if target.kinds[index] not in {Kind.INFERRED, Kind.UNKNOWN, Kind.COPIED}
    ]
    for field, monomials in (("data", [*system.data.items()]), ("shape", output)):
        for index, monomial in monomials:
            if monomial.variable is not None and monomial.variable not in named:
                named[monomial.variable] = name_position(field, index, names)
    return named


def _declare_steps(facts: Facts, system: System) -> None:
    """Records that every expression is an integer."""
    for monomial in (*system.data.values(), *system.output):
        if monomial.divisor > 1 or monomial.divisors:
            facts.declare(Ratio.of(monomial))


def _list_wants(question: AnyQuestion, system: System) -> dict[int, tuple[Monomial, _Want]]:
    """Returns what is expected of the output dims, by index."""
    wants: dict[int, tuple[Monomial, _Want]] = {}
    for index, (monomial, want) in enumerate(zip(system.output, question.expected or (), strict=False)):
        if want is None:
            continue
        bounds = find_bounds(want)
        exact: Ratio | None
        if find_name(want) is not None:
            exact = Ratio.of(system.add_monomial(want, f"expected_shape.dims[{index}]"))
        else:
            exact = Ratio(bounds.min, ()) if bounds.min == bounds.max else None
        wants[index] = monomial, _Want(exact, bounds)
    return wants


def _add_divisor(facts: Facts, system: System, target: Target[AnyDim]) -> None:
    """Demands that no factor of the divisor of a -1 is 0."""
    if target.inferred is None:
        return
    for index, monomial in enumerate(system.output):
        if index != target.inferred and index not in target.cancelled and target.kinds[index] is not Kind.UNKNOWN:
            for key in filter(system.can_be_zero, monomial.variables):
                facts.require_positive(key, index)


def _add_want(facts: Facts, index: int, ratio: Ratio, want: _Want) -> None:
    item = f"expected_shape.dims[{index}]"
    if want.exact is not None:
        facts.add(EQUAL, ratio, want.exact, rule=5, item=item)
    else:
        facts.add(RANGE, ratio, bounds=want.bounds, rule=5, item=item)


def _add_volumes(
    facts: Facts, system: System, target: Target[AnyDim], wants: dict[int, tuple[Monomial, _Want]]
) -> None:
    """Demands equal volumes, or that a quotient is an integer."""
    data = [monomial for index, monomial in system.data.items() if index not in target.cancelled]
    left = Ratio.multiply([*map(Ratio.of, data)])
    if system.rest is not None:
        left = left.times(Ratio(1, (system.rest,)))
    factors, free = list[Ratio](), list[int]()
    for index, monomial in enumerate(system.output):
        if index in target.cancelled:
            continue
        if target.kinds[index] not in {Kind.INFERRED, Kind.UNKNOWN}:
            factors.append(Ratio.of(monomial))
            continue
        exact = wants[index][1].exact if index in wants else None
        if exact is None:
            free.append(index)
        else:
            factors.append(exact)
    right = Ratio.multiply(factors)
    rule, item = (4, "shape") if target.inferred is None else (3, f"shape[{target.inferred}]")
    if free:
        facts.add(DIVIDES, right, left, rule=rule, item=item)
    else:
        facts.add(EQUAL, left, right, rule=rule, item=item)
    # The quotient is a dim of the output, which may have expected bounds.
    if free == [target.inferred] and target.inferred in wants and Kind.UNKNOWN not in target.kinds:
        _add_want(facts, target.inferred, left.times(right.invert()), wants[target.inferred][1])


def list_single_conditions(data: Sequence[AnyDim], target: Target[AnyDim], step: int) -> Conditions:
    """Returns the conditions of a query with a -1 and a closed form (`solvers.single`).

    Args:
        data: the input dims. Those that are not numbers are independent.
        target: the target, whose items are numbers above 0, copies and a -1.
        step: the number that must divide the product of the dims that are not copied. If it is more than 1, only one of
            them is not a number.
    """
    listed = list[Condition]()
    for index in () if target.cancelled else target.copied:
        if find_bounds(data[index]).min == 0:
            listed.append(Condition(RANGE, _name_single(data, index), min=1, rule=3, item=f"shape[{index}]"))
    for index, dim in enumerate(data if step > 1 else ()):
        if not isinstance(dim, int) and index not in target.copied:
            product, item = _name_single(data, index), f"shape[{target.inferred}]"
            low, high = find_range(dim)
            first, last = -(-low // step), high // step
            if first == last:
                listed.append(Condition(EQUAL, product, make_expression(first * step, ()), rule=3, item=item))
            else:
                listed.append(Condition(DIVIDES, make_expression(step, ()), product, rule=3, item=item))
    return Conditions(tuple(listed), complete=True)


def _name_single(data: Sequence[AnyDim], index: int) -> Expression:
    """Returns an independent dim as an expression, with its position if it has no name."""
    dim = data[index]
    if isinstance(dim, Dim) and dim.expression is not None:
        return dim.expression
    names = {name for name in map(find_name, data) if name is not None}
    return make_expression(1, [Symbol(name_position("data", index, names), find_bounds(dim))])
