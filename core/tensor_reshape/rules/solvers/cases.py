"""The case splits of the general solver, and the ranges of the output's variables over all of them.

A volume of 0 turns the equation into nothing: 0 * N = 0 * M for any N and M. And an unknown item is three things at
once: a length, a copy if it is a 0 under special_zero, or the -1. So the instances that the rules accept are split into
cases, in each of which the equation says something; each case is a function here, and the answer is the join of their
ranges. A case without instances is None, and a question all of whose cases are None is refused.

    solve
        no item is known to be the -1
            _solve_nonempty             the tensor has elements
            _solve_empty_copies
                _solve_empty            it has none, and no item is the -1
                _solve_supposed         an unknown item is the -1: each of them in turn, by `solve`
        an item is the -1
            _solve_cancelled_zeros      for each subset of the unknown items that may copy a 0; Reshape-1 cancels those
                _solve_inferred         what divides the -1 is not 0
                    _solve_inferred_zero    and the -1 itself is 0

Sound in any case: where there would be too many cases, the ranges are those of the question; where no steps are left,
they are what has been clipped so far, or those of the question.
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
"""What each variable of the output lies between, by its key."""

_MAX_ZERO_COPIES = 3  # each doubles the cases
_MAX_UNKNOWN = 4  # each is a case, with all others in it


class Case:
    """A system under one reading of its target.

    Attributes:
        system: the variables.
        target: what the items are; of an unknown one, perhaps what it is supposed to be.
        budget: of the question, all of its cases together.
        wanted: the variables of the output.
        equation: of the volumes.
        remainder: the same, cancelled.
    """

    def __init__(self, system: System, target: Target[AnyDim], budget: StepBudget) -> None:
        """Lists the equation."""
        self.system = system
        self.target = target
        self.budget = budget
        # Only these are narrowed: each end that is moved is a search, and nobody asks for the data's.
        self.wanted = {key for monomial in system.output for key in monomial.variables}
        self.equation = system.equate(target)
        self.remainder = self.equation.cancel()

    def suppose(self, target: Target[AnyDim]) -> "Case":
        """Returns the case of another reading."""
        return Case(self.system, target, self.budget)

    def find_variable(self, index: int) -> int:
        """Returns the variable that an item of the output without a name is."""
        return self.system.output[index].variables[0]

    def keep_ranges(self) -> Solution:
        """Returns the ranges of the question: they hold every instance."""
        return {key: self.system.ranges[key] for key in self.wanted}


def solve(case: Case) -> Solution | None:
    """Returns the ranges of every variable of the output, or None where no instance is accepted.

    Lemma: two-cases.
    """
    if case.target.inferred is not None:
        return _solve_cancelled_zeros(case, case.target.inferred)
    # The case of most tensors first. The answer is no narrower than its widest case, so each has a share of the budget.
    with case.budget.hold(len(case.target.may_copy)):
        solution = _solve_nonempty(case)
    return _join_all([solution, _solve_empty_copies(case)])


def _solve_nonempty(case: Case) -> Solution | None:
    """There is no -1, and the tensor has elements.

    Then every variable is at least 1, so what stands on both sides cancels, and the volumes are equal where the
    remainders are. [N, 4] -> [N, M, 2]: 4 = 2 * M, so M is 2.

    Lemmas: cancel-nonzero, nonempty-dims.
    """
    return narrow_ranges(case.system.ranges, case.remainder, case.wanted, case.budget)


def _solve_empty_copies(case: Case) -> Solution | None:
    """There is no -1 that is known as one, and the tensor is empty; or an unknown item is the -1.

    Of the unknown items that may copy, a 0 is a copy of a data dim that may be 0, and never a length of 0.
    [N, 3] -> [?, 5]: the item is 0 only as N is. [2, N] -> [?, 5] has no such case: it would copy the 2.
    """
    unknown = {case.find_variable(index): index for index in case.target.may_copy}
    copies = {case.find_variable(index): source for index, source in _find_zero_copies(case)}
    return _solve_supposed(case, unknown, _solve_empty(case, set(unknown), copies))


def _solve_empty(case: Case, unknown: set[int], copies: Mapping[int, int | None]) -> Solution | None:
    """There is no -1, and the tensor is empty: a dim of the data is 0, and one of the output.

    The volumes are equal then whatever all other dims are. [N, 4] -> [M, 2]: N and M are 0, or both are not. A variable
    can be 0 where that is in its range; it can be another value where the data has another that can be 0, and the
    output has as well.

    Lemma: empty-dims.

    Args:
        case: the question.
        unknown: the variables that are 0 only as copies.
        copies: those of them whose data dim may be 0, each with the variable of that dim; None: it is one of several.
    """
    system, equation = case.system, case.equation
    sources = {key for key in equation.left if system.can_be_zero(key)}
    sinks = {key for key in equation.right if system.can_be_zero(key)} - unknown
    if not sources or not (sinks or copies):
        return None
    # Each variable by itself: another one may be the 0 on either side, or this one may be it on both.
    solution = {}
    for key in case.wanted:
        own = system.ranges[key]
        zero = key in copies if key in unknown else system.can_be_zero(key)
        copied = any(key not in pair for pair in copies.items())  # a copy of a 0 that this variable has no part in
        nonzero = own.max != 0 and bool(sources - {key}) and (bool(sinks - {key}) or copied)
        # One that is neither leaves the whole case without an instance: then the sizes differ below.
        if zero or nonzero:
            solution[key] = Range(0 if zero else max(1, own.min), own.max if nonzero else 0)
    return solution if len(solution) == len(case.wanted) else None


def _solve_supposed(case: Case, unknown: Mapping[int, int], solution: Solution | None) -> Solution | None:
    """An unknown item is the -1. The case of each of them is joined to `solution`.

    Under special_zero a 0 is a copy, so such an item may be 0 as the -1 where it cannot be as a length: [2, 0] ->
    [?, 5] is (0, 5) alone. Without special_zero an item is nothing as the -1 that it is not as a length.
    """
    for number, index in enumerate(unknown.values(), 1):
        if solution is not None and solution == case.keep_ranges():
            break  # there is nothing that is not in it
        if len(unknown) > _MAX_UNKNOWN:
            return case.keep_ranges()
        with case.budget.hold(len(unknown) - number):
            supposed = solve(case.suppose(case.target.suppose_inferred(index)))
        solution = _join_all([solution, supposed])
    return solution


def _solve_cancelled_zeros(case: Case, inferred: int) -> Solution | None:
    """There is a -1, and some of the unknown items, or none, copy a 0: Reshape-1 takes that out of both sides.

    [N, M, 6] -> [?, ?, -1] under special_zero, the items u, v and x: as lengths, N * M * 6 = u * v * x; where u copies
    N = 0, M * 6 = v * x; where v copies M = 0 as well, 6 = x. Each subset of the items that may be such copies is a
    case. For the graph operations a copied 0 leaves no -1.

    Lemma: copies-leave.
    """
    copies = dict(_find_zero_copies(case)) if case.target.copies_cancel else {}
    if len(copies) > _MAX_ZERO_COPIES or case.budget.left <= 0:
        return case.keep_ranges()
    # First without any copy of a 0: what is common has the budget before what is rare.
    system = case.system
    solutions = [_solve_inferred(case, inferred, system.ranges)]
    for subset in _list_subsets(copies):
        ranges = list(system.ranges)
        for index in subset:
            for key in (case.find_variable(index), copies[index]):
                if key is not None:  # a 0 among several variables says nothing of one
                    ranges[key] = ZERO
        solutions.append(_solve_inferred(case.suppose(case.target.suppose_copied(subset)), inferred, ranges))
    return _join_all(solutions)


def _solve_inferred(case: Case, inferred: int, ranges: Sequence[Range]) -> Solution | None:
    """There is a -1: it is the quotient of the two sides, and what divides it is not 0.

    Where the quotient has elements, every variable of the equation is at least 1; those that are cancelled are not in
    it, and keep their ranges. [N, 6] -> [0, -1] in Reshape-1: x = 6, and N is anything; in StaticReshape N * 6 = N * x,
    so N is at least 1.

    Lemma: quotient-of-elements.
    """
    inside = case.wanted.intersection([*case.equation.left, *case.equation.right])
    solution = narrow_ranges(ranges, case.remainder, inside, case.budget)
    if solution is not None:
        solution.update((key, ranges[key]) for key in case.wanted - inside)
    return _join_all([solution, _solve_inferred_zero(case, case.find_variable(inferred), ranges)])


def _solve_inferred_zero(case: Case, unknown: int, ranges: Sequence[Range]) -> Solution | None:
    """The -1 is 0: a dim of the data is, and what divides the -1 is not.

    That dim must not stand on the right side, too. [N, 4] -> [-1, 2]: N = 0 gives x = 0. [N, 4] -> [0, -1] in
    StaticReshape: N divides, so x is not 0.

    Lemma: inferred-zero.
    """
    equation = case.equation
    # It stands there twice where the caller expects a name for it that another item has: then it divides itself.
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
            # Where one variable alone can be the 0 of the data, it is; otherwise any may be, and none must.
            solution[key] = ZERO if sources == {key} else ranges[key]
    return solution


def _find_zero_copies(case: Case) -> Iterator[tuple[int, int | None]]:
    """Yields the indices of the unknown items that may copy a dim of 0, and the variable of that dim if it is one.

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
    """Yields every subset but the empty one, the smallest first."""
    every = list(indices)
    return (subset for size in range(1, len(every) + 1) for subset in combinations(every, size))


def _join_all(solutions: Iterable[Solution | None]) -> Solution | None:
    """Returns the least ranges that hold those of all solutions; None where there is no solution.

    Lemma: join-holds-both.
    """
    joined: Solution | None = None
    for solution in solutions:
        if joined is None:
            joined = solution
        elif solution is not None:
            joined = {key: own.join(solution[key]) for key, own in joined.items()}
    return joined
