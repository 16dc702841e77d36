"""What the atoms of a model may be, over all instances that the rules accept.

A volume of 0 makes an equation of nothing, so instances with elements and empty ones are looked at apart, and their
bounds joined:

- with elements, every factor is at least 1, and the volumes are equal: `rules.products`;
- empty, without a -1: some dim of the data is 0 and some of the output, and the others may be anything;
- with a -1: the other items have no 0 (Reshape-1: those that are not copied), so only the -1 can be one.

An unknown item may be a length, a copy (a 0 under special_zero), or the -1.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from tensor_reshape.rules.dims import Interval
from tensor_reshape.rules.models import Equation, Kind, Model, Place
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.products import Search, narrow_factors

Solution = dict[int, Interval]

_POSITIVE = Interval(1, None)
_ZERO = Interval(0, 0)
_MAX_ZERO_COPIES = 3
_MAX_UNKNOWN = 4


class Scenario:
    """A model, and what its instructions mean.

    Attributes:
        model: the atoms.
        operation: whose rules hold.
        special_zero: whether an unknown item that is 0 copies.
        inferred: the index of the -1; None: there is none, but an unknown item may be one.
        search: the step budget of the question.
        wanted: the atoms of the output.
        equation: what decides.
        residue: the same, cancelled.
    """

    def __init__(
        self,
        model: Model,
        operation: Operation,
        *,
        special_zero: bool,
        inferred: int | None,
        search: Search,
    ) -> None:
        """Lists the equation of the model."""
        self.model = model
        self.operation = operation
        self.special_zero = special_zero
        self.inferred = inferred
        self.search = search
        self.wanted = {atom for place in model.target for atom in place.atoms}
        self.equation = list_equation(self)
        self.residue = self.equation.cancel()

    def infer(self, index: int) -> "Scenario":
        """Returns the scenario in which this item is the -1."""
        return Scenario(self.model, self.operation, special_zero=self.special_zero, inferred=index, search=self.search)


def solve(scenario: Scenario) -> Solution | None:
    """Returns the bounds of every atom of the output, or None where no instance is accepted."""
    if scenario.inferred is None:
        return _join_all(
            [
                narrow_factors(scenario.model.bounds, scenario.residue, scenario.wanted, scenario.search),
                _solve_empty(scenario),
            ]
        )
    copies = list(_find_zero_copies(scenario)) if scenario.operation.copies_cancel else []
    if len(copies) > _MAX_ZERO_COPIES or scenario.search.left <= 0:
        return {key: scenario.model.bounds[key] for key in scenario.wanted}
    subsets = (subset for size in range(len(copies) + 1) for subset in combinations(copies, size))
    return _join_all(_solve_inferred(scenario, scenario.inferred, dict(subset)) for subset in subsets)


def list_equation(scenario: Scenario, leave_out: Iterable[int] = ()) -> Equation:
    """Returns the equation that decides; for Reshape-1 with a -1, copied places are on neither side."""
    model, absent = scenario.model, set(leave_out)
    if scenario.inferred is not None and scenario.operation.copies_cancel:
        absent.update(index for index, place in enumerate(model.target) if place.kind is Kind.COPIED)
    if not absent and model.rest is None:
        return model.equate(model.data.values(), model.target)
    data = [place for index, place in model.data.items() if index not in absent]
    target = [place for index, place in enumerate(model.target) if index not in absent]
    if model.rest is not None:
        data.append(Place(Kind.UNKNOWN, None, atoms=(model.rest,)))
    return model.equate(data, target)


def _solve_inferred(scenario: Scenario, inferred: int, zeros: dict[int, int | None]) -> Solution | None:
    """Solves with a -1, and the unknown items of `zeros` copying a dim of 0 each (the atom; None: one of several)."""
    model = scenario.model
    bounds, equation, residue = model.bounds, scenario.equation, scenario.residue
    if zeros:
        bounds, equation = list(bounds), list_equation(scenario, zeros)
        residue = equation.cancel()
    for index, atom in zeros.items():
        bounds[model.target[index].atoms[0]] = _ZERO
        if atom is not None:
            bounds[atom] = _ZERO
    inside = scenario.wanted.intersection([*equation.left, *equation.right])
    solution = narrow_factors(bounds, residue, inside, scenario.search)
    if solution is not None:
        solution.update((key, bounds[key]) for key in scenario.wanted - inside)
    return _join_all([solution, _solve_zero(scenario, inferred, equation, bounds)])


def _solve_zero(scenario: Scenario, inferred: int, equation: Equation, bounds: list[Interval]) -> Solution | None:
    """The -1 is 0: a dim of the data is, and no other item."""
    (unknown,) = scenario.model.target[inferred].atoms
    positive = set(equation.right) - {unknown}
    sources = {key for key in equation.left if bounds[key].min == 0 and key not in positive}
    if (
        equation.right.count(unknown) > 1
        or not sources
        or bounds[unknown].min > 0
        or any(bounds[key].max == 0 for key in positive)
    ):
        return None
    solution = {unknown: _ZERO}
    for key in scenario.wanted - {unknown}:
        if key in positive:
            solution[key] = bounds[key].meet(_POSITIVE)
        else:
            solution[key] = _ZERO if sources == {key} else bounds[key]
    return solution


def _solve_empty(scenario: Scenario) -> Solution | None:
    """The data and the output are empty, or an unknown item is the -1; no other item is."""
    if not scenario.special_zero:
        return _solve_zeros(scenario, set(), {})
    unknown = {place.atoms[0]: index for index, place in enumerate(scenario.model.target) if place.kind is Kind.UNKNOWN}
    copies = {scenario.model.target[index].atoms[0]: atom for index, atom in _find_zero_copies(scenario)}
    solution = _solve_zeros(scenario, set(unknown), copies)
    for index in unknown.values():
        if solution is not None and all(scenario.model.bounds[key] == bounds for key, bounds in solution.items()):
            break  # there is nothing that is not in it
        if len(unknown) > _MAX_UNKNOWN:
            return {key: scenario.model.bounds[key] for key in scenario.wanted}
        solution = _join_all([solution, solve(scenario.infer(index))])
    return solution


def _solve_zeros(scenario: Scenario, unknown: set[int], copies: dict[int, int | None]) -> Solution | None:
    """Some dim of the data is 0 and some of the output; `unknown` are 0 only as `copies` of a dim."""
    model, equation = scenario.model, scenario.equation
    sources = {key for key in equation.left if model.can_be_zero(key)}
    sinks = {key for key in equation.right if model.can_be_zero(key)} - unknown
    if not sources or not (sinks or copies):
        return None
    solution = {}
    for key in scenario.wanted:
        bounds = model.bounds[key]
        zero = key in copies if key in unknown else model.can_be_zero(key)
        copied = any(key not in pair for pair in copies.items())
        nonzero = bounds.max != 0 and bool(sources - {key}) and (bool(sinks - {key}) or copied)
        if zero or nonzero:
            solution[key] = Interval(0 if zero else max(1, bounds.min), bounds.max if nonzero else 0)
    return solution if len(solution) == len(scenario.wanted) else None


def _find_zero_copies(scenario: Scenario) -> Iterator[tuple[int, int | None]]:
    """Returns the indices of the unknown items that may copy a dim of 0, and the atom of that dim if it is one."""
    model = scenario.model
    if not scenario.special_zero:
        return
    for index, place in enumerate(model.target):
        if place.kind is not Kind.UNKNOWN or index == scenario.inferred or model.bounds[place.atoms[0]].min > 0:
            continue
        source = model.data.get(index)
        if source is None and model.rest is not None:
            yield index, None
        elif source is not None and any(model.can_be_zero(atom) for atom in source.atoms):
            yield index, source.atom


def _join_all(solutions: Iterable[Solution | None]) -> Solution | None:
    joined: Solution | None = None
    for solution in solutions:
        if joined is None:
            joined = solution
        elif solution is not None:
            joined = {key: bounds.join(solution[key]) for key, bounds in joined.items()}
    return joined
