"""Makes random cases, and shrinks a case for which an implementation is wrong.

The answers are computed by the rules of the installed package. Equal numbers and seeds give equal cases with every
release that has the same rules.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeAlias, cast

from tensor_reshape.client.queries import infer_locally
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.conformance.cases import Case, make_query, read_case_question
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, are_known, bound_dim, find_name
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.operations import SHAPE_OPERATIONS
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.json_messages import Json, describe_message

Query: TypeAlias = Question[Sequence[AnyDim]]
"""A query whose ranks are known."""

_SMALL = (0, 1, 1, 2, 2, 3, 4, 6, 8, 12)
_LARGE = (2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1)
_NAMES = ("N", "M")
_RANKS = (0, 1, 2, 2, 3, 3, 4)
_MAX_ROUNDS = 100

Find = Callable[[Sequence[Case]], Mapping[str, str]]
"""A function that runs cases and returns the verdicts of those with a difference, by the ids of the cases."""


def make_random_cases(number: int, seed: int) -> list[Case]:
    """Returns random cases about known and partially known shapes.

    Most requested shapes are made from the data shape, so that many queries are accepted.
    """
    random = Random(seed)  # noqa: S311 - it makes test cases
    return [make_case(f"random/{seed}-{index}", _make_query(random)) for index in range(number)]


def make_case(name: str, question: Query) -> Case:
    """Returns the case of a query, with the answer of the rules."""
    request = ShapeRequest(question)
    (answer,) = infer_locally([make_query(BatchItem(request))])
    if isinstance(answer, InferredShape):
        right = {key: value for key, value in answer.to_json().items() if not key.startswith("conditions")}
        result: Json = {"answer": right}
        because = "The rules give this answer (a rule of tensor-reshape)."
    else:
        result = {"rejection": {"reason": str(answer.reason), "field": answer.field}}
        because = f"The rules reject the query: {answer.message} (a rule of tensor-reshape)."
    name = f"{name}@{question.operation.name}"
    record = describe_message(build_infer_request(request))
    return Case(name, _choose_rule(question), {"id": name, "question": record}, result, because)


def write_case(case: Case) -> str:
    """Returns a case as a line of a suite file."""
    question = {**case.query["question"]}
    head = {"id": case.id.partition("@")[0], "rule": case.rule, "operations": [question.pop("operation")]}
    return json.dumps({**head, "question": question, "result": case.right, "because": case.because})


def shrink(case: Case, verdict: str, find: Find) -> Case:
    """Returns the smallest case found for which an implementation has the same verdict."""
    name, smallest = case.id.partition("@")[0], cast("Query", read_case_question(case.query))
    for turn in range(_MAX_ROUNDS):
        smaller = (one for one in _list_changed(smallest) if _measure(one) < _measure(smallest))
        questions = {f"{name}.{turn}-{index}": one for index, one in enumerate(smaller)}
        candidates = {(one := make_case(key, question)).id: (one, question) for key, question in questions.items()}
        found = find([one for one, _ in candidates.values()]) if candidates else {}
        wrong = [pair for key, pair in candidates.items() if found.get(key) == verdict]
        if not wrong:
            break
        case, smallest = min(wrong, key=lambda pair: _measure(pair[1]))
    return case


def _make_query(random: Random) -> Query:
    data = [random.choice(_LARGE if _happens(random, 0.03) else _SMALL) for _ in range(random.choice(_RANKS))]
    special_zero = _happens(random, 0.5)
    target = _make_target(random, data, special_zero=special_zero)
    operation = random.choice(list(SHAPE_OPERATIONS.values()))
    question = Question[Sequence[AnyDim]](operation, data, target, special_zero)
    return _blur(random, question) if _happens(random, 0.4) else question


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
    """With a probability, replaces one item by one of the values."""
    if target and _happens(random, probability):
        target[random.randrange(len(target))] = random.choice(values)


def _blur(random: Random, question: Query) -> Query:
    """Returns the query with some partially known dims."""
    name = Expression(1, (Symbol(random.choice(_NAMES)),))

    def blur(dim: AnyDim) -> AnyDim:
        if not isinstance(dim, int) or dim <= 0 or not _happens(random, 0.4):
            return dim
        bounds = Interval(random.choice((0, dim // 2, dim)), random.choice((dim, min(dim + 2, MAX_DIM), None)))
        return random.choice((None, Dim(bounds), Dim(ANY, name), bound_dim(bounds, Expression(1, (Symbol("B"),)))))

    return question._replace(data=[*map(blur, question.data)], target=[*map(blur, question.target)])


def _choose_rule(question: Query) -> str:
    """Returns the rule of the suite whose cases are most similar."""
    dims = [*question.data, *question.target]
    if any(find_name(dim) for dim in dims):
        return "symbols"
    if not are_known(dims):
        return "partial"
    if question.special_zero and 0 in question.target:
        return "copies" if -1 in question.target else "target"
    return "inferred" if -1 in question.target else "volume"


def _list_changed(question: Query) -> Iterator[Query]:
    """Yields queries that are simpler in one part."""
    if question.special_zero:
        yield question._replace(special_zero=False)
    for data in _list_changed_dims(question.data):
        yield question._replace(data=data)
    for target in _list_changed_dims(question.target):
        yield question._replace(target=target)
    # A dim and an equal item change together.
    for at, dim in enumerate(question.data):
        for index in (index for index, item in enumerate(question.target) if item == dim):
            for other in ([], *([simpler] for simpler in _list_simpler(dim))):
                yield question._replace(
                    data=[*question.data[:at], *other, *question.data[at + 1 :]],
                    target=[*question.target[:index], *other, *question.target[index + 1 :]],
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


def _measure(question: Query) -> tuple[int, int, int, bool]:
    """Returns the size of a query, which depends on its rank, partially known dims, numbers and special_zero."""
    dims = [*question.data, *question.target]
    blurred = [1 if dim is None else 2 for dim in dims if not isinstance(dim, int)]
    numbers = sum(abs(dim) for dim in dims if isinstance(dim, int))
    return len(dims), sum(blurred), numbers, bool(question.special_zero)
