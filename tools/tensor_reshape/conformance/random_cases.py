"""Makes random test cases for every rule, and simplifies a case for which an implementation is wrong.

A case that executes a reshape is small from the beginning, so it is not simplified. The right answers are computed by
the rules of the installed package. In the same release, the same number and seed give the same cases.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from random import Random

from tensor_reshape.client.queries import infer_locally
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.conformance.cases import Case, make_query, read_case_question
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, are_known, bound_dim, find_name
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.layouts import compute_span
from tensor_reshape.rules.limits import GRAPH_MAX_RANK, MAX_DIM
from tensor_reshape.rules.operations import OPERATIONS, SHAPE_OPERATIONS
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.json_messages import Json, describe_message

_SMALL = (0, 1, 1, 2, 2, 3, 4, 6, 8, 12)
_LARGE = (2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1)
_NAMES = ("N", "M")
_INVALID_ITEM = -2
_COMPARED = ("kind", "left", "right", "min", "max", "unlessZero")  # the fields of a condition that the suite compares
_RANKS = (0, 1, 2, 2, 3, 3, 4)
_MAX_ROUNDS = 100

Find = Callable[[Sequence[Case]], Mapping[str, str]]
"""A function that runs cases and returns the verdicts of those with a difference, by the ids of the cases."""


def make_random_cases(number: int, seed: int) -> list[Case]:
    """Returns random cases about known and partially known shapes.

    Most requested shapes are derived from the input shape, so that the rules accept many queries.
    """
    random = Random(seed)  # noqa: S311 - it makes test cases
    names = [f"random/{seed}-{index}" for index in range(number)]
    makers = (_make_execution, _make_query_case)
    return [makers[not _happens(random, 0.1)](name, random) for name in names]


def make_case(name: str, question: AnyQuestion, *, asks_conditions: bool = False) -> Case:
    """Returns a test case with a query and the answer that the rules give."""
    request = ShapeRequest(question)
    (answer,) = infer_locally([make_query(BatchItem(request))])
    if isinstance(answer, InferredShape):
        right = {
            key: value for key, value in answer.to_json().items() if asks_conditions or not key.startswith("conditions")
        }
        if asks_conditions:
            right["conditionsComplete"] = answer.conditions_complete
            right["conditions"] = [
                {key: one[key] for key in _COMPARED if key in one} for one in right.get("conditions", [])
            ]
        result: Json = {"answer": right}
        because = "The rules give this answer (a rule of tensor-reshape)."
    else:
        result = {"rejection": {"reason": str(answer.reason), "field": answer.field}}
        because = f"The rules reject the query: {answer.message} (a rule of tensor-reshape)."
    name = f"{name}@{question.operation.name}"
    record = describe_message(build_infer_request(request))
    rule = "conditions" if asks_conditions else _choose_rule(question)
    return Case(name, rule, {"id": name, "question": record}, result, because)


def write_case(case: Case) -> str:
    """Returns a case as a line of a suite file."""
    question = {**case.query["question"]}
    head = {"id": case.id.partition("@")[0], "rule": case.rule, "operations": [question.pop("operation")]}
    return json.dumps({**head, "question": question, "result": case.right, "because": case.because})


def shrink(case: Case, verdict: str, find: Find) -> Case:
    """Returns the smallest case that was found for which the implementation gets the same verdict."""
    if case.rule in {"layouts", "packed"}:
        return case
    name, smallest = case.id.partition("@")[0], read_case_question(case.query)
    asks_conditions = case.rule == "conditions"
    for turn in range(_MAX_ROUNDS):
        smaller = (one for one in _list_changed(smallest) if _measure(one) < _measure(smallest))
        questions = {f"{name}.{turn}-{index}": one for index, one in enumerate(smaller)}
        made = {key: make_case(key, one, asks_conditions=asks_conditions) for key, one in questions.items()}
        candidates = {one.id: (one, questions[key]) for key, one in made.items()}
        found = find([one for one, _ in candidates.values()]) if candidates else {}
        wrong = [pair for key, pair in candidates.items() if found.get(key) == verdict]
        if not wrong:
            break
        case, smallest = min(wrong, key=lambda pair: _measure(pair[1]))
    return case


def _make_query_case(name: str, random: Random) -> Case:
    question = _make_query(random)
    is_partial = not (are_known(question.data) and are_known(question.target))
    return make_case(name, question, asks_conditions=is_partial and _happens(random, 0.3))


def _make_query(random: Random) -> AnyQuestion:
    data = [random.choice(_LARGE if _happens(random, 0.03) else _SMALL) for _ in range(random.choice(_RANKS))]
    special_zero = _happens(random, 0.5)
    target = _make_target(random, data, special_zero=special_zero)
    operation = random.choice(list(SHAPE_OPERATIONS.values()))
    question: AnyQuestion = Question(operation, data, target, special_zero)
    if _happens(random, 0.1):
        return _break_admission(random, question)
    if _happens(random, 0.15):
        question = question._replace(expected=_make_expected(random, target))
    if not _happens(random, 0.4):
        return question
    if _happens(random, 0.1):
        return question._replace(data=None)
    return question._replace(target=None) if _happens(random, 0.05) else _blur(random, question)


def _break_admission(random: Random, question: AnyQuestion) -> AnyQuestion:
    """Returns a query without special_zero, or with a type, an item or a rank that only some operations support."""
    match random.randrange(4):
        case 0:
            return question._replace(special_zero=None)
        case 1:
            return question._replace(special_zero=None, target=[*(question.target or ()), _INVALID_ITEM])
        case 2:
            return question._replace(data_type=random.choice(list(DataType)))
        case _:
            ones = [1] * (GRAPH_MAX_RANK + random.randrange(2))
            return question._replace(data=ones, target=random.choice((ones, [1], [-1])))


def _make_expected(random: Random, target: Sequence[int]) -> Sequence[AnyDim]:
    """Returns an expected shape that the output of a requested shape usually has.

    It contains no names of dims, because with such a name, the answer of the rules may be wider than necessary.
    """

    def expect(item: int) -> AnyDim:
        if item <= 0 or _happens(random, 0.3):
            return random.choice((None, Dim(Interval(0, 12)), 2))
        near = Interval(max(item - random.randrange(2), 0), min(item + random.randrange(2), MAX_DIM))
        return random.choice((item, Dim(near), Dim(Interval(item, None)), Dim(Interval(0, item))))

    expected = [expect(item) for item in target]
    return [*expected, 1] if _happens(random, 0.1) else expected


def _make_execution(name: str, random: Random) -> Case:
    """Returns a case that executes a reshape. Its data has strides or packed elements."""
    operation = random.choice(list(OPERATIONS.values()))
    data_type = random.choice(sorted(operation.data_types, key=str))
    dims = [random.choice((0, 1, 1, 2, 2, 3, 4)) for _ in range(random.choice((0, 1, 2, 2, 3)))]
    strides = None if data_type.is_packed or not dims else _make_strides(random, dims)
    count = data_type.count_bytes(prod(dims) if strides is None else compute_span(dims, strides))
    raw = random.randbytes(count + _happens(random, 0.1))
    special_zero = _happens(random, 0.5)
    target = _make_target(random, dims, special_zero=special_zero)
    shaped = make_case(name, Question(operation, dims, target, special_zero, data_type))
    tensor = {"dataType": f"DATA_TYPE_{data_type.name}", "dims": dims, "data": b64encode(raw).decode()}
    question = {**shaped.query["question"], "data": tensor if strides is None else {**tensor, "strides": strides}}
    right, because = shaped.right, shaped.because
    if "answer" in right and len(raw) != count:
        right = {"rejection": {"reason": "DATA_SIZE_MISMATCH", "field": "data.data"}}
        because = "The data has more bytes than its type, dims and strides require (a rule of tensor-reshape)."
    elif "answer" in right:
        moved = raw if strides is None else _move(raw, dims, strides, data_type.count_bytes(1))
        output = {"dims": right["answer"]["shape"].get("dims", []), "data": b64encode(moved).decode()}
        right = {"output": {"dataType": tensor["dataType"], **output}}
    rule = "packed" if strides is None else "layouts"
    return Case(shaped.id, rule, {"id": shaped.id, "question": question}, right, because)


def _make_strides(random: Random, dims: Sequence[int]) -> list[int]:
    """Returns strides of a tensor that is transposed, has gaps, or repeats elements, without other overlaps."""
    strides, step = [0] * len(dims), 1
    for index in random.sample(range(len(dims)), len(dims)):
        if not _happens(random, 0.1):
            strides[index] = step
            step *= max(dims[index], 1) + _happens(random, 0.2)
    return strides


def _move(raw: bytes, dims: Sequence[int], strides: Sequence[int], size: int) -> bytes:
    """Returns the elements in row-major order."""
    places = [0]
    for dim, stride in zip(dims, strides, strict=True):
        places = [place + index * stride for place in places for index in range(dim)]
    return b"".join(raw[place * size : (place + 1) * size] for place in places)


def _happens(random: Random, probability: float) -> bool:
    return random.random() < probability


def _make_target(random: Random, data: Sequence[int], *, special_zero: bool) -> list[int]:
    target = list(data)
    if _happens(random, 0.3):
        random.shuffle(target)
    for _ in range(random.randint(0, 2)):
        if len(target) > 1:
            at = random.randrange(len(target) - 1)
            target[at : at + 2] = [min(target[at] * target[at + 1], _LARGE[-1])]
    if _happens(random, 0.3):
        target.insert(random.randint(0, len(target)), 1)
    if special_zero:
        copied = (index for index, pair in enumerate(zip(target, data, strict=False)) if pair[0] == pair[1])
        for index in copied:
            target[index] = random.choice((0, target[index]))
    _replace_some(random, target, 0.6, (-1,))
    _replace_some(random, target, 0.15, (-(2**63), -2, -1, 0, 1, 2, 5, *_LARGE))
    return target


def _replace_some(random: Random, target: list[int], probability: float, values: Sequence[int]) -> None:
    """Replaces a random item by one of the values, with the given probability."""
    if target and _happens(random, probability):
        target[random.randrange(len(target))] = random.choice(values)


def _blur(random: Random, question: AnyQuestion) -> AnyQuestion:
    """Returns the query with some dims and items replaced by partially known ones."""
    name = Expression(1, (Symbol(random.choice(_NAMES)),))
    product = Expression(random.choice((1, 2)), (Symbol("M"), Symbol("N")))

    def blur(dim: AnyDim) -> AnyDim:
        if not isinstance(dim, int) or dim <= 0 or not _happens(random, 0.4):
            return dim
        bounds = Interval(random.choice((0, dim // 2, dim)), random.choice((dim, min(dim + 2, MAX_DIM), None)))
        known = bound_dim(bounds, Expression(1, (Symbol("B"),)))
        return random.choice((None, Dim(bounds), Dim(ANY, name), known, Dim(ANY, product if dim > 1 else name)))

    return question._replace(data=[*map(blur, question.data or ())], target=[*map(blur, question.target or ())])


def _choose_rule(question: AnyQuestion) -> str:
    """Returns the rule of the suite whose cases are most similar to the query."""
    data, target = question.data or (), question.target or ()
    dims = [*data, *target]
    if question.special_zero is None and _INVALID_ITEM in target:
        return "errors"
    is_large = max(len(data), len(target)) >= GRAPH_MAX_RANK
    if question.special_zero is None or question.data_type is not None or is_large:
        return "admitted"
    if question.expected is not None:
        return "expected"
    return _choose_shape_rule(question, dims)


def _choose_shape_rule(question: AnyQuestion, dims: Sequence[AnyDim]) -> str:
    target = question.target or ()
    if any(find_name(dim) for dim in dims):
        return "symbols"
    if question.data is None or question.target is None or not are_known(dims):
        return "partial"
    if question.special_zero and 0 in target:
        return "copies" if -1 in target else "target"
    return "inferred" if -1 in target else "volume"


def _list_changed(question: AnyQuestion) -> Iterator[AnyQuestion]:
    """Yields queries that are simpler than the query in one respect."""
    if question.special_zero:
        yield question._replace(special_zero=False)
    yield question._replace(expected=None, data_type=None)
    for expected in _list_changed_dims(question.expected or ()):
        yield question._replace(expected=expected)
    data, target = question.data or (), question.target or ()
    for changed in _list_changed_dims(data):
        yield question._replace(data=changed)
    for changed in _list_changed_dims(target):
        yield question._replace(target=changed)
    # A dim of the data and an equal item of the requested shape are changed together.
    for at, dim in enumerate(data):
        for index in (index for index, item in enumerate(target) if item == dim):
            for other in ([], *([simpler] for simpler in _list_simpler(dim))):
                yield question._replace(
                    data=[*data[:at], *other, *data[at + 1 :]],
                    target=[*target[:index], *other, *target[index + 1 :]],
                )


def _list_changed_dims(dims: Sequence[AnyDim]) -> Iterator[Sequence[AnyDim]]:
    for index, dim in enumerate(dims):
        for other in ([], *([simpler] for simpler in _list_simpler(dim))):
            yield [*dims[:index], *other, *dims[index + 1 :]]


def _list_simpler(dim: AnyDim) -> Iterator[int | None]:
    if not isinstance(dim, int):
        yield from (2, None)
    elif abs(dim) > 1:
        yield from (1, 2, abs(dim) // 2, dim + (1 if dim < 0 else -1))


def _measure(question: AnyQuestion) -> tuple[int, int, int, int]:
    """Returns how large a query is, for comparisons.

    The result depends on the ranks, the partially known dims, the numbers and the other fields of the query.
    """
    dims = [*(question.data or ()), *(question.target or ()), *(question.expected or ())]
    blurred = [1 if dim is None else 2 for dim in dims if not isinstance(dim, int)]
    numbers = sum(abs(dim) for dim in dims if isinstance(dim, int))
    fields = (question.special_zero, question.expected is not None, question.data_type is not None)
    return len(dims), sum(blurred), numbers, sum(map(bool, fields))
