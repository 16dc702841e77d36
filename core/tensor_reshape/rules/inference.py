"""Infers output shapes by the five rules of `tensor_reshape.rules`. All results come from this module.

Rule 1 is checked in this module and in the module `dims`. If the target is a tensor, `wire.reshapes` checks the type
and the rank of that tensor. Rule 2 is applied in the module `targets`. Rules 3 and 4 require that the data and the
output have equal volumes. The module `solvers.single` solves this equation if it can, because it is faster than
`solvers.cases`. Neither volume includes the dims of `Target.cancelled`. Rule 5 compares a known output with the
expected shape. For a partially known query, the expected shape is part of the equation, so that an expected dim can
narrow other dims.

If data and target consist of numbers, it is first checked whether the expected dims are valid. After that, the rules
are checked in their order. If a dim or an item is not a number, the query is checked in this order:

1. Rule 1 is checked for the data type, special_zero, the ranks, each single dim, and the number of symbols.
2. The symbols of the data must not contradict each other (rule 1). The items of the target are checked from left to
   right. The symbols of an item must not contradict earlier symbols (rule 1), and the item must obey rule 2.
3. If an item is -1, at least one instance must have a divisor other than 0 (rule 3).
4. Each expression must be a valid dim for some values of its symbols (rule 1).
5. At least one instance of the query must obey rules 3 and 4.
6. At least one of these instances must match the expected shape (rule 5). The symbols of the expected shape must not
   contradict other symbols (rule 1).

Because of this order, a dim whose bounds allow only one number causes the same error as that number.

A partially known query stands for all its instances. An instance is a data shape and a target that consist of numbers
and match the query. The result contains the output of each instance that the rules accept. The query is rejected if no
instance is accepted, or if a number in its target breaks a rule for all data.

Invariants: to find an answer, the items of a target are read only once. `begin_answer` answers queries that need no
search. For any other query, `finish_answer` continues from the state that `begin_answer` returns.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    check_dims,
    check_partial_dim,
    check_partial_dims,
    check_symbols,
    find_name,
    format_product,
    make_dim,
    name_dim,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.explanations import (
    describe_contradiction,
    explain_dims,
    explain_rejection,
    find_dim_groups,
    name_expected,
    remove_bounds,
)
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_DIM, Limits, StepBudget
from tensor_reshape.rules.operations import check_data_type, check_rank
from tensor_reshape.rules.questions import AnyQuestion, Kind, KnownQuestion, ShapeAnswer, ShapeRequest, is_known
from tensor_reshape.rules.rejections import (
    check_expected,
    reject_expected,
    reject_expected_rank,
    reject_expected_volume,
    reject_overflow,
    reject_remainder,
    reject_volume,
)
from tensor_reshape.rules.solvers.cases import Solution, ValueCase, solve, solve_for
from tensor_reshape.rules.solvers.conditions import NO_CONDITIONS, Conditions, list_conditions
from tensor_reshape.rules.solvers.equations import UNBOUNDED, Range, System, build_system, find_range
from tensor_reshape.rules.solvers.single import solve_exactly, solve_single
from tensor_reshape.rules.targets import Target, balance, read_target

_CONTRADICTIONS = {
    Reason.MINUS_ONE_WITH_ZERO_VOLUME,
    Reason.NOT_DIVISIBLE,
    Reason.VOLUME_MISMATCH,
    Reason.EXPECTED_SHAPE_MISMATCH,
}
"""The reasons of a query whose conditions have no solution. The other reasons are about a single value."""


class Unsolved(NamedTuple):
    """A query that has passed the first checks, and whose result or explanation needs a search.

    Attributes:
        request: the query.
        target: the target of the query. None means that not even its length is known.
        solved: the dims and conditions, if the closed form has found them and only the explanation is missing.
    """

    request: ShapeRequest
    target: Target[AnyDim] | None
    solved: tuple[tuple[AnyDim, ...], Conditions] | None = None


def infer_shape(question: KnownQuestion, limits: Limits = DEFAULT_LIMITS) -> tuple[int, ...]:
    """Returns the output dims of a known query. Calls that reshape data use this function.

    Raises:
        InvalidRequestError: the query breaks a rule. The reason and the metadata say which rule is broken, and by which
            item.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    target, output = _infer_known(question, limits)
    if question.expected is not None and expects_product(question):
        finish_answer(Unsolved(ShapeRequest(question), target))
    return output


def expects_product(question: AnyQuestion) -> bool:
    """Returns whether the expected shape has a product of names, which only a search can compare with the output."""
    return any(isinstance(dim, Dim) and dim.is_product for dim in question.expected or ())


def infer(question: AnyQuestion, limits: Limits = DEFAULT_LIMITS, budget: StepBudget | None = None) -> ShapeAnswer:
    """Returns the result of a query without explanations; see `answer_question`."""
    return answer_question(ShapeRequest(question), limits, budget)


def answer_question(
    request: ShapeRequest, limits: Limits = DEFAULT_LIMITS, budget: StepBudget | None = None
) -> ShapeAnswer:
    """Returns the result of a query.

    Args:
        request: the query.
        limits: the limits of the server.
        budget: the steps that finding the result or its error may take. By default, these are MAX_STEPS steps.

    Raises:
        InvalidRequestError: a rule is broken, or no instance is accepted. The reason says which rule is broken, and the
            metadata and the field name the item.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    begun = begin_answer(request, limits)
    return finish_answer(begun, budget) if isinstance(begun, Unsolved) else begun


def begin_answer(request: ShapeRequest, limits: Limits = DEFAULT_LIMITS) -> ShapeAnswer | Unsolved:
    """Returns the result if the query needs no search, and otherwise the input of `finish_answer`.

    `finish_answer` may take some milliseconds, because it may search.

    Raises:
        InvalidRequestError: a rule is broken.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    question = request.question
    try:
        if is_known(question):
            target, output = _infer_known(question, limits)
            return Unsolved(request, target) if expects_product(question) else _complete(request, target, output)
        _check_admitted(question, limits)
        if question.target is None:
            return Unsolved(request, None)
        resolved = read_target(question, question.target)
        # The closed form ignores the expected shape, which may narrow other dims.
        solved = None
        if question.data is not None and question.expected is None:
            solved = solve_single(question.data, resolved)
        if solved is None or request.explain:
            return Unsolved(request, resolved, solved)
        return _complete(request, resolved, *solved)
    except ReshapeError as error:
        raise _explain_rejection(request, error) from None


def finish_answer(unsolved: Unsolved, budget: StepBudget | None = None) -> ShapeAnswer:
    """Returns the result of a query for which `begin_answer` returned an `Unsolved`.

    Args:
        unsolved: the query.
        budget: the steps that finding the result or its error may take. By default, these are MAX_STEPS steps.

    Raises:
        InvalidRequestError: a rule is broken, or no instance is accepted.
    """
    request, target, solved = unsolved
    question, budget = request.question, budget or StepBudget()
    try:
        # The closed form takes less time than the checks of single dims, and it applies only to valid dims. A query
        # with an invalid dim therefore has no closed form, and these checks reject it.
        _check_parts(question)
        if target is None:
            if question.expected is None:
                # Nothing is known about the output, but symbols that contradict each other are rejected.
                target = read_target(question, ())
                build_system(question, target)
                return _complete(request, target, None, Conditions((), sufficient=False))
            # The expected shape gives the rank of the output, so the length of the target is known.
            items = [None] * len(question.expected)
            question = question._replace(target=items)
            target = read_target(question, items)
        return _complete(request, target, *(solved or _search(question, target, budget)))
    except ReshapeError as error:
        raise _explain_rejection(request, error, budget) from None


def _explain_rejection(request: ShapeRequest, error: ReshapeError, budget: StepBudget | None = None) -> ReshapeError:
    if not request.explain:
        return error
    question, contradiction = request.question, ""
    if error.reason in _CONTRADICTIONS and not is_known(question):
        question = _drop_expected(question, error, budget or StepBudget())
        # If the declared bounds contradict no condition, the numbers of the expected shape are treated as bounds, too.
        contradiction = _find_contradiction(question) or _find_contradiction(name_expected(question))
    return explain_rejection(request.question, error, contradiction)


def _drop_expected(question: AnyQuestion, error: ReshapeError, budget: StepBudget) -> AnyQuestion:
    """Returns the query with only the expected dim that the error names.

    If this shorter query would be accepted, the function returns the whole query.
    """
    if question.expected is None:
        return question
    fields = [f"expected_shape.dims[{index}]" for index in range(len(question.expected))]
    expected = [want if field == error.field else None for field, want in zip(fields, question.expected, strict=True)]
    focused = question._replace(expected=expected)
    try:
        infer(focused, budget=budget.explanations)
    except ReshapeError:
        return focused
    return question


def _find_contradiction(question: AnyQuestion) -> str:
    """Returns a text with conditions and the bounds that contradict them; empty if no bounds contradict a condition."""
    plain = remove_bounds(question)
    items = [None] * len(plain.expected or ()) if plain.target is None else plain.target
    plain = plain._replace(target=items)
    try:
        target = read_target(plain, items)
        conditions = list_conditions(plain, ValueCase(build_system(plain, target), target, StepBudget()))
    except ReshapeError:
        return ""
    return describe_contradiction(question, conditions.listed) if conditions.sufficient else ""


def _complete(
    request: ShapeRequest,
    target: Target[AnyDim],
    dims: tuple[AnyDim, ...] | None,
    conditions: Conditions = NO_CONDITIONS,
) -> ShapeAnswer:
    """Returns the result with the conditions, and with the origins and groups if the request asks for them."""
    question, explained = request
    if not explained or dims is None:
        return ShapeAnswer(dims, conditions.listed, (), conditions.complete)
    origins = explain_dims(question, target, dims)
    groups = () if question.data is None else tuple(find_dim_groups(question.data, dims, target.copied))
    return ShapeAnswer(dims, conditions.listed, origins, conditions.complete, groups)


def _infer_known(question: KnownQuestion, limits: Limits) -> tuple[Target[int], tuple[int, ...]]:
    """Returns the target and the output dims of a known query, which are computed by exact arithmetic."""
    # The expected dims may be partially known. Invalid expected dims are reported before other errors.
    if question.expected is not None:
        check_partial_dims(question.expected, "expected_shape.dims")
    _check_admitted(question, limits)
    check_dims(question.data, "data.dims")
    target = read_target(question, question.target)
    if target.rejection is not None:
        raise target.rejection
    output = solve_exactly(question, target)
    if question.expected is not None:
        check_expected(output, question.expected)
    return target, output


def _check_admitted(question: AnyQuestion, limits: Limits) -> None:
    """Checks the data type, special_zero and the ranks of a query. An unknown rank is accepted.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED, SPECIAL_ZERO_MISSING or RANK_UNSUPPORTED.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    operation, data, target, special_zero, data_type, _ = question
    if data_type is not None:
        check_data_type(operation, data_type)
    if special_zero is None:
        message = "special_zero is required and has no default"
        raise InvalidRequestError.of(Reason.SPECIAL_ZERO_MISSING, message, "special_zero")
    # The ranks are compared here, and `check_rank` is called only to raise the error. If `check_rank` were called for
    # each rank, the calls would take a tenth of the time of a known query.
    max_rank = limits.max_rank if operation.max_rank is None else operation.max_rank
    if data is not None and len(data) > max_rank:
        check_rank(operation, len(data), "data.dims", limits)
    if target is not None and len(target) > max_rank:
        check_rank(operation, len(target), "shape", limits)


def _check_parts(question: AnyQuestion) -> None:
    """Checks each partially known dim separately, and the number of symbols in the query.

    Raises:
        InvalidRequestError: the reason is DIM_OUT_OF_RANGE, INTERVAL_EMPTY or EXPRESSION_INVALID.
    """
    data, target, expected = question.data or (), question.target or (), question.expected or ()
    check_partial_dims(data, "data.dims")
    for index, item in enumerate(target):
        if isinstance(item, Dim):  # numbers need no check here, because rule 2 has checked them
            check_partial_dim(item, f"shape[{index}]", index)
    check_partial_dims(expected, "expected_shape.dims")
    check_symbols([*data, *target, *expected])


def _search(question: AnyQuestion, target: Target[AnyDim], budget: StepBudget) -> tuple[tuple[AnyDim, ...], Conditions]:
    """Returns the output dims and the conditions, which the general solver finds.

    Raises:
        InvalidRequestError: a literal breaks a rule for all data, or no instance is accepted.
    """
    expected = question.expected
    try:
        case = ValueCase(build_system(question, target), target, budget)
        found = _solve(question, case)
    except InvalidRequestError as error:
        if expected is None or not error.field.startswith("expected_shape"):
            raise
        raise _reject_expected(question, expected, target, budget, error) from None
    if found is not None:
        return found
    raise _reject(question, case) if expected is None else _reject_expected(question, expected, target, budget)


def _solve(question: AnyQuestion, case: ValueCase) -> tuple[tuple[AnyDim, ...], Conditions] | None:
    """Returns the output dims and the conditions, or None if no instance is accepted."""
    solution = solve(case)
    if solution is None:
        return None
    zeros = _find_zeros(case, solution)
    # The solver bounds only variables. If the data gives bounds for a whole expression, these bounds apply as well.
    declared = {dim.expression: dim.bounds for dim in question.data or () if isinstance(dim, Dim) and dim.expression}
    dims = list[AnyDim]()
    for index, monomial in enumerate(case.system.output):
        if not monomial.product.factors and not monomial.product.divisors:  # the dim is a number
            dims.append(monomial.dim)
            continue
        bounds, expression = case.system.bound_monomial(monomial, solution), _name_dim(case, index, zeros)
        met = Interval(*bounds).meet(ANY if expression is None else declared.get(expression, ANY))
        if met.is_empty:  # in this case, the bounds from the equation contradict the bounds from the data
            return None
        dims.append(make_dim(met, expression))
    conditions = list_conditions(question, case)
    return None if conditions.contradict else (tuple(dims), conditions)


def _find_zeros(case: ValueCase, solution: Solution) -> set[int]:
    """Returns the output variables that may be 0."""
    zeros = {key for key, own in solution.items() if own.min == 0}
    if case.target.inferred is not None:  # the -1 is a quotient, and no variable of its divisor is 0
        # The divisors of the -1 are taken from the equation before common factors are cancelled. In the graph
        # operations, the copied dims also divide the -1, but cancelling would remove them, because they are on both
        # sides.
        divisors = Counter(case.equation.divisors)
        divisors[case.find_variable(case.target.inferred)] -= 1
        zeros.difference_update(+divisors)
    return zeros


def _name_dim(case: ValueCase, index: int, zeros: set[int]) -> Expression | None:
    """Returns an expression for an output dim; None if neither the query nor the solved equation has one."""
    monomial = case.system.output[index]
    if isinstance(monomial.dim, Dim) and monomial.dim.expression is not None:
        return monomial.dim.expression
    if case.target.kinds[index] is Kind.COPIED or monomial.variable is None:
        return None
    return solve_for(monomial.variable, case, zeros)


def _reject(question: AnyQuestion, case: ValueCase) -> InvalidRequestError:
    """Returns the error of a query without accepted instances."""
    target = case.target
    data, items = question.data or (), question.target or ()
    inferred = target.inferred
    if inferred is None:
        return reject_volume(question, format_product(data), format_product(items))
    # If a -1 would be too large and would also leave a remainder, the error says that it is too large.
    overflow = _find_overflow(case, inferred)
    if overflow is not None:
        return reject_overflow(question, inferred, overflow)
    # `above` is the dividend and `below` the divisor. A 0 that copies a dim is replaced by that dim.
    above, below = balance(target, data)
    return reject_remainder(question, inferred, format_product(above), format_product(below))


def _reject_expected(
    question: AnyQuestion,
    expected: Sequence[AnyDim],
    target: Target[AnyDim],
    budget: StepBudget,
    error: InvalidRequestError | None = None,
) -> InvalidRequestError:
    """Returns the error of the first expected dim that is impossible.

    If the query is rejected even without its expected shape, this function returns that rejection. If each expected dim
    is possible by itself, the result is `error`. If `error` is None, the result is the error of all expected dims
    together.
    """
    plain = question._replace(expected=None)
    solved = None if plain.data is None else solve_single(plain.data, target)
    if solved is None:
        try:
            solved = _search(plain, target, budget)
        except InvalidRequestError as earlier:
            return earlier
    dims = solved[0]
    if len(dims) != len(expected):
        return reject_expected_rank(dims, expected)
    # The expected shape has already narrowed the variables of the case. So the bounds of single dims are computed in a
    # new system of variables, without the expected shape.
    system = build_system(plain, target)
    for index, (have, want) in enumerate(zip(dims, expected, strict=True)):
        own, path = find_range(have), f"expected_shape.dims[{index}]"
        bounds = own.meet(find_range(want))
        for dim in (have, want):
            if bounds.is_empty:
                break
            name = find_name(dim)
            named = dim if name is None else name_dim(name, *bounds)  # equal names have equal values
            try:
                bounds = bounds.meet(system.bound_monomial(system.add_monomial(named, path)))
            except InvalidRequestError as conflict:
                return conflict if own.min < own.max else reject_expected(index, have, want)
        if bounds.is_empty:
            return reject_expected(index, have, want)
    return error or reject_expected_volume(dims, expected, format_product(question.data or ()))


def _find_overflow(case: ValueCase, inferred: int) -> int | None:
    """Returns the smallest possible value of the item -1 if this value exceeds MAX_DIM; otherwise None.

    To find this value, the function makes another search, in which the item -1 has no upper bound. The search is
    skipped if the left side of the equation cannot exceed MAX_DIM. In that case, the item -1 cannot exceed MAX_DIM
    either, because it is a factor of the right side, which has the same value.

    See the lemma quotient-below-the-whole in `verification/lemmas.py`.
    """
    system, key = case.system, case.find_variable(inferred)
    # Each variable counts as at least 1, because only a tensor with elements can have a -1 that is too large.
    greatest = case.equation.coefficient
    for variable in case.equation.factors:
        if greatest > MAX_DIM:
            break  # the loop stops here, because the product of many unlimited ranges would have thousands of digits
        greatest *= max(system.ranges[variable].max, 1)
    if greatest <= MAX_DIM:
        return None
    ranges = [*system.ranges]
    ranges[key] = Range(0, UNBOUNDED)
    unbounded = System(ranges, system.symbols, system.data, system.rest, system.output)
    solution = solve(ValueCase(unbounded, case.target, case.budget))
    return None if solution is None or solution[key].min <= MAX_DIM else solution[key].min
