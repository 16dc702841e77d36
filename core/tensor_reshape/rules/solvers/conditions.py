"""Lists the conditions that an instance of a query must satisfy to be accepted.

Every accepted instance has equal volumes, so `a * L = b * R` holds, where L and R are products of variables. A -1 is a
quotient. This quotient exists if every factor of its divisor is at least 1, and if the divisor divides the dividend. An
expected shape adds equalities and ranges of output dims. These requirements are called *facts*. `solvers.facts` brings
each fact into its normal form, and this module lists the facts and the conditions.

If the target has no unknown items, an instance is accepted exactly if it satisfies the conditions. If an item is
unknown, it may have any value, so the equation only requires that the product of the other items divides the volume of
the data.

Invariants: this module does not determine output dims. If the conditions of a query contradict each other, the query is
rejected.
"""

from collections.abc import Container, Sequence
from functools import partial
from typing import NamedTuple

from tensor_reshape.rules.conditions import Condition, name_position
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, find_bounds, find_name
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.questions import AnyQuestion, Kind
from tensor_reshape.rules.solvers.cases import ValueCase
from tensor_reshape.rules.solvers.equations import Monomial, System, build_system, find_range
from tensor_reshape.rules.solvers.facts import DIVIDES, EQUAL, RANGE, Facts
from tensor_reshape.rules.targets import Target


class Conditions(NamedTuple):
    """The conditions of a query.

    Attributes:
        listed: the conditions.
        sufficient: whether all values that satisfy the conditions belong to an accepted instance, after suitable values
            are chosen for the unknown items.
        contradict: whether the conditions contradict each other, so that no instance satisfies all of them.
        has_unknown: whether the target has unknown items.
    """

    listed: tuple[Condition, ...]
    sufficient: bool
    contradict: bool = False
    has_unknown: bool = False

    @property
    def complete(self) -> bool:
        """Whether every instance that satisfies the conditions is accepted."""
        return self.sufficient and not self.has_unknown


NO_CONDITIONS = Conditions((), sufficient=True)
"""The conditions of a query that accepts every instance."""

_FREE = {Kind.INFERRED, Kind.UNKNOWN}
"""The kinds of items with free values, which can make the volumes equal."""


def list_conditions(question: AnyQuestion, case: ValueCase) -> Conditions:
    """Returns the conditions of a query.

    See the lemma quotient-is-divisibility in `verification/lemmas.py`.

    Args:
        question: the query.
        case: the target, the variables and the equation of the query. The expected shape may have narrowed
            the variables.
    """
    target, system = case.target, case.system
    # A 0 that copies a dim requires a minimum rank of the data, and no condition can express a rank.
    sufficient = question.data is not None or not target.copied
    has_unknown = Kind.UNKNOWN in target.kinds
    wants: dict[int, tuple[Monomial, _Want]] = {}
    if question.expected is None:
        free = {system.output[index].variable for index, kind in enumerate(target.kinds) if kind in _FREE}
        if target.inferred is None and _is_implied(case.remainder, free):
            return Conditions((), sufficient, has_unknown=has_unknown)
        facts = _start_facts(system, target)
        # This fact says that the volumes are equal, or that the product of the fixed items divides the volume of the
        # data.
        fixed = tuple([key for key in case.equation.divisors if key not in free])
        kind = DIVIDES if len(fixed) < len(case.equation.divisors) else EQUAL
        facts.add(kind, case.equation._replace(divisors=fixed), *_find_volume_rule(target))
    else:
        # The bounds of expected dims become conditions, so the declared ranges must not contain these bounds.
        system = build_system(question._replace(expected=None), target)
        wants = _list_wants(question, system)
        facts = _start_facts(system, target)
        for index, (monomial, want) in wants.items():
            if target.kinds[index] not in _FREE:
                _add_want(facts, index, monomial.product, want)
        _add_volumes(facts, system, target, wants)
    _declare_steps(facts, system)
    listed, contradict = facts.solve()
    sufficient = sufficient and facts.complete
    if has_unknown:
        sufficient = sufficient and not any(_is_limited(system, target, *item) for item in wants.items())
    return Conditions(listed, sufficient, contradict, has_unknown)


def _is_implied(remainder: Product[int], free: Container[int | None]) -> bool:
    """Whether the volumes are equal in every instance, or can always be made equal by the unknown items and the -1."""
    above, left, below, right = remainder
    is_quotient_whole = below == 1 and bool(free)
    return all(key in free for key in right) and (is_quotient_whole or (above == below and not (left or right)))


def _find_volume_rule(target: Target[AnyDim]) -> tuple[int, str]:
    """Returns the rule that requires equal volumes, and the part of the query that breaks it if the volumes differ."""
    return (4, "shape") if target.inferred is None else (3, f"shape[{target.inferred}]")


class _Want(NamedTuple):
    """The value and the bounds that the caller expects of an output dim."""

    exact: Product[int] | None
    bounds: Interval


def _name_variables(system: System, target: Target[AnyDim]) -> dict[int, Symbol]:
    """Returns a symbol for each variable.

    A variable without a name in the query is named by its position: `data[0]`.
    """
    named = {key: symbol.name for key, symbol in system.symbols.items()}
    names = {*named.values()}
    output = [
        (index, monomial)
        for index, monomial in enumerate(system.output)
        if target.kinds[index] not in {*_FREE, Kind.COPIED}
    ]
    for field, monomials in (("data", [*system.data.items()]), ("shape", output)):
        for index, monomial in monomials:
            if monomial.variable is not None and monomial.variable not in named:
                named[monomial.variable] = name_position(field, index, names)
    return {key: Symbol(name, system.ranges[key].bounds) for key, name in named.items()}


def _declare_steps(facts: Facts, system: System) -> None:
    """Records that the value of every expression in the query is an integer."""
    for monomial in (*system.data.values(), *system.output):
        facts.declare(monomial.product)
    for key, step in system.list_steps():
        facts.declare(Product(1, (key,), step))


def _list_wants(question: AnyQuestion, system: System) -> dict[int, tuple[Monomial, _Want]]:
    """Returns a mapping from indices to output dims with the values or bounds that the caller expects of these dims."""
    wants: dict[int, tuple[Monomial, _Want]] = {}
    for index, (monomial, want) in enumerate(zip(system.output, question.expected or (), strict=False)):
        if want is None:
            continue
        bounds, exact = find_bounds(want), None
        if isinstance(want, Dim) and want.expression is not None:
            # The bounds of a name are declared, but the only requirement for a product of names is that it is an
            # integer within its bounds. So the product must not narrow the declared ranges of its names.
            divisor = want.expression.divisor
            named = Dim(ANY, want.expression._replace(divisor=1)) if want.is_product else want
            exact = system.add_monomial(named, f"expected_shape.dims[{index}]").product
            exact = exact._replace(divisor=exact.divisor * divisor)
            bounds = bounds if want.is_product else ANY
        elif bounds.min == bounds.max:
            bounds, exact = ANY, Product(bounds.min, ())
        wants[index] = monomial, _Want(exact, bounds)
    return wants


def _is_limited(system: System, target: Target[AnyDim], index: int, wanted: tuple[Monomial, _Want]) -> bool:
    """Whether conditions cannot express what the caller expects of an item, in a target with unknown items.

    Conditions can express the expectation that an unknown item has a value above 0. To have the value 0, the unknown
    item must be a copy, or be the only -1 of the target.
    """
    exact = wanted[1].exact
    is_positive = exact is not None and exact.coefficient > 0 and not any(map(system.can_be_zero, exact.factors))
    return target.kinds[index] in _FREE and not (is_positive and target.kinds[index] is Kind.UNKNOWN)


def _start_facts(system: System, target: Target[AnyDim]) -> Facts:
    """Creates the facts of a query. If an item is -1, the facts require that no factor of its divisor is 0."""
    facts = Facts(system.ranges, partial(_name_variables, system, target))
    for index, monomial in enumerate(() if target.inferred is None else system.output):
        if index != target.inferred and index not in target.cancelled and target.kinds[index] is not Kind.UNKNOWN:
            for key in filter(system.can_be_zero, monomial.product.factors):
                facts.require_positive(key, index)
    return facts


def _add_want(facts: Facts, index: int, product: Product[int], want: _Want) -> None:
    item = f"expected_shape.dims[{index}]"
    if want.exact is not None:
        facts.add(EQUAL, product.multiply(want.exact.invert()), 5, item)
    if want.bounds != ANY:
        facts.add(RANGE, want.exact or product, 5, item, want.bounds)


def _add_product(facts: Facts, index: int, product: Product[int], bounds: Interval) -> None:
    """Adds the requirement that an expected product of names is an integer within its bounds."""
    item = f"expected_shape.dims[{index}]"
    if product.divisor > 1 or product.divisors:
        facts.add(DIVIDES, product, 5, item)
    if bounds != ANY:
        facts.add(RANGE, product, 5, item, bounds)


def _add_volumes(
    facts: Facts, system: System, target: Target[AnyDim], wants: dict[int, tuple[Monomial, _Want]]
) -> None:
    """Adds the fact that the volumes are equal, or that the -1 is an integer."""
    rest = Product(1, () if system.rest is None else (system.rest,))
    data = [monomial.product for index, monomial in system.data.items() if index not in target.cancelled]
    items, free = list[Product[int]](), list[int]()
    for index, monomial in enumerate(system.output):
        if index in target.cancelled:
            continue
        if target.kinds[index] not in _FREE:
            items.append(monomial.product.invert())
            continue
        exact = wants[index][1].exact if index in wants else None
        if exact is None:
            free.append(index)
        else:
            items.append(exact.invert())
            _add_product(facts, index, exact, wants[index][1].bounds)
    quotient = rest.multiply(*data, *items)
    facts.add(DIVIDES if free else EQUAL, quotient, *_find_volume_rule(target))
    # The computed -1 is an output dim, and the caller may expect bounds of this dim.
    if free == [target.inferred] and target.inferred in wants and Kind.UNKNOWN not in target.kinds:
        _add_want(facts, target.inferred, quotient, wants[target.inferred][1])


def list_single_conditions(data: Sequence[AnyDim], target: Target[AnyDim], step: int) -> Conditions:
    """Returns the conditions of a query with a -1 and a closed form (`solvers.single`).

    Args:
        data: the input dims. Dims that are not numbers must be independent of each other.
        target: the target, whose items are numbers above 0, copies and a -1.
        step: the number that must divide the product of the dims that are not copied. If `step` is more than 1, exactly
            one of these dims is not a number.
    """
    listed, copied, inferred = [], target.copied, target.inferred
    for index in () if target.cancelled else copied:
        dim = data[index]
        if not isinstance(dim, int) and (dim is None or dim.bounds.min == 0):
            product = _name_single(data, index)
            listed.append(Condition(RANGE, product, None, 1, None, None, 3, f"shape[{index}]"))
    if step > 1:
        (index,) = [index for index, dim in enumerate(data) if not isinstance(dim, int) and index not in copied]
        listed.append(_require_multiple(step, _name_single(data, index), data[index], f"shape[{inferred}]"))
    return Conditions(tuple(listed), True)  # noqa: FBT003 - faster than a named argument


def list_frozen_condition(data: Sequence[AnyDim], value: int) -> Conditions:
    """Returns the condition that gives a value to the only dim of `data` that is not a number."""
    (index,) = [index for index, dim in enumerate(data) if not isinstance(dim, int)]
    frozen = Condition(EQUAL, _name_single(data, index), Expression(value, ()), rule=4, item="shape")
    return Conditions((frozen,), sufficient=True)


def _require_multiple(step: int, product: Expression, dim: AnyDim, item: str) -> Condition:
    """Returns the condition that a dim is a multiple of a number."""
    low, high = find_range(dim)
    first = -(-low // step)
    if first == high // step:
        return Condition(EQUAL, product, Expression(first * step, ()), None, None, None, 3, item)
    return Condition(DIVIDES, Expression(step, ()), product, None, None, None, 3, item)


def _name_single(data: Sequence[AnyDim], index: int) -> Expression:
    """Returns a dim as an expression. If the dim has no name, its position is used as its name."""
    dim = data[index]
    if dim is not None and not isinstance(dim, int) and dim.expression is not None:
        return dim.expression
    names = {name for name in map(find_name, data) if name is not None}
    return Expression(1, (Symbol(name_position("data", index, names), find_bounds(dim)),))
