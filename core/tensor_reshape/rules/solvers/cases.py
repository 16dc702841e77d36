"""Case splits of the general solver, and the ranges of the output's variables over all cases.

If the volume is 0, the equation says nothing: 0 * N = 0 * M for any N and M. An unknown item can be a length, a copy if
it is a 0 with special_zero, or the -1. The accepted instances are therefore split into cases in which the equation is
meaningful. Each case is a function here, and the result is the join of their ranges. A case without instances is None,
and a query is rejected if all its cases are None.

solve
    no item is known to be the -1
        _solve_nonempty             the tensor has elements
        _solve_empty_copies
            _solve_empty            it has none, and no item is the -1
        _solve_supposed             an unknown item is the -1: each of them in turn, by `solve`
    an item is the -1
        _solve_cancelled_zeros      for each subset of the unknown items that may copy a 0; Reshape-1 cancels those
            _solve_inferred         the divisor of the -1 is not 0
            _solve_inferred_zero    and the -1 itself is 0

The result is sound in any case: if there would be too many cases, the ranges are those of the query. If no steps are
left, they are the ranges clipped so far, or those of the query.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.solvers.equations import POSITIVE, ZERO, Range, System
from tensor_reshape.rules.solvers.propagation import narrow_ranges
from tensor_reshape.rules.targets import Target

Solution: TypeAlias = dict[int, Range]
"""The range of each variable of the output, by its key."""

_MAX_ZERO_COPIES = 3  # each doubles the number of cases
_MAX_UNKNOWN = 4  # each is a case that contains all other ones


class Case:
    """A system with one interpretation of its target.

    Attributes:
        system: the variables.
        target: the kinds of the items; an unknown item may have a supposed kind.
        budget: the step budget, shared by all cases of the query.
        wanted: the variables of the output.
        equation: the equation of the volumes.
        remainder: the same after cancelling.
    """

    def __init__(self, system: System, target: Target[AnyDim], budget: StepBudget) -> None:
        """Builds the equation."""
        self.system = system
        self.target = target
        self.budget = budget
        # Only these are narrowed, because each moved end is a search, and the ranges of the data are not needed.
        self.wanted = {key for monomial in system.output for key in monomial.variables}
        self.equation = system.equate(target)
        self.remainder = self.equation.cancel()

    def suppose(self, target: Target[AnyDim]) -> "Case":
        """Returns the case with another interpretation."""
        return Case(self.system, target, self.budget)

    def find_variable(self, index: int) -> int:
        """Returns the variable of an output item without a name."""
        return self.system.output[index].variables[0]

    def keep_ranges(self) -> Solution:
        """Returns the ranges of the query, which contain every instance."""
        return {key: self.system.ranges[key] for key in self.wanted}


def solve(case: Case) -> Solution | None:
    """Returns the range of every variable of the output, or None if no instance is accepted.

    Lemma: two-cases.
    """
    if case.target.inferred is not None:
        return _solve_cancelled_zeros(case, case.target.inferred)
    # The most common case first. The result is as wide as its widest case, so each case has a share of the budget.
    with case.budget.hold(len(case.target.may_copy)):
        solution = _solve_nonempty(case)
    return _join_all([solution, _solve_empty_copies(case)])


def _solve_nonempty(case: Case) -> Solution | None:
    """Solves the case without -1 in which the tensor has elements.

    Every variable is then at least 1, so factors on both sides cancel, and the volumes are equal if the remainders are.
    [N, 4] -> [N, M, 2]: 4 = 2 * M, so M is 2.

    Lemmas: cancel-nonzero, nonempty-dims.
    """
    return narrow_ranges(case.system.ranges, case.remainder, case.wanted, case.budget)


def _solve_empty_copies(case: Case) -> Solution | None:
    """Solves the case of an empty tensor without a known -1, in which unknown items may be copies.

    A 0 of an unknown item that may copy is a copy of a data dim that may be 0, and never a length of 0. [N, 3] -> [?,
    5]: the item is 0 only if N is. [2, N] -> [?, 5] has no such case, because the item would copy the 2.
    """
    unknown = {case.find_variable(index): index for index in case.target.may_copy}
    copies = {case.find_variable(index): source for index, source in _find_zero_copies(case)}
    return _solve_supposed(case, unknown, _solve_empty(case, set(unknown), copies))


def _solve_empty(case: Case, unknown: set[int], copies: Mapping[int, int | None]) -> Solution | None:
    """Solves the case of an empty tensor without -1: a dim of the data is 0, and a dim of the output is 0.

    The volumes are then equal for all values of the other dims. [N, 4] -> [M, 2]: N and M are both 0, or both are not.
    A variable can be 0 if its range contains 0. It can be another value if the data has another dim that can be 0, and
    so has the output.

    Lemma: empty-dims.

    Args:
        case: the query.
        unknown: the variables that are 0 only as copies.
        copies: those whose data dim may be 0, with the variable of that dim; None: it is one of several.
    """
    system, equation = case.system, case.equation
    sources = {key for key in equation.left if system.can_be_zero(key)}
    sinks = {key for key in equation.right if system.can_be_zero(key)} - unknown
    if not sources or not (sinks or copies):
        return None
    # Each variable by itself: another variable may be the 0 on either side, or this one may be it on both.
    solution = {}
    for key in case.wanted:
        own = system.ranges[key]
        zero = key in copies if key in unknown else system.can_be_zero(key)
        copied = any(key not in pair for pair in copies.items())  # a copied 0 that does not involve this variable
        nonzero = own.max != 0 and bool(sources - {key}) and (bool(sinks - {key}) or copied)
        # If both are impossible, the case has no instance, and the sizes below differ.
        if zero or nonzero:
            solution[key] = Range(0 if zero else max(1, own.min), own.max if nonzero else 0)
    return solution if len(solution) == len(case.wanted) else None


def _solve_supposed(case: Case, unknown: Mapping[int, int], solution: Solution | None) -> Solution | None:
    """Joins the cases in which an unknown item is the -1 to `solution`.

    With special_zero a 0 is a copy, so the item may be 0 as the -1 even if it cannot be 0 as a length: [2, 0] -> [?, 5]
    is only (0, 5). Without special_zero, the -1 adds no value that a length does not have.
    """
    for number, index in enumerate(unknown.values(), 1):
        if solution is not None and solution == case.keep_ranges():
            break  # it already contains everything
        if len(unknown) > _MAX_UNKNOWN:
            return case.keep_ranges()
        with case.budget.hold(len(unknown) - number):
            supposed = solve(case.suppose(case.target.suppose_inferred(index)))
        solution = _join_all([solution, supposed])
    return solution


def _solve_cancelled_zeros(case: Case, inferred: int) -> Solution | None:
    """Solves the cases with a -1 in which unknown items may copy a 0, which Reshape-1 removes from both sides.

    [N, M, 6] -> [?, ?, -1] with special_zero and items u, v and x. As lengths: N * M * 6 = u * v * x. If u copies N =
    0: M * 6 = v * x. If v also copies M = 0: 6 = x. Each subset of items that may be such copies is a case. In the
    graph operations, a copied 0 does not allow a -1.

    Lemma: copies-leave.
    """
    copies = dict(_find_zero_copies(case)) if case.target.copies_cancel else {}
    if len(copies) > _MAX_ZERO_COPIES or case.budget.left <= 0:
        return case.keep_ranges()
    # First without a copied 0, because the common case should get the budget before the rare ones.
    system = case.system
    solutions = [_solve_inferred(case, inferred, system.ranges)]
    for subset in _list_subsets(copies):
        ranges = list(system.ranges)
        for index in subset:
            for key in (case.find_variable(index), copies[index]):
                if key is not None:  # a 0 among several variables says nothing about one of them
                    ranges[key] = ZERO
        solutions.append(_solve_inferred(case.suppose(case.target.suppose_copied(subset)), inferred, ranges))
    return _join_all(solutions)


def _solve_inferred(case: Case, inferred: int, ranges: Sequence[Range]) -> Solution | None:
    """Solves the case with a -1: it is the quotient of the two sides, and its divisor is not 0.

    If the quotient has elements, every variable of the equation is at least 1. Cancelled variables are not in it and
    keep their ranges. [N, 6] -> [0, -1] in Reshape-1: x = 6, and N is anything. In StaticReshape: N * 6 = N * x, so N
    is at least 1.

    Lemma: quotient-of-elements.
    """
    inside = case.wanted.intersection([*case.equation.left, *case.equation.right])
    solution = narrow_ranges(ranges, case.remainder, inside, case.budget)
    if solution is not None:
        solution.update((key, ranges[key]) for key in case.wanted - inside)
    return _join_all([solution, _solve_inferred_zero(case, case.find_variable(inferred), ranges)])


def _solve_inferred_zero(case: Case, unknown: int, ranges: Sequence[Range]) -> Solution | None:
    """Solves the case in which the -1 is 0: a dim of the data is 0, and the divisor of the -1 is not.

    The dim must not also be on the right side. [N, 4] -> [-1, 2]: N = 0 gives x = 0. [N, 4] -> [0, -1] in
    StaticReshape: N is a divisor, so x is not 0.

    Lemma: inferred-zero.
    """
    equation = case.equation
    # The -1 is there twice if the expected shape gives it the name of another item. It then divides itself.
    positive = set(equation.right) - {unknown}
    sources = {key for key in equation.left if ranges[key].min == 0 and key not in positive}
    if (
        equation.right.count(unknown) > 1
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
            # If only one variable can be the 0 of the data, it is 0. Otherwise any of them may be.
            solution[key] = ZERO if sources == {key} else ranges[key]
    return solution


def _find_zero_copies(case: Case) -> Iterator[tuple[int, int | None]]:
    """Yields the indices of the unknown items that may copy a dim of 0, each with the variable of that dim.

    Lemma: nonzero-copy-is-a-length.
    """
    system = case.system
    for index in case.target.may_copy:
        if not system.can_be_zero(case.find_variable(index)):
            continue
        source = system.data.get(index)
        if source is None and system.rest is not None:
            yield index, None
        elif source is not None and any(system.can_be_zero(key) for key in source.variables):
            yield index, source.variable


def _list_subsets(indices: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Yields every non-empty subset, the smallest first."""
    every = list(indices)
    return (subset for size in range(1, len(every) + 1) for subset in combinations(every, size))


def _join_all(solutions: Iterable[Solution | None]) -> Solution | None:
    """Returns the smallest ranges that contain those of all solutions; None if there is no solution.

    Lemma: join-holds-both.
    """
    joined: Solution | None = None
    for solution in solutions:
        if joined is None:
            joined = solution
        elif solution is not None:
            joined = {key: own.join(solution[key]) for key, own in joined.items()}
    return joined
