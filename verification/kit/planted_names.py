"""Wrong implementations whose mistake shows where dims have names, or data has strides; as in `planted_dims`."""

import re
from collections.abc import Callable, Sequence
from itertools import count
from math import prod

from tensor_reshape.rules.records import Json
from verification.kit.planted_dims import Ask, Mistake, change_dims
from verification.kit.questions import is_known

_NAME = re.compile(r"\b[A-Z]\b")
_ONE_VALUE = re.compile(r":(\d+)\.\.\1$")
_IMPOSSIBLE: Json = {"possibility": "impossible", "strides": None}


def _rename(answer: Json, rename: Callable[[str], str | None]) -> Json:
    """Changes the names of an answer; None: there is none."""

    def change(dim: object) -> object:
        if not isinstance(dim, dict) or "name" not in dim:
            return dim
        name = rename(dim["name"])
        bounds = {"min": dim["min"], "max": dim["max"]}
        return {**bounds, "name": name} if name else (None if bounds == {"min": 0, "max": None} else bounds)

    return change_dims(answer, "shape", change)


def names_are_lost(ask: Ask, question: Json) -> Json:
    """No dim of the output has a name."""
    return _rename(ask(question), lambda name: None)  # noqa: ARG005


def products_are_lost(ask: Ask, question: Json) -> Json:
    """A product of names has none."""
    return _rename(ask(question), lambda name: None if "*" in name or "^" in name else name)


def quotients_are_lost(ask: Ask, question: Json) -> Json:
    """A name that is divided is lost."""
    return _rename(ask(question), lambda name: None if "/" in name else name)


def inferred_names_are_lost(ask: Ask, question: Json) -> Json:
    """Only what is copied, or stands in the target, keeps its name."""
    answer, shape = ask(question), question["shape"]
    if "shape" not in answer or shape is None or answer["shape"] is None:
        return answer
    bare = _rename(answer, lambda name: None)["shape"]  # noqa: ARG005
    return {**answer, "shape": [bare[at] if item == -1 else answer["shape"][at] for at, item in enumerate(shape)]}


def copied_names_are_lost(ask: Ask, question: Json) -> Json:
    """What is copied keeps its bounds, and not its name."""
    answer, shape = ask(question), question["shape"]
    if "shape" not in answer or shape is None or not question.get("special_zero"):
        return answer
    bare = _rename(answer, lambda name: None)["shape"]  # noqa: ARG005
    return {**answer, "shape": [bare[at] if item == 0 else answer["shape"][at] for at, item in enumerate(shape)]}


def names_stay_at_their_index(ask: Ask, question: Json) -> Json:
    """A dim of the output has the name of the data dim at its index."""
    answer, data = ask(question), question["data"] or []
    if is_known(question) or not answer.get("shape"):
        return answer
    names = [dim if isinstance(dim, str) and _NAME.fullmatch(dim) else None for dim in data]
    pairs = [(dim, names[at] if at < len(names) else None) for at, dim in enumerate(answer["shape"])]
    told = [{**dim, "name": name} if name and isinstance(dim, dict) and "name" in dim else dim for dim, name in pairs]
    return {**answer, "shape": told}


def lengths_have_no_names(ask: Ask, question: Json) -> Json:
    """A name in the target says nothing."""
    return ask(change_dims(question, "shape", lambda dim: [0, None] if isinstance(dim, str) else dim))


def each_name_is_another(ask: Ask, question: Json) -> Json:
    """A name that comes twice is two."""
    numbers = count()
    seen = set[str]()

    def part(dim: object) -> object:
        if not isinstance(dim, str) or dim not in seen:
            seen.add(dim) if isinstance(dim, str) else None
            return dim
        return _NAME.sub(lambda match: f"{match[0]}_{next(numbers)}", dim)

    return _rename(ask(change_dims(question, "data", part)), lambda name: re.sub(r"_\d+", "", name))


def bounds_of_names_are_lost(ask: Ask, question: Json) -> Json:
    """Of a name nothing else is known."""
    return ask(change_dims(question, "data", lambda dim: dim.split(":")[0] if isinstance(dim, str) else dim))


def bounds_of_products_are_lost(ask: Ask, question: Json) -> Json:
    """A product of names has no bounds."""

    def free(dim: object) -> object:
        if not isinstance(dim, dict) or "*" not in dim.get("name", ""):
            return dim
        return {**dim, "min": 0, "max": None}

    return change_dims(ask(question), "shape", free)


def names_may_be_zero(ask: Ask, question: Json) -> Json:
    """That a name beside a -1 is not 0, is not seen."""

    def free(dim: object) -> object:
        return {**dim, "min": 0} if isinstance(dim, dict) and "name" in dim and dim["min"] == 1 else dim

    return change_dims(ask(question), "shape", free)


def names_are_not_zero(ask: Ask, question: Json) -> Json:
    """A name is at least 1."""
    return ask(
        change_dims(
            question, "data", lambda dim: f"{dim}:1.." if isinstance(dim, str) and _NAME.fullmatch(dim) else dim
        )
    )


def zero_is_no_solution(ask: Ask, question: Json) -> Json:
    """What only 0 solves is refused."""
    answer = ask(question)
    found = not is_known(question) and 0 in (answer.get("shape") or ())
    return {"error": {}} if found and any(isinstance(dim, str) for dim in question["data"] or ()) else answer


def names_of_one_value_stay(ask: Ask, question: Json) -> Json:
    """A name that can be one number alone stays unknown."""
    return ask(change_dims(question, "data", lambda dim: _ONE_VALUE.sub(":0..", dim) if isinstance(dim, str) else dim))


def lengths_decide_nothing(ask: Ask, question: Json) -> Json:
    """A name of the target that can be one number alone stays unknown."""
    answer, shape = ask(question), question["shape"]
    if not answer.get("shape") or shape is None:
        return answer
    pairs = zip(shape, answer["shape"], strict=True)
    free = {"min": 0, "max": None}
    told = [{**free, "name": item} if isinstance(item, str) and isinstance(dim, int) else dim for item, dim in pairs]
    return {**answer, "shape": told}


def conflicts_are_empty(ask: Ask, question: Json) -> Json:
    """What is said of a name in two places leaves nothing, and that is told as the first."""
    answer = ask(question)
    lost = answer.get("error", {}).get("reason") == "SYMBOL_CONFLICT"
    return ask(change_dims(question, "data", lambda dim: question["data"][0])) if lost else answer  # noqa: ARG005


def names_are_words(ask: Ask, question: Json) -> Json:
    """What is no word is no name."""
    return (
        {"error": {}} if any(isinstance(dim, str) and " " in dim for dim in question["data"] or ()) else ask(question)
    )


def _tell_view(answer: Json, possibility: str) -> Json:
    return {**answer, "view": {**answer["view"], "possibility": possibility}} if "view" in answer else answer


def _list_dense(data: Sequence[int]) -> list[int]:
    """Returns the strides of data without gaps."""
    return [prod(data[index + 1 :]) for index in range(len(data))]


def everything_is_a_view(ask: Ask, question: Json) -> Json:
    """Whatever the strides are, there is a view."""
    return _tell_view(ask(question), "possible")


def nothing_is_a_view(ask: Ask, question: Json) -> Json:
    """What is not dense has no view."""
    return _tell_view(ask(question), "impossible") if question.get("strides", [1])[-1] > 1 else ask(question)


def gaps_allow_no_view(ask: Ask, question: Json) -> Json:
    """Rows with gaps between them have no view."""
    strides = question.get("strides", [])
    gaps = strides[-1:] == [1] and is_known(question) and strides != _list_dense(question["data"])
    return _tell_view(ask(question), "impossible") if gaps else ask(question)


def unknown_views_are_none(ask: Ask, question: Json) -> Json:
    """What is not known to be a view is none."""
    answer = ask(question)
    return _tell_view(answer, "impossible") if answer.get("view", {}).get("possibility") == "unknown" else answer


def views_of_names_are_unknown(ask: Ask, question: Json) -> Json:
    """Nothing is said of a view where a dim is not known."""
    return ask(question) if is_known(question) else _tell_view(ask(question), "unknown")


def ones_have_strides(ask: Ask, question: Json) -> Json:
    """The stride of a dim of 1 counts."""
    data, strides = question["data"] or [], question.get("strides", [])
    triples = zip(data, strides, _list_dense(data), strict=False) if is_known(question) else ()
    counts = any(dim == 1 and stride != dense for dim, stride, dense in triples)
    return _tell_view(ask(question), "impossible") if counts else ask(question)


def empties_have_no_view(ask: Ask, question: Json) -> Json:
    """Where there are no elements, strides are looked at."""
    return _tell_view(ask(question), "impossible") if 0 in (question["data"] or ()) else ask(question)


def broadcasts_are_views(ask: Ask, question: Json) -> Json:
    """A stride of 0 joins any other."""
    return _tell_view(ask(question), "possible") if 0 in question.get("strides", ()) else ask(question)


def broadcasts_are_no_views(ask: Ask, question: Json) -> Json:
    """A stride of 0 is no run."""
    return _tell_view(ask(question), "impossible") if 0 in question.get("strides", ()) else ask(question)


def strides_are_filled_up(ask: Ask, question: Json) -> Json:
    """Missing strides are those of a dense tensor."""
    short = len(question.get("strides", ())) < len(question["data"] or ()) and "strides" in question
    return ask({**question, "strides": [*range(len(question["data"]), 1, -1), 1]}) if short else ask(question)


def strides_may_be_negative(ask: Ask, question: Json) -> Json:
    """A negative stride reads backwards."""
    return ask({**question, "strides": list(map(abs, question["strides"]))}) if "strides" in question else ask(question)


NAME_MISTAKES: tuple[Mistake, ...] = (
    names_are_lost,
    products_are_lost,
    quotients_are_lost,
    inferred_names_are_lost,
    copied_names_are_lost,
    names_stay_at_their_index,
    lengths_have_no_names,
    each_name_is_another,
    bounds_of_names_are_lost,
    bounds_of_products_are_lost,
    names_may_be_zero,
    names_are_not_zero,
    zero_is_no_solution,
    names_of_one_value_stay,
    lengths_decide_nothing,
    conflicts_are_empty,
    names_are_words,
    everything_is_a_view,
    nothing_is_a_view,
    gaps_allow_no_view,
    unknown_views_are_none,
    views_of_names_are_unknown,
    ones_have_strides,
    empties_have_no_view,
    broadcasts_are_views,
    broadcasts_are_no_views,
    strides_are_filled_up,
    strides_may_be_negative,
)
