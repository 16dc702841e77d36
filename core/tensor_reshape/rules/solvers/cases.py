"""The general solver splits a query into cases, and finds the ranges of the output variables over all cases.

If the volume is 0, the equation of the volumes does not restrict other variables: 0 * N = 0 * M holds for any N and M.
An unknown item can be a length, the -1, or a copy (if its value is 0 and special_zero is true). The solver therefore
splits the accepted instances into cases in which the equation restricts the variables. Each case has a function in this
module. The result of the solver contains the ranges of all cases. If a case has no instances, its function returns
None. If the functions of all cases return None, the query is rejected.

solve
    no item is known to be the -1
        _solve_nonempty             the tensor has elements
        _solve_empty_copies
            _solve_empty            the tensor has no elements, and no item is the -1
            _solve_supposed         each unknown item in turn is the -1, by a call of `solve`
    an item is the -1
        _solve_cancelled_zeros      for each subset of the unknown items that may copy a 0, which Reshape-1 cancels
            _solve_inferred         the divisor of the -1 is not 0
            _solve_inferred_zero    the divisor of the -1 is not 0, and the -1 becomes 0

The result is always sound, so it never excludes a possible value. If a query has too many cases, the result has the
ranges that the query declares. If no steps are left, the result has the ranges that have been narrowed so far, or the
declared ranges.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import TypeAlias

from tensor_reshape.rules.dims import AnyDim, Expression
from tensor_reshape.rules.limits import StepBudget
from tensor_reshape.rules.solvers.equations import POSITIVE, ZERO, Range, System, name_product
from tensor_reshape.rules.solvers.propagation import narrow_ranges
from tensor_reshape.rules.targets import Target

Solution: TypeAlias = dict[int, Range]
"""The range of each output variable, by the key of the variable."""

_MAX_ZERO_COPIES = 3  # each item that may copy a 0 doubles the number of cases
_MAX_UNKNOWN = 4  # each unknown item adds a case, which in turn has cases for the other items


class ValueCase:
    """A query after a meaning has been chosen for each unknown item. The meanings are a length, a copy and the -1.

    Attributes:
        system: the variables and the monomials of the query.
        target: the target, in which an unknown item may be treated as a copy or as the -1.
        budget: the step budget, which all cases of the query share.
        wanted: the keys of the variables whose ranges are needed. By default, these are the output variables.
        equation: the equation as a quotient, which is the product of the data divided by the product of the output.
        remainder: the equation in lowest terms. It is equivalent to `equation` if the cancelled variables are not 0.
        cancelled: the variables that were cancelled.
    """

    def __init__(
        self, system: System, target: Target[AnyDim], budget: StepBudget, wanted: set[int] | None = None
    ) -> None:
        """Builds the equation."""
        self.system = system
        self.target = target
        self.budget = budget
        # The solver narrows only the ranges that are needed, because narrowing a range may need a search.
        if wanted is None:
            wanted = {key for monomial in system.output for key in monomial.product.factors}
        self.wanted = wanted
        self.equation = system.equate(target)
        self.remainder, self.cancelled = self.equation.cancel()

    def suppose(self, target: Target[AnyDim]) -> "ValueCase":
        """Returns the same case with another target, in which unknown items have another meaning."""
        return ValueCase(self.system, target, self.budget, self.wanted)

    def find_variable(self, index: int) -> int:
        """Returns the variable of an output item without a name."""
        return self.system.output[index].product.factors[0]

    def keep_ranges(self) -> Solution:
        """Returns the ranges that the output variables have in the query. These ranges contain every instance."""
        return {key: self.system.ranges[key] for key in self.wanted}


def solve(case: ValueCase) -> Solution | None:
    """Returns the range of every output variable, or None if no instance is accepted.

    See the lemma two-cases in `verification/lemmas.py`.
    """
    if case.target.inferred is not None:
        return _solve_cancelled_zeros(case, case.target.inferred)
    # The most common case is solved first. The result contains the ranges of all cases, so it would be wide if there
    # were no steps left for one case. Each case therefore gets a share of the step budget.
    with case.budget.hold(len(case.target.may_copy)):
        solution = _solve_nonempty(case)
    return _join_all([solution, _solve_empty_copies(case)])


def _solve_nonempty(case: ValueCase) -> Solution | None:
    """Solves the case in which no item is -1 and the tensor has elements.

    Every variable is then at least 1, so factors that both sides have in common can be cancelled. For example, [N, 4]
    -> [N, M, 2] has the cancelled equation 4 = 2 * M, so M is 2.

    See the lemmas cancel-nonzero and nonempty-dims in `verification/lemmas.py`.
    """
    return narrow_ranges(case.system.ranges, case.remainder, case.wanted, case.budget)


def _solve_empty_copies(case: ValueCase) -> Solution | None:
    """Solves the case in which the tensor is empty, no item is known to be the -1, and unknown items may be copies.

    With special_zero, an unknown item whose value is 0 is a copy, and never a length of 0. A copy makes the output dim
    0 only if the data dim at the same index is 0. For example, in [N, 3] -> [?, 5], the first output dim is 0 only if N
    is 0. In [2, N] -> [?, 5], the first output dim cannot be 0, because an item of 0 copies the first data dim, which
    is 2.
    """
    unknown = {case.find_variable(index): index for index in case.target.may_copy}
    copies = {case.find_variable(index): source for index, source in _find_zero_copies(case)}
    return _solve_supposed(case, unknown, _solve_empty(case, set(unknown), copies))


def _solve_empty(case: ValueCase, unknown: set[int], copies: Mapping[int, int | None]) -> Solution | None:
    """Solves the case in which no item is -1, and a data dim and an output dim are 0.

    Both volumes are then 0 for all values of the other dims. For example, in [N, 4] -> [M, 2], N and M are both 0 in
    this case. A variable can be 0 if its range contains 0. A variable can have a value other than 0 if both the data
    and the output have a dim of another variable that can be 0.

    See the lemma empty-dims in `verification/lemmas.py`.

    Args:
        case: the query.
        unknown: the variables of the unknown items, which can be 0 only as copies.
        copies: a mapping from a variable of `unknown` to the variable of the data dim that it would copy. The mapping
            contains only data dims that may be 0. The value None means that the data dim is not a single variable.
    """
    system, equation = case.system, case.equation
    sources = {key for key in equation.factors if system.can_be_zero(key)}
    sinks = {key for key in equation.divisors if system.can_be_zero(key)} - unknown
    if not sources or not (sinks or copies):
        return None
    # Each variable is examined separately. Because both volumes are 0, a variable may have a value other than 0 only if
    # another data variable and another output variable can be 0. The variable itself may be 0, because each side of the
    # equation has a variable that can be 0.
    solution = {}
    for key in case.wanted:
        own = system.ranges[key]
        zero = key in copies if key in unknown else system.can_be_zero(key)
        # `copied` is true if another variable can copy a 0. The output then has a 0 for any value of this variable.
        copied = any(key not in pair for pair in copies.items())
        nonzero = own.max != 0 and bool(sources - {key}) and (bool(sinks - {key}) or copied)
        # If a variable has no possible value, no instance belongs to this case. `solution` then has no range for the
        # variable, so the function returns None.
        if zero or nonzero:
            solution[key] = Range(0 if zero else max(1, own.min), own.max if nonzero else 0)
    return solution if len(solution) == len(case.wanted) else None


def _solve_supposed(case: ValueCase, unknown: Mapping[int, int], solution: Solution | None) -> Solution | None:
    """Adds to `solution` the cases in which an unknown item is the -1.

    With special_zero, an unknown item cannot be a length of 0, but it can be a -1 that becomes 0. For example, the only
    output of [2, 0] -> [?, 5] is therefore (0, 5). Without special_zero, a length can have every value that a -1 can
    become, so these cases add no values.
    """
    for number, index in enumerate(unknown.values(), 1):
        if solution is not None and solution == case.keep_ranges():
            break  # the ranges in `solution` already contain all values that the query allows
        if len(unknown) > _MAX_UNKNOWN:
            return case.keep_ranges()
        with case.budget.hold(len(unknown) - number):
            supposed = solve(case.suppose(case.target.suppose_inferred(index)))
        solution = _join_all([solution, supposed])
    return solution


def _solve_cancelled_zeros(case: ValueCase, inferred: int) -> Solution | None:
    """Solves the cases in which an item is -1.

    In Reshape-1, unknown items may copy a 0, which is then removed from both sides of the equation. An example is [N,
    M, 6] -> [?, ?, -1] with special_zero, whose output items are called u, v and x here. If u and v are lengths, the
    equation is N * M * 6 = u * v * x. If u copies N and N is 0, the equation is M * 6 = v * x. If v also copies M and M
    is 0, the equation is 6 = x. Each subset of the items that may copy a 0 is a separate case. The graph operations
    reject an item -1 if a copied dim is 0, so they have no such cases.

    See the lemma copies-leave in `verification/lemmas.py`.
    """
    copies = dict(_find_zero_copies(case)) if case.target.copies_cancel else {}
    if len(copies) > _MAX_ZERO_COPIES or case.budget.left <= 0:
        return case.keep_ranges()
    # The case without a copied dim of 0 is solved first, because this common case should use the step budget before the
    # rare cases.
    system = case.system
    solutions = [_solve_inferred(case, inferred, system.ranges)]
    for subset in chain.from_iterable(combinations(copies, size) for size in range(1, len(copies) + 1)):
        ranges = list(system.ranges)
        for index in subset:
            for key in (case.find_variable(index), copies[index]):
                if key is not None:  # the key of the data dim is None if the dim is not a single variable
                    ranges[key] = ZERO
        solutions.append(_solve_inferred(case.suppose(case.target.suppose_copied(subset)), inferred, ranges))
    return _join_all(solutions)


def _solve_inferred(case: ValueCase, inferred: int, ranges: Sequence[Range]) -> Solution | None:
    """Solves the case in which the divisor of the -1 is not 0, so the -1 is the quotient of both sides.

    If the quotient is not 0, every variable of the equation is at least 1. Cancelled variables are not in the equation
    and keep their ranges. For example, [N, 6] -> [0, -1] has the equation 6 = x in Reshape-1, and N can have any value.
    In StaticReshape, the same query has the equation N * 6 = N * x, so N is at least 1.

    See the lemma quotient-of-elements in `verification/lemmas.py`.
    """
    inside = case.wanted.intersection(case.equation.factors + case.equation.divisors)
    solution = narrow_ranges(ranges, case.remainder, inside, case.budget)
    if solution is not None:
        solution.update((key, ranges[key]) for key in case.wanted - inside)
    return _join_all([solution, _solve_inferred_zero(case, case.find_variable(inferred), ranges)])


def _solve_inferred_zero(case: ValueCase, unknown: int, ranges: Sequence[Range]) -> Solution | None:
    """Solves the case in which the -1 becomes 0, because a data dim is 0 and the divisor is not 0.

    The data dim that is 0 must not be a factor of the divisor. For [N, 4] -> [-1, 2], N = 0 gives x = 0. For [N,
    4] -> [0, -1] in StaticReshape, N is the divisor, so x cannot become 0.

    See the lemma inferred-zero in `verification/lemmas.py`.
    """
    equation = case.equation
    # If the expected shape gives the -1 the name of another item, the variable of the -1 occurs twice as a factor of
    # the output. In that case, the -1 divides itself, so it cannot be 0.
    positive = set(equation.divisors) - {unknown}
    sources = {key for key in equation.factors if ranges[key].min == 0 and key not in positive}
    if (
        equation.divisors.count(unknown) > 1
        or not sources
        or ranges[unknown].min > 0
        or any(ranges[key].max == 0 for key in positive)
    ):
        return None
    solution = {unknown: ZERO}
    for key in case.wanted - {unknown}:
        if key in positive:
            solution[key] = ranges[key].meet(POSITIVE)
        else:
            # If only one data variable can be 0, this variable is 0. If several data variables can be 0, any of them
            # may be 0, so they keep their ranges.
            solution[key] = ZERO if sources == {key} else ranges[key]
    return solution


def _find_zero_copies(case: ValueCase) -> Iterator[tuple[int, int | None]]:
    """Yields the indices of the unknown items that may copy a dim of 0, each with the variable of that dim.

    The variable is None if the dim is not a single variable.

    See the lemma nonzero-copy-is-a-length in `verification/lemmas.py`.
    """
    system = case.system
    for index in case.target.may_copy:
        if not system.can_be_zero(case.find_variable(index)):
            continue
        source = system.data.get(index)
        if source is None and system.rest is not None:
            yield index, None
        elif source is not None and any(system.can_be_zero(key) for key in source.product.factors):
            yield index, source.variable


def solve_for(key: int, case: ValueCase, zeros: Container[int]) -> Expression | None:
    """Solves the equation for a variable of the output; None if the solution is not an expression of names.

    See the lemma solve-for-a-name in `verification/lemmas.py`.

    Args:
        key: the variable.
        case: the equation. The equation holds for all instances in which the cancelled factors are not 0.
        zeros: the variables that may be 0. The solution must not divide by these variables.
    """
    # If the variable occurs twice in the product, the solution would be a square root, which is not an expression. If a
    # cancelled factor is 0, both sides are 0, and the variable can have any value.
    equation = case.remainder
    if equation.divisors.count(key) != 1 or any(variable in zeros for variable in case.cancelled):
        return None
    divisors = tuple([variable for variable in equation.divisors if variable != key])
    if not (equation.factors or divisors) or any(variable in zeros for variable in divisors):
        return None
    return name_product(equation._replace(divisors=divisors), case.system.symbols)


def _join_all(solutions: Iterable[Solution | None]) -> Solution | None:
    """Returns the smallest ranges that contain the ranges of all cases; None if no case has a solution.

    See the lemma join-holds-both in `verification/lemmas.py`.
    """
    joined: Solution | None = None
    for solution in solutions:
        if joined is None:
            joined = solution
        elif solution is not None:
            joined = {key: own.join(solution[key]) for key, own in joined.items()}
    return joined
