"""Wrong implementations whose mistake shows where dims have names, or data has strides; as in `planted_dims`."""

import re
from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import Any

from tensor_reshape.rules.records import Json
from verification.kit.planted_dims import (
    REFUSED,
    Ask,
    Change,
    Mistake,
    asks_of,
    change_dims,
    refuses_if,
    tells,
    tells_of_items,
)
from verification.kit.questions import is_known

_NAME = re.compile(r"\b[A-Z]\b")
_ONE_VALUE = re.compile(r":(\d+)\.\.\1$")
_UNBOUNDED: Json = {"min": 0, "max": None}


def _renames(rename: Callable[[str], str | None]) -> Change:
    """Returns the change of the name of each dim of an answer; None: it has none."""

    def change(dim: Any) -> Any:  # noqa: ANN401 - of JSON
        if not isinstance(dim, dict) or "name" not in dim:
            return dim
        name = rename(dim["name"])
        bounds = {"min": dim["min"], "max": dim["max"]}
        return {**bounds, "name": name} if name else (None if bounds == _UNBOUNDED else bounds)

    return change


_lose_name = _renames(lambda _: None)


def _loses_copied(ask: Ask, question: Json) -> Json:
    loses = tells_of_items(lambda item, dim: _lose_name(dim) if item == 0 else dim)
    return loses(ask, question) if question.get("special_zero") else ask(question)


def _names_stay(ask: Ask, question: Json) -> Json:
    answer, data = ask(question), question["data"] or []
    if is_known(question) or not answer.get("shape"):
        return answer
    names = [dim if isinstance(dim, str) and _NAME.fullmatch(dim) else None for dim in data]
    pairs = [(dim, names[at] if at < len(names) else None) for at, dim in enumerate(answer["shape"])]
    told = [{**dim, "name": name} if name and isinstance(dim, dict) and "name" in dim else dim for dim, name in pairs]
    return {**answer, "shape": told}


def _each_name_is_another(ask: Ask, question: Json) -> Json:
    numbers, seen = count(), set[str]()

    def part(dim: object) -> object:
        if not isinstance(dim, str) or dim not in seen:
            seen.update([dim] if isinstance(dim, str) else [])
            return dim
        return _NAME.sub(lambda match: f"{match[0]}_{next(numbers)}", dim)

    answer = ask(change_dims(question, "data", part))
    return change_dims(answer, "shape", _renames(lambda name: re.sub(r"_\d+", "", name)))


def _zero_is_no_solution(ask: Ask, question: Json) -> Json:
    answer = ask(question)
    found = not is_known(question) and 0 in (answer.get("shape") or ())
    return REFUSED if found and any(isinstance(dim, str) for dim in question["data"] or ()) else answer


def _conflicts_are_empty(ask: Ask, question: Json) -> Json:
    answer, data = ask(question), question["data"]
    is_conflict = answer.get("error", {}).get("reason") == "SYMBOL_CONFLICT"
    return ask({**question, "data": [data[0]] * len(data)}) if is_conflict else answer


def _on_names(change: Callable[[str], str]) -> Mistake:
    return asks_of("data", lambda dim: change(dim) if isinstance(dim, str) else dim)


def _views(possibility: str, is_told: Callable[[Json, Json], object]) -> Mistake:
    """Returns the mistake that tells a view as another where the question and the answer are so."""

    def tell(ask: Ask, question: Json) -> Json:
        answer = ask(question)
        if "view" not in answer or not is_told(question, answer):
            return answer
        return {**answer, "view": {**answer["view"], "possibility": possibility}}

    return tell


def _list_dense(data: Sequence[int]) -> list[int]:
    """Returns the strides of data without gaps."""
    return [prod(data[index + 1 :]) for index in range(len(data))]


def _has_gaps(question: Json, _: Json) -> bool:
    strides = question.get("strides", [])
    return strides[-1:] == [1] and is_known(question) and strides != _list_dense(question["data"])


def _has_odd_ones(question: Json, _: Json) -> bool:
    data = question["data"] if is_known(question) else []
    triples = zip(data, question.get("strides", []), _list_dense(data), strict=False)
    return any(dim == 1 and stride != dense for dim, stride, dense in triples)


def _fills_strides_up(ask: Ask, question: Json) -> Json:
    rank = len(question["data"] or ())
    is_short = "strides" in question and len(question["strides"]) < rank
    return ask({**question, "strides": [*range(rank, 1, -1), 1]} if is_short else question)


NAME_MISTAKES: dict[str, Mistake] = {
    "no dim of the output has a name": tells(_lose_name),
    "a product of names has none": tells(_renames(lambda name: None if "*" in name or "^" in name else name)),
    "a name that is divided is lost": tells(_renames(lambda name: None if "/" in name else name)),
    "what is inferred has no name": tells_of_items(lambda item, dim: _lose_name(dim) if item == -1 else dim),
    "what is copied has no name": _loses_copied,
    "a dim has the name of the data dim at its index": _names_stay,
    "a name in the target says nothing": asks_of("shape", lambda dim: [0, None] if isinstance(dim, str) else dim),
    "a name that comes twice is two": _each_name_is_another,
    "of a name nothing else is known": _on_names(lambda name: name.split(":")[0]),
    "a product of names has no bounds": tells(
        lambda dim: {**dim, **_UNBOUNDED} if isinstance(dim, dict) and "*" in dim.get("name", "") else dim
    ),
    "a name beside a -1 may be 0": tells(
        lambda dim: {**dim, "min": 0} if isinstance(dim, dict) and "name" in dim and dim["min"] == 1 else dim
    ),
    "a name is at least 1": _on_names(lambda name: f"{name}:1.." if _NAME.fullmatch(name) else name),
    "what only 0 solves is refused": _zero_is_no_solution,
    "a name that can be one number alone stays unknown": _on_names(lambda name: _ONE_VALUE.sub(":0..", name)),
    "a name of the target that can be one number alone stays unknown": tells_of_items(
        lambda item, dim: {**_UNBOUNDED, "name": item} if isinstance(item, str) and isinstance(dim, int) else dim
    ),
    "what is said of a name in two places is told as the first": _conflicts_are_empty,
    "what is no word is no name": refuses_if(
        lambda question: any(isinstance(dim, str) and " " in dim for dim in question["data"] or ())
    ),
    "whatever the strides are, there is a view": _views("possible", lambda *_: True),
    "what is not dense has no view": _views("impossible", lambda question, _: question.get("strides", [1])[-1] > 1),
    "rows with gaps between them have no view": _views("impossible", _has_gaps),
    "what is not known to be a view is none": _views(
        "impossible", lambda _, answer: answer["view"]["possibility"] == "unknown"
    ),
    "nothing is said of a view where a dim is not known": _views("unknown", lambda question, _: not is_known(question)),
    "the stride of a dim of 1 counts": _views("impossible", _has_odd_ones),
    "strides are looked at where there are no elements": _views(
        "impossible", lambda question, _: 0 in (question["data"] or ())
    ),
    "a stride of 0 joins any other": _views("possible", lambda question, _: 0 in question.get("strides", ())),
    "a stride of 0 is no run": _views("impossible", lambda question, _: 0 in question.get("strides", ())),
    "missing strides are those of a dense tensor": _fills_strides_up,
    "a negative stride reads backwards": lambda ask, question: ask(
        {**question, "strides": list(map(abs, question["strides"]))} if "strides" in question else question
    ),
}
"""By what is wrong."""
