"""Wrong implementations whose mistake shows where something is not known, has a name, or has strides.

Each is a function around an implementation that makes no mistake: it asks another question, or tells another answer.
"""

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from tensor_reshape.rules.records import Json
from verification.kit.questions import is_known

Ask: TypeAlias = Callable[[Json], Json]
Mistake: TypeAlias = Callable[[Ask, Json], Json]
_REFUSED: Json = {"error": {}}


def change_dims(question: Json, key: str, change: Callable[[Any], Any]) -> Json:
    """Changes each dim of one shape of a question, or of an answer; null stays."""
    dims = question.get(key)
    return question if dims is None else {**question, key: list(map(change, dims))}


def unknown_is_one(ask: Ask, question: Json) -> Json:
    """A dim of which nothing is known is 1."""
    return ask(change_dims(question, "data", lambda dim: 1 if dim is None else dim))


def unknown_is_not_zero(ask: Ask, question: Json) -> Json:
    """A dim of which nothing is known is at least 1."""
    return ask(change_dims(question, "data", lambda dim: [1, None] if dim is None else dim))


def inferred_of_unknown_rank_is_not_zero(ask: Ask, question: Json) -> Json:
    """A -1 of data of unknown rank is at least 1."""
    answer = ask(question)
    if question["data"] is not None or -1 not in (question["shape"] or ()):
        return answer
    return change_dims(answer, "shape", lambda dim: {"min": 1, "max": None} if dim is None else dim)


def intervals_are_their_upper_ends(ask: Ask, question: Json) -> Json:
    """An interval is its upper end."""
    return ask(
        change_dims(question, "data", lambda dim: dim[1] if isinstance(dim, list) and dim[1] is not None else dim)
    )


def intervals_are_their_lower_ends(ask: Ask, question: Json) -> Json:
    """An interval is its lower end."""
    return ask(change_dims(question, "data", lambda dim: dim[0] if isinstance(dim, list) else dim))


def intervals_are_unknown(ask: Ask, question: Json) -> Json:
    """Bounds are not kept."""
    return ask(change_dims(question, "data", lambda dim: None if isinstance(dim, list) else dim))


def lower_end_is_rounded_down(ask: Ask, question: Json) -> Json:
    """The lower end of what is inferred is rounded down."""
    return _round(ask, question, up=False)


def upper_end_is_rounded_up(ask: Ask, question: Json) -> Json:
    """The upper end of what is inferred is rounded up."""
    return _round(ask, question, up=True)


def _round(ask: Ask, question: Json, *, up: bool) -> Json:
    answer, data, shape = ask(question), question["data"] or [None], question["shape"] or []
    ends = [dim if isinstance(dim, list) else [dim, dim] for dim in data]
    if "error" in answer or not all(isinstance(end[1], int) for end in ends) or -1 not in shape:
        return answer
    others = prod(item for item in shape if item != -1) if all(isinstance(item, int) for item in shape) else 0
    if others == 0 or ends == [[dim, dim] for dim in data]:
        return answer
    at, low, high = shape.index(-1), prod(end[0] for end in ends) // others, -(-prod(end[1] for end in ends) // others)
    told = answer["shape"][at]
    least, most = (told, told) if isinstance(told, int) else (told["min"], told["max"])
    wider = {"min": least, "max": high} if up else {"min": low, "max": most}
    return {**answer, "shape": [*answer["shape"][:at], wider, *answer["shape"][at + 1 :]]}


def unbounded_ends_at_2_31(ask: Ask, question: Json) -> Json:
    """A dim without an upper bound ends at 2^31 - 1."""

    def end(dim: object) -> object:
        return {**dim, "max": 2**31 - 1} if isinstance(dim, dict) and dim["max"] is None else dim

    return change_dims(ask(question), "shape", end)


def bounds_wrap_at_32_bits(ask: Ask, question: Json) -> Json:
    """Bounds are numbers of 32 bits."""

    def wrap(dim: object) -> object:
        if not isinstance(dim, dict) or dim["max"] is None:
            return dim
        return {**dim, "min": dim["min"] % 2**32, "max": dim["max"] % 2**32}

    return change_dims(ask(question), "shape", wrap)


def bounds_are_doubles(ask: Ask, question: Json) -> Json:
    """Bounds are rounded to doubles."""

    def round_ends(dim: object) -> object:
        if not isinstance(dim, dict) or dim["max"] is None:
            return dim
        return {**dim, "min": int(float(dim["min"])), "max": int(float(dim["max"]))}

    return change_dims(ask(question), "shape", round_ends)


def lengths_that_hold_zero_copy(ask: Ask, question: Json) -> Json:
    """An interval of the target that begins at 0 is an instruction to copy."""
    return ask(change_dims(question, "shape", lambda dim: 0 if isinstance(dim, list) and dim[0] == 0 else dim))


def lengths_are_kept(ask: Ask, question: Json) -> Json:
    """An interval of the target is answered as it is, whatever the volume says."""
    answer = ask(question)
    if "shape" not in answer or answer["shape"] is None or question["shape"] is None:
        return answer
    pairs = zip(question["shape"], answer["shape"], strict=True)
    return {**answer, "shape": [{"min": a[0], "max": a[1]} if isinstance(a, list) else b for a, b in pairs]}


def unknown_items_are_inferred(ask: Ask, question: Json) -> Json:
    """An item of which nothing is known is a -1."""
    return ask(change_dims(question, "shape", lambda dim: -1 if dim is None else dim))


def unknown_items_are_unknown(ask: Ask, question: Json) -> Json:
    """An item of which nothing is known is answered as such."""
    answer = ask(question)
    if "shape" not in answer or answer["shape"] is None or question["shape"] is None:
        return answer
    pairs = zip(question["shape"], answer["shape"], strict=True)
    return {**answer, "shape": [None if item is None else dim for item, dim in pairs]}


def unknown_rank_is_answered(ask: Ask, question: Json) -> Json:
    """Data of unknown rank has an output of unknown rank."""
    return {**ask(question), "shape": None} if question["data"] is None and "shape" in ask(question) else ask(question)


def unknown_rank_copies_nothing(ask: Ask, question: Json) -> Json:
    """A copy of data of unknown rank is refused."""
    copies = question["data"] is None and question.get("special_zero") and 0 in (question["shape"] or ())
    return _REFUSED if copies else ask(question)


def unknown_length_is_the_datas_rank(ask: Ask, question: Json) -> Json:
    """A target of unknown length has the data's rank."""
    answer = ask(question)
    if question["shape"] is not None or question["data"] is None:
        return answer
    return {**answer, "shape": [None] * len(question["data"])}


def copies_may_be_zero_everywhere(ask: Ask, question: Json) -> Json:
    """What is copied beside a -1 may be 0 in the graph operations, too."""
    return ask(question) if is_known(question) else ask({**question, "operation": "reshape"})


def copies_are_not_zero_in_reshape(ask: Ask, question: Json) -> Json:
    """What is copied beside a -1 is not 0 in Reshape-1, either."""
    return ask(question) if is_known(question) else ask({**question, "operation": "static_reshape"})


def answers_what_nothing_has(ask: Ask, question: Json) -> Json:
    """Volumes are compared where all dims are known."""
    answer = ask(question)
    mismatch = answer.get("error", {}).get("reason") == "VOLUME_MISMATCH"
    if not mismatch or is_known(question):
        return answer
    return {"shape": [{"min": dim[0], "max": dim[1]} if isinstance(dim, list) else dim for dim in question["shape"]]}


def answers_empty_intervals(ask: Ask, question: Json) -> Json:
    """A -1 that no instance divides is told as an interval that ends below its beginning."""
    answer = ask(question)
    lost = answer.get("error", {}).get("reason") == "NOT_DIVISIBLE" and not is_known(question)
    return {"shape": [{"min": 1, "max": 0} if item == -1 else item for item in question["shape"]]} if lost else answer


def literals_wait_for_the_data(ask: Ask, question: Json) -> Json:
    """Nothing of the target is looked at while the data's rank is unknown."""
    waits = question["data"] is None and "error" in ask(question)
    return {"shape": [None] * len(question["shape"])} if waits else ask(question)


def literal_zero_may_be_inferred(ask: Ask, question: Json) -> Json:
    """A literal 0 beside a -1 is refused only where the data is known."""
    answer = ask(question)
    reason = answer.get("error", {}).get("reason")
    waits = reason == "MINUS_ONE_WITH_ZERO_VOLUME" and not is_known(question)
    return {"shape": [None if item == -1 else item for item in question["shape"]]} if waits else answer


def expected_tells_nothing(ask: Ask, question: Json) -> Json:
    """The expected output is compared, and nothing is learnt of it."""
    answer = ask(question)
    bare = {key: value for key, value in question.items() if key != "expected"}
    return answer if "error" in answer else ask(bare)


def expected_is_ignored(ask: Ask, question: Json) -> Json:
    """An expected output of known shapes is not looked at."""
    known = {key: value for key, value in question.items() if key != "expected"}
    return ask(known) if is_known(question) else ask(question)


def expected_unknown_is_refused(ask: Ask, question: Json) -> Json:
    """An expected dim of which nothing is known differs from any number."""
    return _REFUSED if is_known(question) and None in (question.get("expected") or ()) else ask(question)


def expected_rank_is_enough(ask: Ask, question: Json) -> Json:
    """Of an expected output the rank is compared."""
    return ask(change_dims(question, "expected", lambda dim: None)) if is_known(question) else ask(question)  # noqa: ARG005


def expected_rank_is_ignored(ask: Ask, question: Json) -> Json:
    """Of an expected output those dims are compared that the output has, too."""
    answer, shape = ask(question), question["shape"]
    other = is_known(question) and len(question.get("expected") or shape) != len(shape)
    return ask({**question, "expected": None}) if other else answer


def expected_names_are_ignored(ask: Ask, question: Json) -> Json:
    """A name of an expected dim says nothing."""
    return ask(change_dims(question, "expected", lambda dim: None if isinstance(dim, str) else dim))


def expected_bounds_are_ignored(ask: Ask, question: Json) -> Json:
    """An interval of an expected dim says nothing where shapes are known."""
    bare = change_dims(question, "expected", lambda dim: None if isinstance(dim, list) else dim)
    return ask(bare) if is_known(question) else ask(question)


def swapped_ends_are_an_interval(ask: Ask, question: Json) -> Json:
    """An interval that ends below its beginning is turned round."""
    return ask(
        change_dims(question, "data", lambda dim: sorted(dim) if isinstance(dim, list) and None not in dim else dim)
    )


def swapped_lengths_are_an_interval(ask: Ask, question: Json) -> Json:
    """Likewise in the target."""
    return ask(
        change_dims(question, "shape", lambda dim: sorted(dim) if isinstance(dim, list) and None not in dim else dim)
    )


def bounds_are_clipped(ask: Ask, question: Json) -> Json:
    """Bounds below 0 are 0."""
    return ask(change_dims(question, "data", lambda dim: [max(dim[0], 0), dim[1]] if isinstance(dim, list) else dim))


def bounds_have_no_end(ask: Ask, question: Json) -> Json:
    """A bound above 2^63 - 1 is none."""
    return ask(change_dims(question, "data", lambda dim: [dim[0], None] if _ends_above(dim) else dim))


def _ends_above(dim: object) -> bool:
    return isinstance(dim, list) and dim[1] is not None and dim[1] >= 2**63


def items_wrap(ask: Ask, question: Json) -> Json:
    """Items are numbers of 64 bits, so 2^64 - 1 is -1."""
    return ask(change_dims(question, "shape", lambda dim: _wrap(dim) if isinstance(dim, int) else dim))


def items_have_no_bound(ask: Ask, question: Json) -> Json:
    """An item may be above 2^63 - 1 where there are no elements."""
    large = [item for item in question["shape"] or () if isinstance(item, int) and 2**63 <= item < 2**64 - 1]
    return {"shape": question["shape"]} if large and 0 in question["shape"] else ask(question)


def _wrap(item: int) -> int:
    return (item + 2**63) % 2**64 - 2**63


def any_type_is_taken(ask: Ask, question: Json) -> Json:
    """The graph operations take all types."""
    bare = {key: value for key, value in question.items() if key != "data_type"}
    return ask(question) if "bytes" in question else ask(bare)


def bf16_is_refused(ask: Ask, question: Json) -> Json:
    """The graph operations take f32 and f16 alone."""
    return _REFUSED if question.get("data_type") == "bf16" else ask(question)


DIM_MISTAKES: tuple[Mistake, ...] = (
    unknown_is_one,
    unknown_is_not_zero,
    inferred_of_unknown_rank_is_not_zero,
    intervals_are_their_upper_ends,
    intervals_are_their_lower_ends,
    intervals_are_unknown,
    lower_end_is_rounded_down,
    upper_end_is_rounded_up,
    unbounded_ends_at_2_31,
    bounds_wrap_at_32_bits,
    bounds_are_doubles,
    lengths_that_hold_zero_copy,
    lengths_are_kept,
    unknown_items_are_inferred,
    unknown_items_are_unknown,
    unknown_rank_is_answered,
    unknown_rank_copies_nothing,
    unknown_length_is_the_datas_rank,
    copies_may_be_zero_everywhere,
    copies_are_not_zero_in_reshape,
    answers_what_nothing_has,
    answers_empty_intervals,
    literals_wait_for_the_data,
    literal_zero_may_be_inferred,
    expected_tells_nothing,
    expected_is_ignored,
    expected_unknown_is_refused,
    expected_rank_is_enough,
    expected_rank_is_ignored,
    expected_names_are_ignored,
    expected_bounds_are_ignored,
    swapped_ends_are_an_interval,
    swapped_lengths_are_an_interval,
    bounds_are_clipped,
    bounds_have_no_end,
    items_wrap,
    items_have_no_bound,
    any_type_is_taken,
    bf16_is_refused,
)
