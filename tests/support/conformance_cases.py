"""The cases that the real libraries answered (`tests/conformance/*.jsonl`)."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from shape_instances import find_accepted
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds, name_dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.operations import OPERATIONS as RULES
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer

Case = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "conformance"

OPERATIONS = {"static_reshape": "static_reshape", "dynamic_reshape": "dynamic_reshape", "reshape_v1": "reshape"}
"""The names of the operations: in the cases, and here."""


def load_cases(file: str) -> list[Case]:
    """Returns every case of one file."""
    return [json.loads(line) for line in (FOLDER / file).read_text().splitlines()]


def load_known_cases(operation: str) -> list[Case]:
    """Returns the reshape cases of one operation whose data and target are fully known."""
    cases = load_cases("reshape_cases.jsonl")
    return [case for case in cases if OPERATIONS[case["op"]] == operation and _is_known(case)]


def load_partial_cases() -> list[Case]:
    """Returns the reshape cases of which something is not known."""
    return [case for case in load_cases("reshape_cases.jsonl") if not _is_known(case)]


def read_partial_case(case: Case) -> AnyQuestion:
    """Returns the question of a reshape case, or of a case of symbols."""
    data = case["data"] if "data" in case else case["data_shape"]
    return Question(
        operation=RULES[OPERATIONS[case["op"]]],
        data=None if data is None else _read_dims(data, case.get("sym_data")),
        target=_read_target(case),
        special_zero=case["special_zero"],
    )


def read_dim(value: int | list[int]) -> AnyDim:
    """Reads a dim of a case: a number, or `[low, high]`, where a high of -1 is no bound."""
    return value if isinstance(value, int) else Dim(_read_bounds(value))


def infer_case(case: Case) -> ShapeAnswer | None:
    """Returns the answer to a case, None for a refusal."""
    try:
        return infer(read_partial_case(case))
    except InvalidRequestError:
        return None


def find_wider(dims: Sequence[AnyDim] | None, want: Sequence[int | list[int]] | None) -> str:
    """Returns what of an answer is wider than the one that is wanted, nothing where all of it is as narrow."""
    if dims is None or want is None:
        return "" if want is None else "the rank is unknown"
    if len(dims) != len(want):
        return f"the rank is {len(dims)}, not {len(want)}"
    for index, (dim, other) in enumerate(zip(dims, want, strict=True)):
        have, most = find_bounds(dim), find_bounds(read_dim(other))
        if have.meet(most) != have:
            return f"dim {index} is {have}, not {most}"
    return ""


def count_tighter() -> Counter[str]:
    """Returns how many answers to the partial cases are as narrow as the libraries', narrower, or wider."""
    counts = Counter({"wider": 0})
    for case in load_partial_cases():
        answer, want = infer_case(case), case["want"]
        counts[_compare(answer, want)] += 1
    return counts


def can_be_equal(question: AnyQuestion) -> bool:
    """Whether data and output may have one volume: decided by division, for questions that have no -1.

    One side is bounded, so its volumes are tried one by one; the other side must divide each.
    """
    data, target = list(question.data or ()), list(question.target if question.target is not None else [None])
    copied = [index for index, item in enumerate(target) if item == 0 and question.special_zero]
    if -1 in target or any(find_bounds(data[index]).min == 0 for index in copied):
        return bool(find_accepted(question, budget=20000).accepted)
    left = [find_bounds(dim) for index, dim in enumerate(data) if index not in copied]
    right = [find_bounds(dim) for index, dim in enumerate(target) if index not in copied]
    if any(bounds.min == 0 for bounds in left) and any(bounds.min == 0 for bounds in right):
        return True
    if any(bounds.max == 0 for bounds in (*left, *right)):
        return False
    bounded = left if all(bounds.max is not None for bounds in left) else right
    other = right if bounded is left else left
    return any(_can_be(volume, other) for volume in _list_volumes(bounded))


def _compare(answer: ShapeAnswer | None, want: dict[str, Any]) -> str:
    if "error" in want:
        return "refused by both" if answer is None else "wider"
    if answer is None:
        return "strictly tighter: refused, for no instance is accepted"
    if find_wider(answer.dims, want["shape"]):
        return "wider"
    if answer.dims is None or want["shape"] is None:
        return "the same" if answer.dims is None else "strictly tighter: a rank"
    have = [find_bounds(dim) for dim in answer.dims]
    same = have == [find_bounds(read_dim(dim)) for dim in want["shape"]]
    return "the same" if same else "strictly tighter: a narrower dim"


def _read_target(case: Case) -> list[AnyDim] | None:
    target = case["target"]
    if isinstance(target, dict):  # only its length is known, or not even that
        return [None] * target["len"] if isinstance(target["len"], int) else None
    return None if target is None else _read_dims(target, case.get("sym_target"), instructions=True)


def _read_dims(
    values: list[Any], names: Sequence[str | None] | None = None, *, instructions: bool = False
) -> list[AnyDim]:
    dims: list[AnyDim] = []
    for value, name in zip(values, names or [None] * len(values), strict=True):
        if value is None or name is None or (instructions and value in {0, -1} if isinstance(value, int) else False):
            dims.append(None if value is None else read_dim(value))
        else:
            dims.append(name_dim(name, *(_read_bounds([value, value] if isinstance(value, int) else value))))
    return dims


def _read_bounds(value: list[int]) -> Interval:
    low, high = value
    return Interval(low, None if high == -1 else high)


def _is_known(case: Case) -> bool:
    return _are_known(case["data"]) and _are_known(case["target"])


def _are_known(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, int) for item in items)


def _list_volumes(side: Sequence[Interval]) -> Iterator[int]:
    ranges = [range(max(bounds.min, 1), 1 + _find_high(bounds)) for bounds in side]
    return (prod(values) for values in product(*ranges))


def _find_high(bounds: Interval) -> int:
    assert bounds.max is not None, "both sides are unbounded: they can always be equal"
    return bounds.max


def _can_be(volume: int, side: Sequence[Interval]) -> bool:
    """Whether factors within these bounds, none of them 0, can have this product."""
    if not side:
        return volume == 1
    first, *rest = sorted(side, key=lambda bounds: (bounds.max is None, bounds.max or 0))
    if not rest:
        return volume >= 1 and first.holds(volume) and volume < 2**63
    values = range(max(first.min, 1), 1 + (volume if first.max is None else first.max))
    return any(volume % value == 0 and _can_be(volume // value, rest) for value in values)
