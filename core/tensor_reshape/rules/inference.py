"""The five rules of `tensor_reshape.rules`, put together: every answer to a question comes from here.

Rule 1 is checked here and in `dims`; but a target that is a tensor has its type and rank checked where it is read, in
`wire.reshapes`. Rule 2 is `targets`. Rules 3 and 4 are one equation of two volumes, solved by the cheapest solver that
fits: `solvers.exact`, `solvers.single`, `solvers.cases`. Each forms the two sides in its own terms; `Target.cancelled`
says what is on neither. Rule 5 compares an output that is known. Of a question known in part the expected shape is a
part of what is known, so it goes into the equation: an expected dim narrows the others.

A question whose data and target are numbers is checked in the order of the rules, after the dims that
`answer_question` is told to expect. Any other is checked in this order:

1. the data type, special_zero and the ranks; each dim by itself; how many symbols there are (rule 1);
2. whether the symbols of the data contradict each other (rule 1); then the target, from left to right: whether its
   symbols contradict those before them, and whether an item breaks rule 2;
3. a -1 beside a literal 0 (rule 3);
4. an expected rank or dim that the output cannot have whatever the volume is (rule 5), or an expected symbol that
   contradicts others (rule 1);
5. expressions that are no dim whatever their symbols are (rule 1);
6. whether any instance is left: rules 3 to 5.

A question stands for all its instances: each data shape and target that it admits. An answer holds the output of each
instance that the rules accept; a question is refused where they accept none, or where a literal breaks a rule whatever
the data is. Of a question that is known, that is its one output or its refusal.

Laws: a target is read once for each answer; `begin_answer` answers the questions that are known and those that have a
closed form, and leaves every other to `finish_answer`, which goes on from there.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tensor_reshape.rules.budgets import StepBudget
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
    find_bounds,
    find_name,
    format_product,
    make_dim,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.explanations import explain_dims, explain_refusal
from tensor_reshape.rules.layouts import check_strided_type
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_DIM, Limits
from tensor_reshape.rules.operations import check_data_type, check_rank
from tensor_reshape.rules.questions import (
    AnyQuestion,
    Equality,
    Kind,
    KnownQuestion,
    ShapeAnswer,
    ShapeRequest,
    is_known,
)
from tensor_reshape.rules.refusals import (
    refuse_expected,
    refuse_expected_rank,
    refuse_expected_volume,
    refuse_overflow,
    refuse_remainder,
    refuse_volume,
    refuse_zero_volume,
)
from tensor_reshape.rules.solvers.cases import Case, Solution, solve
from tensor_reshape.rules.solvers.equations import UNBOUNDED, Range, System, build_system
from tensor_reshape.rules.solvers.exact import solve_exactly
from tensor_reshape.rules.solvers.names import find_equality, solve_for
from tensor_reshape.rules.solvers.single import solve_single
from tensor_reshape.rules.targets import Target, balance, read_target
from tensor_reshape.rules.views import infer_view


class Unsolved(NamedTuple):
    """A question that is not known and has no closed form, as far as it has come.

    Attributes:
        request: the question.
        target: its target; None: not even its length is known.
    """

    request: ShapeRequest
    target: Target[AnyDim] | None


def infer_shape(question: KnownQuestion, limits: Limits = DEFAULT_LIMITS) -> tuple[int, ...]:
    """Returns the output's dims of a question that is known, as an execution asks it.

    Raises:
        InvalidRequestError: the question is against a rule; the reason and the metadata tell which and where.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    return _infer_known(question, limits)[1]


def infer(question: AnyQuestion, limits: Limits = DEFAULT_LIMITS, budget: StepBudget | None = None) -> ShapeAnswer:
    """Returns what is known of the output's dims, and nothing else; see `answer_question`."""
    return answer_question(ShapeRequest(question), limits, budget)


def answer_question(
    request: ShapeRequest, limits: Limits = DEFAULT_LIMITS, budget: StepBudget | None = None
) -> ShapeAnswer:
    """Answers one question.

    Args:
        request: the question.
        limits: of the server.
        budget: of the question, its refusal included; None: a whole one.

    Raises:
        InvalidRequestError: it is against a rule, or no instance of it is accepted; the reason and the metadata tell
            which and where.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    begun = begin_answer(request, limits)
    return finish_answer(begun, budget) if isinstance(begun, Unsolved) else begun


def begin_answer(request: ShapeRequest, limits: Limits = DEFAULT_LIMITS) -> ShapeAnswer | Unsolved:
    """Answers a question that is known or has a closed form; returns any other for `finish_answer`.

    That one may take some milliseconds, as it may search.

    Raises:
        InvalidRequestError: it is against a rule.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    question = request.question
    try:
        if is_known(question):
            # The expected dims may be known in part all the same; what is wrong with them is said before all else.
            if question.expected is not None:
                check_partial_dims(question.expected, "expected_shape.dims")
            target, output = _infer_known(question, limits)
            return _complete(request, target, output)
        _check_admitted(question, limits)
        if question.target is None:
            return Unsolved(request, None)
        resolved = read_target(question, question.target)
        # An expected dim may narrow others, which the closed form knows nothing of.
        dims = None
        if question.data is not None and question.expected is None:
            dims = solve_single(question.data, resolved)
        return Unsolved(request, resolved) if dims is None else _complete(request, resolved, dims)
    except ReshapeError as error:
        raise _explain_refusal(request, error) from None


def finish_answer(unsolved: Unsolved, budget: StepBudget | None = None) -> ShapeAnswer:
    """Answers a question that `begin_answer` has left.

    Args:
        unsolved: the question.
        budget: of the question, its refusal included; None: a whole one.

    Raises:
        InvalidRequestError: it is against a rule, or no instance of it is accepted.
    """
    request, target = unsolved
    question = request.question
    try:
        # Not before now: to look at each symbol takes longer than the closed form, which fits legal dims alone.
        _check_parts(question)
        if target is not None:
            return _complete(request, target, *_search(question, target, budget or StepBudget()))
        if question.expected is None:
            # Nothing is known of the output, but a question that contradicts itself is refused all the same.
            build_system(question, _EMPTY)
            return _complete(request, _EMPTY, None)
        # The expected shape tells the rank of the output, so the target is known by its length.
        items = [None] * len(question.expected)
        question = question._replace(target=items)
        target = read_target(question, items)
        return _complete(request, target, *_search(question, target, budget or StepBudget()))
    except ReshapeError as error:
        raise _explain_refusal(request, error) from None


def _explain_refusal(request: ShapeRequest, error: ReshapeError) -> ReshapeError:
    return explain_refusal(request.question, error) if request.explain else error


def _complete(
    request: ShapeRequest,
    target: Target[AnyDim],
    dims: tuple[AnyDim, ...] | None,
    equalities: tuple[Equality, ...] = (),
) -> ShapeAnswer:
    """Returns the answer with all that is to be told with it."""
    question, explained, strides = request
    if strides is None and not explained:  # nearly always: a batch has thousands of these
        return ShapeAnswer(dims, equalities)
    if strides is not None and question.data_type is not None:
        check_strided_type(question.data_type, strides, "data")  # as where such data is reshaped
    view = None if strides is None else infer_view(question.data, strides, dims, target.copied)
    origins = explain_dims(question, target, dims) if explained and dims is not None else ()
    return ShapeAnswer(dims, equalities, origins, view)


def _infer_known(question: KnownQuestion, limits: Limits) -> tuple[Target[int], tuple[int, ...]]:
    """Returns the target and the output's dims, by exact arithmetic."""
    _check_admitted(question, limits)
    check_dims(question.data, "data.dims")
    target = read_target(question, question.target)
    if target.refusal is not None:
        raise target.refusal
    output = solve_exactly(question, target)
    if question.expected is not None:
        _check_expected(output, question.expected)
    return target, output


def _check_admitted(question: AnyQuestion, limits: Limits) -> None:
    """Checks data type, special_zero and ranks; a rank that is unknown passes.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, SPECIAL_ZERO_MISSING or RANK_UNSUPPORTED.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    operation, data, target, special_zero, data_type, _ = question
    if data_type is not None:
        check_data_type(operation, data_type)
    if special_zero is None:
        message = "special_zero is required and has no default"
        raise InvalidRequestError.of(Reason.SPECIAL_ZERO_MISSING, message, "special_zero")
    # Compared here, and refused there: a call for each rank is a tenth of what an execution's question takes.
    max_rank = limits.max_rank if operation.max_rank is None else operation.max_rank
    if data is not None and len(data) > max_rank:
        check_rank(operation, len(data), "data.dims", limits)
    if target is not None and len(target) > max_rank:
        check_rank(operation, len(target), "shape", limits)


def _check_parts(question: AnyQuestion) -> None:
    """Checks each dim that is known in part by itself, and how many symbols there are in all.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE, INTERVAL_EMPTY or EXPRESSION_INVALID.
    """
    data, target, expected = question.data or (), question.target or (), question.expected or ()
    check_partial_dims(data, "data.dims")
    for index, item in enumerate(target):
        if isinstance(item, Dim):  # a number is an instruction, or for rule 2 to refuse
            check_partial_dim(item, f"shape[{index}]", index)
    check_partial_dims(expected, "expected_shape.dims")
    check_symbols([*data, *target, *expected])


def _check_expected(output: Sequence[int], expected: Sequence[AnyDim]) -> None:
    """Checks that the output is what the caller counts on.

    Raises:
        InvalidRequestError: EXPECTED_SHAPE_MISMATCH.
    """
    if len(expected) != len(output):
        raise refuse_expected_rank(output, expected)
    named: dict[str, int] = {}  # the first dim of each name: others of that name are the same dim
    for index, (have, want) in enumerate(zip(output, expected, strict=True)):
        name = find_name(want)
        if not find_bounds(want).holds(have) or (name is not None and named.setdefault(name, have) != have):
            raise refuse_expected(index, have, want)


def _search(
    question: AnyQuestion, target: Target[AnyDim], budget: StepBudget
) -> tuple[tuple[AnyDim, ...], tuple[Equality, ...]]:
    """Returns the output's dims and what they say of the symbols, by the solver for every question.

    Raises:
        InvalidRequestError: a literal breaks a rule, or no instance is accepted.
    """
    case = Case(build_system(question, target), target, budget)
    solution = solve(case)
    if solution is None:
        raise _refuse(question, case)
    zeros = _find_zeros(case, solution)
    # The solver bounds variables; what the data says of an expression as a whole is known besides.
    declared = {dim.expression: dim.bounds for dim in question.data or () if isinstance(dim, Dim) and dim.expression}
    dims = list[AnyDim]()
    for index, monomial in enumerate(case.system.output):
        if not monomial.variables and not monomial.divisors:  # a number
            dims.append(monomial.dim)
            continue
        bounds, expression = case.system.bound_monomial(monomial, solution), _name_dim(case, index, zeros)
        met = Interval(*bounds).meet(ANY if expression is None else declared.get(expression, ANY))
        if met.is_empty:  # what the equation leaves of an expression, and what the data says of it
            raise _refuse(question, case)
        dims.append(make_dim(met, expression))
    # Of the remainder, not of the equation: what stands on both sides says nothing.
    equality = find_equality(case.system, case.remainder, zeros)
    return tuple(dims), () if equality is None else (equality,)


def _find_zeros(case: Case, solution: Solution) -> set[int]:
    """Returns the variables of the output that may be 0."""
    zeros = {key for key, own in solution.items() if own.min == 0}
    if case.target.inferred is not None:  # what it is divided by is not 0
        # Of the equation, not of the remainder: a copy of the graph operations is on both sides, and divides as well.
        divisors = Counter(case.equation.right)
        divisors[case.find_variable(case.target.inferred)] -= 1
        zeros.difference_update(+divisors)
    return zeros


def _name_dim(case: Case, index: int, zeros: set[int]) -> Expression | None:
    """Returns what an output dim is called: as the question says, else what the equation makes of it."""
    monomial = case.system.output[index]
    if isinstance(monomial.dim, Dim) and monomial.dim.expression is not None:
        return monomial.dim.expression
    if case.target.kinds[index] is Kind.COPIED or monomial.variable is None:
        return None
    return solve_for(monomial.variable, case.system, case.remainder, zeros)


def _refuse(question: AnyQuestion, case: Case) -> InvalidRequestError:
    """Returns why no instance is accepted."""
    target = case.target
    if question.expected is not None:
        return _refuse_expected(question, question.expected, case)
    data, items = question.data or (), question.target or ()
    inferred = target.inferred
    if inferred is None:
        return refuse_volume(question, format_product(data), format_product(items))
    # A -1 that would be too large is blamed for that, rather than the others for a remainder.
    overflow = _find_overflow(case, inferred)
    if overflow is not None:
        return refuse_overflow(question, inferred, overflow)
    # What is divided by what: a 0 that copies is the dim that it copies.
    above, below = balance(target, data)
    if any(find_bounds(dim).max == 0 for dim in below):
        return refuse_zero_volume(question, inferred)
    return refuse_remainder(question, inferred, format_product(above), format_product(below))


def _refuse_expected(question: AnyQuestion, expected: Sequence[AnyDim], case: Case) -> InvalidRequestError:
    """Returns which of the expected dims is to blame; the refusal of the question without them, where that has one."""
    # The system has been narrowed by what is expected, so another is built; the target is as it was.
    plain, target = question._replace(expected=None), case.target
    dims = None if plain.data is None else solve_single(plain.data, target)
    if dims is None:
        try:
            dims, _ = _search(plain, target, case.budget)
        except InvalidRequestError as error:
            return error
    for index, (have, want) in enumerate(zip(dims, expected, strict=True)):
        if find_bounds(have).meet(find_bounds(want)).is_empty:
            return refuse_expected(index, have, want)
    return refuse_expected_volume(dims, expected, format_product(question.data or ()))


def _find_overflow(case: Case, inferred: int) -> int | None:
    """Returns the least value of a -1 that would have to be more than a dim can be; None where that is not so.

    That takes another search, with no bound on the -1; but none where the other side cannot be so large: the -1 is at
    most what it is a factor of.

    Lemma: quotient-below-the-whole.
    """
    system, key = case.system, case.find_variable(inferred)
    # At least 1 for each variable: only an instance with elements has a -1 that could be too large.
    greatest = case.equation.constants[0]
    for variable in case.equation.left:
        if greatest > MAX_DIM:
            break  # a product of many open ends would be thousands of digits long
        greatest *= max(system.ranges[variable].max, 1)
    if greatest <= MAX_DIM:
        return None
    ranges = [*system.ranges]
    ranges[key] = Range(0, UNBOUNDED)
    unbounded = System(ranges, system.symbols, system.data, system.rest, system.output)
    solution = solve(Case(unbounded, case.target, case.budget))
    return None if solution is None or solution[key].min <= MAX_DIM else solution[key].min


_EMPTY: Target[AnyDim] = Target(
    kinds=(),
    dims=(),
    copied=(),
    inferred=None,
    cancelled=(),
    product=1,
    may_copy=(),
    is_plain=False,
    copies_cancel=False,
    refusal=None,
)
