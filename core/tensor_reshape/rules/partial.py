"""The shape rules where data and target are only partly known.

A question stands for all its instances: every concrete data shape and target that it admits. The answer holds the
output of each instance that the rules of `rules.shapes` accept, and is an error where they accept none, or where a
literal breaks a rule whatever the data. Where everything is known, it is what `rules.shapes` answers.

A symbol is one dim wherever it stands. A target item that is not a number is a length, never an instruction, but for an
unknown one, which may be anything.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple, cast

from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    are_known,
    check_partial_dim,
    check_partial_dims,
    check_symbols,
    find_bounds,
    find_name,
    format_product,
    make_dim,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, GRAPH_MAX_RANK, MAX_DIM, Limits
from tensor_reshape.rules.models import Kind, Model, Place
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.plain import infer_plain
from tensor_reshape.rules.products import Search
from tensor_reshape.rules.refusals import (
    refuse_copy,
    refuse_expected,
    refuse_expected_rank,
    refuse_expected_volume,
    refuse_expression,
    refuse_overflow,
    refuse_remainder,
    refuse_second_minus_one,
    refuse_value,
    refuse_volume,
    refuse_zero_volume,
)
from tensor_reshape.rules.scenarios import Scenario, solve
from tensor_reshape.rules.shapes import Question, check_admitted, infer_shape
from tensor_reshape.rules.terms import Equality, find_equality, solve_for


class PartialQuestion(NamedTuple):
    """What is known of what decides an output shape.

    Attributes:
        operation: whose rules answer.
        data: the data's dims; None: not even the rank is known.
        target: the target's items, where an int below 1 is an instruction, as in the operations; None: nothing is known
            of it, not even its length.
        special_zero: None where the request does not say, which is an error.
        data_type: of the data; None where it is not to be checked.
        expected: the output dims that the caller counts on; None: nothing is declared.
    """

    operation: Operation
    data: Sequence[AnyDim] | None
    target: Sequence[AnyDim] | None
    special_zero: bool | None
    data_type: DataType | None = None
    expected: Sequence[AnyDim] | None = None


class Inference(NamedTuple):
    """An answer.

    Attributes:
        dims: the output's; None: not even the rank is known.
        equalities: what follows for the symbols.
    """

    dims: tuple[AnyDim, ...] | None
    equalities: tuple[Equality, ...] = ()


def infer_partial(
    question: PartialQuestion, limits: Limits = DEFAULT_LIMITS, search: Search | None = None
) -> Inference:
    """Returns what is known of the output's dims.

    Args:
        question: what is asked.
        limits: of the server.
        search: the step budget of the question, its refusal included; None: a whole one.

    Raises:
        InvalidRequestError: the question is against a rule, or no instance of it is accepted; the reason and the
            metadata tell which and where.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    operation, data, target, special_zero, data_type, expected = question
    if data is not None and target is not None and special_zero is not None and data_type is None and expected is None:
        max_rank = min(GRAPH_MAX_RANK, limits.max_rank)
        if len(data) <= max_rank and len(target) <= max_rank:
            plain = infer_plain(data, target, special_zero=special_zero, copies_cancel=operation.copies_cancel)
            if plain is not None:
                return Inference(plain)
    if are_known(data) and are_known(target):
        if expected is not None:
            check_partial_dims(expected, "expected_shape.dims")
        return Inference(infer_shape(cast("Question", question), limits))  # the same attributes, all of them known
    _check_question(question, limits)
    search = search or Search()
    if target is None and expected is None:
        build_scenario(question, search)
        return Inference(None)
    return _infer_dims(
        question if target is not None else question._replace(target=[None] * len(expected or ())), search
    )


def _check_question(question: PartialQuestion, limits: Limits) -> None:
    check_admitted(question, limits)
    check_partial_dims(question.data or (), "data.dims")
    for index, item in enumerate(question.target or ()):
        if isinstance(item, Dim):
            check_partial_dim(item, f"shape[{index}]", index)
    check_partial_dims(question.expected or (), "expected_shape.dims")
    check_symbols([*(question.data or ()), *(question.target or ()), *(question.expected or ())])


def _infer_dims(question: PartialQuestion, search: Search) -> Inference:
    scenario = build_scenario(question, search)
    solution = solve(scenario)
    if solution is None:
        raise _refuse(question, search)
    zeros = {key for key, bounds in solution.items() if bounds.min == 0}
    if scenario.inferred is not None:  # what it is divided by is not 0
        divisors = Counter(scenario.equation.right) - Counter(scenario.model.target[scenario.inferred].atoms)
        zeros.difference_update(divisors)
    declared = {dim.expression: dim.bounds for dim in question.data or () if isinstance(dim, Dim) and dim.expression}
    dims = []
    for place in scenario.model.target:
        if place.atom is None and not place.atoms and not place.divisors:
            dims.append(place.dim)
            continue
        bounds, expression = scenario.model.find_bounds(place, solution), _find_term(place, scenario, zeros)
        bounds = bounds.meet(ANY if expression is None else declared.get(expression, ANY))
        if bounds.is_empty:
            raise _refuse(question, search)
        dims.append(make_dim(bounds, expression))
    equality = find_equality(scenario.model, scenario.residue, zeros)
    return Inference(tuple(dims), () if equality is None else (equality,))


def build_scenario(question: PartialQuestion, search: Search) -> Scenario:
    """Returns the question in atoms.

    Raises:
        InvalidRequestError: a literal breaks a rule whatever the data, a symbol is two things, or an expression no dim.
    """
    model = Model()
    _place_data(model, question.data)
    inferred, zero = None, None
    for index, item in enumerate(question.target or ()):
        kind = _find_kind(question, index, item)
        if kind is Kind.INFERRED:
            if inferred is not None:
                raise refuse_second_minus_one(question, inferred, index)
            inferred = index
        elif item == 0 and kind is Kind.LITERAL:
            zero = index
        model.target.append(_place_item(model, kind, index, item))
    if inferred is not None and zero is not None:
        raise refuse_zero_volume(question, inferred)
    if question.expected is not None:
        _expect(model, question.expected, special_zero=bool(question.special_zero))
    _check_places(model, model.data.items(), "data.dims")
    _check_places(model, enumerate(model.target), "shape")
    special_zero = bool(question.special_zero)
    return Scenario(model, question.operation, special_zero=special_zero, inferred=inferred, search=search)


def _check_places(model: Model, places: Iterable[tuple[int, Place]], field: str) -> None:
    """Checks that every expression is a dim for some values of its symbols."""
    for index, place in places:
        if place.atom is None and (place.atoms or place.divisors):
            bounds = model.find_bounds(place)
            path = f"{field}[{index}]"
            if bounds.is_empty:
                raise refuse_expression(path, index, place.dim, bounds)


def _place_data(model: Model, data: Sequence[AnyDim] | None) -> None:
    if data is None:
        model.add_rest()
    for index, dim in enumerate(data or ()):
        model.data[index] = _place(model, Kind.UNKNOWN, dim, f"data.dims[{index}]")


def _find_kind(question: PartialQuestion, index: int, item: AnyDim) -> Kind:
    if item is None:
        return Kind.UNKNOWN
    if isinstance(item, Dim):
        return Kind.LENGTH
    if not -1 <= item <= MAX_DIM:
        raise refuse_value(question, index)
    if item == -1:
        return Kind.INFERRED
    if item == 0 and question.special_zero:
        if question.data is not None and index >= len(question.data):
            raise refuse_copy(question, index)
        return Kind.COPIED
    return Kind.LITERAL


def _place_item(model: Model, kind: Kind, index: int, item: AnyDim) -> Place:
    if kind is Kind.COPIED:
        if index not in model.data:  # of data whose rank is unknown
            model.data[index] = model.add_place(Kind.UNKNOWN, None)
        return model.data[index]._replace(kind=Kind.COPIED)
    return _place(model, kind, None if kind is Kind.INFERRED else item, f"shape[{index}]")


def _place(model: Model, kind: Kind, dim: AnyDim, path: str) -> Place:
    """Returns the place of a dim; where its symbol is two things, it is to blame."""
    try:
        return model.add_place(kind, dim)
    except InvalidRequestError as error:
        raise type(error)(error.message, reason=error.reason, field=path, metadata=error.metadata) from None


def _expect(model: Model, expected: Sequence[AnyDim], *, special_zero: bool) -> None:
    """Narrows the places of the output to what the caller counts on, and names those that have no name."""
    if len(expected) != len(model.target):
        raise refuse_expected_rank([place.dim for place in model.target], expected)
    for index, (place, want) in enumerate(zip(model.target, expected, strict=True)):
        have = find_bounds(place.dim) if place.atom is None else model.bounds[place.atom]
        met = have.meet(find_bounds(want))
        if met.is_empty:
            raise refuse_expected(index, place.dim, want)
        if place.atom is not None:
            model.bounds[place.atom] = met
        may_copy = place.kind is Kind.UNKNOWN and special_zero  # then the rules for a 0 look at the item by itself
        if find_name(want) is not None and find_name(place.dim) is None and place.kind is not Kind.COPIED:
            named = _place(
                model,
                place.kind,
                Dim(met, want.expression if isinstance(want, Dim) else None),
                f"expected_shape.dims[{index}]",
            )
            model.target[index] = place._replace(dim=want) if may_copy else named


def _find_term(place: Place, scenario: Scenario, zeros: Container[int]) -> Expression | None:
    if isinstance(place.dim, Dim) and place.dim.expression is not None:
        return place.dim.expression
    if place.kind is Kind.COPIED or place.atom is None:
        return None
    return solve_for(place.atom, scenario.model, scenario.residue, zeros)


def _refuse(question: PartialQuestion, search: Search) -> InvalidRequestError:
    """Returns why no instance is accepted."""
    if question.expected is not None:
        dims = infer_partial(question._replace(expected=None), search=search).dims or ()
        for index, (have, want) in enumerate(zip(dims, question.expected, strict=True)):
            if find_bounds(have).meet(find_bounds(want)).is_empty:
                return refuse_expected(index, have, want)
        return refuse_expected_volume(dims, question.expected, format_product(question.data or ()))
    data, target = question.data or (), question.target or ()
    if -1 not in target:
        return refuse_volume(question, format_product(data), format_product(target))
    overflow = _find_overflow(question, search)
    if overflow is not None:
        return overflow
    inferred, others = target.index(-1), [item for item in target if item != -1]
    if any(item != 0 and find_bounds(item).max == 0 for item in others):
        return refuse_zero_volume(question, inferred)
    return refuse_remainder(question, inferred, format_product(data), format_product(others))


def _find_overflow(question: PartialQuestion, search: Search) -> InvalidRequestError | None:
    """Returns the refusal of a -1 that would have to be more than a dim can be."""
    scenario = build_scenario(question, search)
    inferred = scenario.inferred or 0
    (atom,) = scenario.model.target[inferred].atoms
    scenario.model.bounds[atom] = ANY
    solution = solve(scenario)
    if solution is None or solution[atom].min <= MAX_DIM:
        return None
    return refuse_overflow(question, inferred, solution[atom].min)
