"""Makes random cases, and shrinks a case for which an implementation is wrong.

The answers are computed by the rules of the installed package. Equal numbers and seeds give equal cases with every
release that has the same rules.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from tensor_reshape.client.queries import infer_locally
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.query_records import read_record
from tensor_reshape.rules.json_format import Json
from tensor_reshape.rules.operations import SHAPE_OPERATIONS

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


def make_case(name: str, query: Json) -> Case:
    """Returns the case of a query, with the answer of the rules."""
    (answer,) = infer_locally([read_record(query)])
    if isinstance(answer, InferredShape):
        right = {key: value for key, value in answer.to_json().items() if not key.startswith("conditions")}
        because = "The rules give this answer (a rule of tensor-reshape)."
    else:
        right = {"error": {"reason": str(answer.reason), "field": answer.field}}
        because = f"The rules reject the query: {answer.message} (a rule of tensor-reshape)."
    name = f"{name}@{query['operation']}"
    return Case(name, _choose_rule(query), {"id": name, **query}, right, because)


def write_case(case: Case) -> str:
    """Returns a case as a line of a suite file."""
    query = {key: value for key, value in case.query.items() if key not in {"id", "operation"}}
    name, _, operation = case.id.partition("@")
    head = {"id": name, "rule": case.rule, "operations": [operation]}
    return json.dumps({**head, **query, "answer": case.right, "because": case.because})


def shrink(case: Case, verdict: str, find: Find) -> Case:
    """Returns the smallest case found for which an implementation has the same verdict.

    Args:
        case: a case with a difference.
        verdict: the verdict about the answer of the implementation.
        find: runs the implementation.
    """
    name = case.id.partition("@")[0]
    for turn in range(_MAX_ROUNDS):
        query = {key: value for key, value in case.query.items() if key != "id"}
        candidates = [make_case(f"{name}.{turn}-{index}", one) for index, one in enumerate(_list_smaller(query))]
        found = find(candidates) if candidates else {}
        wrong = [one for one in candidates if found.get(one.id) == verdict]
        if not wrong:
            break
        case = min(wrong, key=lambda one: _measure(one.query))
    return case


def _make_query(random: Random) -> Json:
    data = [_choose_dim(random) for _ in range(random.choice(_RANKS))]
    special_zero = _happens(random, 0.5)
    target = _make_target(random, data, special_zero=special_zero)
    query: Json = {
        "operation": random.choice(list(SHAPE_OPERATIONS)),
        "data": list(data),
        "shape": list(target),
        "special_zero": special_zero,
    }
    if _happens(random, 0.4):
        _blur(random, query)
    return query


def _happens(random: Random, probability: float) -> bool:
    return random.random() < probability


def _choose_dim(random: Random) -> int:
    return random.choice(_LARGE if _happens(random, 0.03) else _SMALL)


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


def _blur(random: Random, query: Json) -> None:
    """Makes some dims of a query partially known."""
    name = random.choice(_NAMES)
    for key in ("data", "shape"):
        for index, dim in enumerate(query[key]):
            if dim > 0 and _happens(random, 0.4):
                low = random.choice((0, dim // 2, dim))
                high = random.choice((dim, dim + 2, None))
                query[key][index] = random.choice((None, [low, high], name, {"min": low, "max": high, "name": "B"}))


def _choose_rule(query: Json) -> str:
    """Returns the rule of the suite whose cases are most similar."""
    dims = [*query["data"], *query["shape"]]
    if any(isinstance(dim, (str, dict)) for dim in dims):
        return "symbols"
    if not all(isinstance(dim, int) for dim in dims):
        return "partial"
    if query["special_zero"] and 0 in query["shape"]:
        return "copies" if -1 in query["shape"] else "target"
    return "inferred" if -1 in query["shape"] else "volume"


def _list_smaller(query: Json) -> Iterator[Json]:
    """Yields queries that are simpler in one part and smaller by `_measure`."""
    size = _measure(query)
    for changed in _list_changed(query):
        if _measure(changed) < size:
            yield changed


def _list_changed(query: Json) -> Iterator[Json]:
    if query["special_zero"]:
        yield {**query, "special_zero": False}
    for key in ("data", "shape"):
        items = query[key]
        for index, item in enumerate(items):
            yield {**query, key: [*items[:index], *items[index + 1 :]]}
            for other in _list_simpler(item):
                yield {**query, key: [*items[:index], other, *items[index + 1 :]]}
    yield from _list_changed_pairs(query)


def _list_changed_pairs(query: Json) -> Iterator[Json]:
    """Yields queries in which a dim and an equal item have changed together."""
    data, shape = query["data"], query["shape"]
    for at, dim in enumerate(data):
        for index in (index for index, item in enumerate(shape) if item == dim):
            for other in ([], *([simpler] for simpler in _list_simpler(dim))):
                yield {
                    **query,
                    "data": [*data[:at], *other, *data[at + 1 :]],
                    "shape": [*shape[:index], *other, *shape[index + 1 :]],
                }


def _list_simpler(item: Any) -> Iterator[Any]:  # noqa: ANN401 - a dim as JSON
    if not isinstance(item, int):
        yield from (2, None)
    elif abs(item) > 1:
        yield from (1, 2, abs(item) // 2, item + (1 if item < 0 else -1))


def _measure(query: Json) -> tuple[int, int, int, bool]:
    """Returns the size of a query, which depends on its rank, partially known dims, numbers and special_zero."""
    dims = [*query["data"], *query["shape"]]
    blurred = [2 if isinstance(dim, (str, dict, list)) else 1 for dim in dims if not isinstance(dim, int)]
    return len(dims), sum(blurred), sum(abs(dim) for dim in dims if isinstance(dim, int)), query["special_zero"]
