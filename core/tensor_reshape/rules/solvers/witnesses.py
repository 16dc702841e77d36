"""Finds witnesses, which are instances whose outputs have the ends of the output dims.

The output dim is set to the end, and the general solver narrows the ranges of all variables. One variable after another
is then set to an end of its range, and the solver narrows the other ranges again. If the solver is tight, the ends of a
range always belong to an instance.

Invariant: exact arithmetic accepts each witness. If the solver is not tight, or if no steps are left, there is no
witness for an end.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, product

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.conditions import Condition
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, Kind, Question, Witness
from tensor_reshape.rules.solvers.cases import Case, solve
from tensor_reshape.rules.solvers.equations import Monomial, Range, System, build_system
from tensor_reshape.rules.solvers.exact import solve_exactly
from tensor_reshape.rules.solvers.products import RANGE
from tensor_reshape.rules.targets import Target, read_target

_MAX_VARIABLES = 32  # if a query has more variables, even one narrowing of all of them takes long
_STEPS = 4  # the steps that each variable takes when the solver narrows all variables
_LENGTH_OF_ZERO = Dim(Interval(0, 0))


def find_witnesses(
    question: AnyQuestion, target: Target[AnyDim], dims: Sequence[AnyDim], budget: StepBudget
) -> tuple[Witness, ...]:
    """Returns instances that have the ends of the output dims, in the order of the dims.

    Args:
        question: the query, which is accepted.
        target: the target of the query.
        dims: the output dims.
        budget: the steps that are left.
    """
    if question.target is None:
        question = question._replace(target=[None] * len(dims))
    if len(build_system(question, target).ranges) > _MAX_VARIABLES:
        return ()
    found = list[Witness]()
    for index, dim in enumerate(dims):
        low, high = find_bounds(dim)
        for end, is_high in ((low, False), (high, True)):
            if end is None or budget.left <= 0 or any(witness.output[index] == end for witness in found):
                continue
            system = build_system(question, target)
            key = system.output[index].variable
            if key is not None:
                system.ranges[key] = Range(end, end)
            case = Case(system, target, budget, set(range(len(system.ranges))))
            if _assign(case, is_high=is_high):
                witnesses = _list_witnesses(question, case)
                found.extend(islice((witness for witness in witnesses if witness.output[index] == end), 1))
    return tuple(found)


def _assign(case: Case, *, is_high: bool) -> bool:
    """Narrows each range to its higher or lower end. Returns whether that is possible."""
    ranges = case.system.ranges
    while case.budget.spend(_STEPS * len(ranges)):
        solution = solve(case.suppose(case.target))  # a new case, because the ranges have changed
        if solution is None:
            return False
        ranges[:] = [solution[key] for key in range(len(ranges))]
        key = next((key for key, own in enumerate(ranges) if own.min != own.max), None)
        if key is None:
            return True
        low, high = own = ranges[key]
        ranges[key] = Range(high, high) if is_high and not own.is_open else Range(low, low)
    return False


def _list_witnesses(question: AnyQuestion, case: Case) -> Iterator[Witness]:
    """Yields the instances with these values of the variables that exact arithmetic accepts."""
    system = case.system
    output = _find_dims(system, system.output)
    # If the rank of the data is unknown, the data can have the shape of the output.
    data = output if question.data is None else _find_dims(system, [system.data[key] for key in sorted(system.data)])
    named = {symbol.name: system.ranges[key].min for key, symbol in system.symbols.items()}
    if data is None or output is None:
        return
    # The names of the expected shape may have replaced a product of names in the system.
    lengths = [item if isinstance(item, Dim) else None for item in question.target or ()]
    if not _match(lengths, output, named) or not _match(question.expected or (), output, named):
        return
    choices = [
        _list_items(question, kind, index, output[index], len(data)) for index, kind in enumerate(case.target.kinds)
    ]
    for items in product(*choices):
        if not case.budget.spend(1 + len(items)):
            return
        if _solve(question, data, items) == output:
            yield Witness(data, items, output)


def _find_dims(system: System, monomials: Sequence[Monomial]) -> tuple[int, ...] | None:
    """Returns the values of dims, or None if a product of names is not a dim. Each variable has one value."""
    found = [system.bound_monomial(monomial) for monomial in monomials]
    return tuple([own.min for own in found]) if all(own.min == own.max <= MAX_DIM for own in found) else None


def _match(dims: Sequence[AnyDim], values: Sequence[int], named: dict[str, int]) -> bool:
    """Whether dims can have these values, if names have the given values. A name without a value gets one."""
    for dim, value in zip(dims, values, strict=False):
        if not find_bounds(dim).holds(value):
            return False
        if isinstance(dim, Dim) and dim.expression is not None:
            if not dim.is_product:
                named.setdefault(dim.expression.factors[0].name, value)
            is_value = Condition(RANGE, dim.expression, min=value, max=value)
            if not is_value.symbols <= named.keys() or not is_value.holds(named):
                return False
    return True


def _solve(question: AnyQuestion, data: Sequence[int], items: Sequence[int | Dim]) -> tuple[int, ...] | None:
    """Returns the output of an instance by exact arithmetic, or None if the instance is rejected."""
    numbers = [1 if isinstance(item, Dim) else item for item in items]
    instance = Question(question.operation, data, numbers, question.special_zero)
    target = read_target(instance, numbers)
    if target.rejection is not None:
        return None
    if _LENGTH_OF_ZERO in items:
        dims = [0 if isinstance(item, Dim) else dim for item, dim in zip(items, target.dims, strict=True)]
        target = target._replace(dims=dims, product=0)
    try:
        return solve_exactly(instance, target)
    except InvalidRequestError:
        return None


def _list_items(question: AnyQuestion, kind: Kind, index: int, dim: int, rank: int) -> list[int | Dim]:
    """Returns the items that may give this output dim."""
    if kind is Kind.COPIED:
        return [0]
    if kind is Kind.INFERRED:
        return [-1]
    is_copy = bool(question.special_zero) and dim == 0
    if kind is not Kind.UNKNOWN:
        return [_LENGTH_OF_ZERO if is_copy else dim]
    return [*([] if is_copy else [dim]), *([0] if question.special_zero and index < rank else []), -1]
