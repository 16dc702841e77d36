"""Wrong implementations whose mistake shows where something is not known, is expected, or has a type.

Each is a function around an implementation that makes no mistake: it asks another question, or tells another answer.
"""

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from tensor_reshape.rules.records import Json
from verification.kit.questions import is_known

Ask: TypeAlias = Callable[[Json], Json]
Mistake: TypeAlias = Callable[[Ask, Json], Json]
Change: TypeAlias = Callable[[Any], Any]
REFUSED: Json = {"error": {}}


def change_dims(record: Json, key: str, change: Change) -> Json:
    """Changes each dim of one shape of a question, or of an answer; null stays."""
    dims = record.get(key)
    return record if dims is None else {**record, key: list(map(change, dims))}


def asks_of(key: str, change: Change, *, only_known: bool = False) -> Mistake:
    """Returns the mistake that takes the dims of one shape of a question for others."""
    return lambda ask, question: ask(
        change_dims(question, key, change) if is_known(question) or not only_known else question
    )


def tells(change: Change) -> Mistake:
    """Returns the mistake that tells each dim of an answer as another."""
    return lambda ask, question: change_dims(ask(question), "shape", change)


def tells_of_items(change: Callable[[Any, Any], Any]) -> Mistake:
    """Returns the mistake that tells each dim of an answer as another, which its item and the dim give."""

    def tell(ask: Ask, question: Json) -> Json:
        answer = ask(question)
        if answer.get("shape") is None or question["shape"] is None:
            return answer
        return {**answer, "shape": list(map(change, question["shape"], answer["shape"]))}

    return tell


def refuses_if(is_refused: Callable[[Json], object]) -> Mistake:
    """Returns the mistake that refuses some questions."""
    return lambda ask, question: REFUSED if is_refused(question) else ask(question)


def answers_for(reason: str, change: Change) -> Mistake:
    """Returns the mistake that answers with the items, some changed, where what is not known is to be refused."""

    def answer(ask: Ask, question: Json) -> Json:
        right = ask(question)
        is_told = right.get("error", {}).get("reason") == reason and not is_known(question)
        return {"shape": list(map(change, question["shape"]))} if is_told else right

    return answer


def _on_bounds(change: Callable[[int, int | None], Any]) -> Change:
    """Returns the change of each interval of a question."""
    return lambda dim: change(*dim) if isinstance(dim, list) else dim


def _on_ends(change: Callable[[int], int]) -> Change:
    """Returns the change of the ends of each interval of an answer that has both."""

    def change_ends(dim: Any) -> Any:  # noqa: ANN401 - of JSON
        if not isinstance(dim, dict) or dim["max"] is None:
            return dim
        return {**dim, "min": change(dim["min"]), "max": change(dim["max"])}

    return change_ends


def _sort_bounds(low: int, high: int | None) -> list[int | None]:
    return [low, high] if high is None else [min(low, high), max(low, high)]


def _round(*, up: bool) -> Mistake:
    """Returns the mistake that rounds an end of what is inferred to the outside."""

    def tell(ask: Ask, question: Json) -> Json:
        answer, data, shape = ask(question), question["data"] or [None], question["shape"] or []
        ends = [dim if isinstance(dim, list) else [dim, dim] for dim in data]
        if "error" in answer or not all(isinstance(end[1], int) for end in ends) or -1 not in shape:
            return answer
        others = prod(item for item in shape if item != -1) if all(isinstance(item, int) for item in shape) else 0
        if others == 0 or ends == [[dim, dim] for dim in data]:
            return answer
        at = shape.index(-1)
        low, high = prod(end[0] for end in ends) // others, -(-prod(end[1] for end in ends) // others)
        told = answer["shape"][at]
        least, most = (told, told) if isinstance(told, int) else (told["min"], told["max"])
        wider = {"min": least, "max": high} if up else {"min": low, "max": most}
        return {**answer, "shape": [*answer["shape"][:at], wider, *answer["shape"][at + 1 :]]}

    return tell


def _is_rankless_copy(question: Json) -> bool:
    return question["data"] is None and bool(question.get("special_zero")) and 0 in (question["shape"] or ())


def _zero_is_not_inferred(ask: Ask, question: Json) -> Json:
    is_rankless = question["data"] is None and -1 in (question["shape"] or ())
    return tells(lambda dim: {"min": 1, "max": None} if is_rankless and dim is None else dim)(ask, question)


def _rankless_is_answered(ask: Ask, question: Json) -> Json:
    answer = ask(question)
    return {**answer, "shape": None} if question["data"] is None and "shape" in answer else answer


def _length_is_the_rank(ask: Ask, question: Json) -> Json:
    answer, data = ask(question), question["data"]
    return answer if question["shape"] is not None or data is None else {**answer, "shape": [None] * len(data)}


def _literals_wait(ask: Ask, question: Json) -> Json:
    answer = ask(question)
    waits = question["data"] is None and "error" in answer
    return {"shape": [None] * len(question["shape"])} if waits else answer


def _asks_as(operation: str) -> Mistake:
    return lambda ask, question: ask(question if is_known(question) else {**question, "operation": operation})


def _drop(question: Json, key: str) -> Json:
    return {name: value for name, value in question.items() if name != key}


def _expected_tells_nothing(ask: Ask, question: Json) -> Json:
    answer = ask(question)
    return answer if "error" in answer else ask(_drop(question, "expected"))


def _expected_rank_is_ignored(ask: Ask, question: Json) -> Json:
    shape = question["shape"]
    is_other = is_known(question) and len(question.get("expected") or shape) != len(shape)
    return ask({**question, "expected": None} if is_other else question)


def _items_have_no_bound(ask: Ask, question: Json) -> Json:
    items = question["shape"] or ()
    is_large = any(isinstance(item, int) and 2**63 <= item < 2**64 - 1 for item in items)
    return {"shape": question["shape"]} if is_large and 0 in items else ask(question)


def _tell_as_item(item: Any) -> Any:  # noqa: ANN401 - of JSON
    return {"min": item[0], "max": item[1]} if isinstance(item, list) else item


DIM_MISTAKES: dict[str, Mistake] = {
    "an unknown dim is 1": asks_of("data", lambda dim: 1 if dim is None else dim),
    "an unknown dim is at least 1": asks_of("data", lambda dim: [1, None] if dim is None else dim),
    "a -1 of data of unknown rank is at least 1": _zero_is_not_inferred,
    "an interval is its upper end": asks_of(
        "data", _on_bounds(lambda low, high: [low, None] if high is None else high)
    ),
    "an interval is its lower end": asks_of("data", _on_bounds(lambda low, _: low)),
    "bounds are not kept": asks_of("data", _on_bounds(lambda *_: None)),
    "the lower end of what is inferred is rounded down": _round(up=False),
    "the upper end of what is inferred is rounded up": _round(up=True),
    "a dim without an upper bound ends at 2^31 - 1": tells(
        lambda dim: {**dim, "max": 2**31 - 1} if isinstance(dim, dict) and dim["max"] is None else dim
    ),
    "bounds wrap at 32 bits": tells(_on_ends(lambda end: end % 2**32)),
    "bounds are rounded to doubles": tells(_on_ends(lambda end: int(float(end)))),
    "a length that may be 0 copies": asks_of("shape", _on_bounds(lambda low, high: [low, high] if low else 0)),
    "an interval of the target is answered as it is": tells_of_items(
        lambda item, dim: _tell_as_item(item) if isinstance(item, list) else dim
    ),
    "an unknown item is a -1": asks_of("shape", lambda item: -1 if item is None else item),
    "an unknown item is answered as such": tells_of_items(lambda item, dim: None if item is None else dim),
    "data of unknown rank has an output of unknown rank": _rankless_is_answered,
    "a copy of data of unknown rank is refused": refuses_if(_is_rankless_copy),
    "a target of unknown length has the data's rank": _length_is_the_rank,
    "a copy beside a -1 may be 0 in the graph operations, too": _asks_as("reshape"),
    "a copy beside a -1 is not 0 in Reshape-1, either": _asks_as("static_reshape"),
    "volumes are compared where all dims are known": answers_for("VOLUME_MISMATCH", _tell_as_item),
    "a -1 that no instance divides is an empty interval": answers_for(
        "NOT_DIVISIBLE", lambda item: {"min": 1, "max": 0} if item == -1 else item
    ),
    "a literal 0 beside a -1 is refused only where the data is known": answers_for(
        "MINUS_ONE_WITH_ZERO_VOLUME", lambda item: None if item == -1 else item
    ),
    "the target is not looked at while the data's rank is unknown": _literals_wait,
    "nothing is learnt of an expected output": _expected_tells_nothing,
    "an expected output of known shapes is not looked at": lambda ask, question: ask(
        _drop(question, "expected") if is_known(question) else question
    ),
    "an unknown expected dim differs from any number": refuses_if(
        lambda question: is_known(question) and None in (question.get("expected") or ())
    ),
    "of an expected output the rank is compared": asks_of("expected", lambda _: None, only_known=True),
    "of an expected output of another rank nothing is compared": _expected_rank_is_ignored,
    "a name of an expected dim says nothing": asks_of("expected", lambda dim: None if isinstance(dim, str) else dim),
    "an interval of an expected dim says nothing of known shapes": asks_of(
        "expected", _on_bounds(lambda *_: None), only_known=True
    ),
    "an interval of the data with swapped ends is turned round": asks_of("data", _on_bounds(_sort_bounds)),
    "an interval of the target with swapped ends is turned round": asks_of("shape", _on_bounds(_sort_bounds)),
    "bounds below 0 are 0": asks_of("data", _on_bounds(lambda low, high: [max(low, 0), high])),
    "a bound above 2^63 - 1 is none": asks_of(
        "data", _on_bounds(lambda low, high: [low, high if high is None or high < 2**63 else None])
    ),
    "items are numbers of 64 bits, so 2^64 - 1 is -1": asks_of(
        "shape", lambda item: (item + 2**63) % 2**64 - 2**63 if isinstance(item, int) else item
    ),
    "an item may be above 2^63 - 1 where there are no elements": _items_have_no_bound,
    "the graph operations take all types": lambda ask, question: ask(
        question if "bytes" in question else _drop(question, "data_type")
    ),
    "the graph operations refuse bf16": refuses_if(lambda question: question.get("data_type") == "bf16"),
}
"""By what is wrong."""
