"""Finds instances that contradict the conditions of an answer."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from tensor_reshape.conformance.instances import Candidate, list_candidates
from tensor_reshape.rules.conditions import Condition
from tensor_reshape.rules.dims import format_dims
from tensor_reshape.rules.questions import AnyQuestion

_MAX_CANDIDATES = 3000


def list_values(question: AnyQuestion) -> Sequence[Candidate]:
    """Returns values of the unknown dims of a query, each with whether the rules accept them."""
    return tuple(islice(list_candidates(question), _MAX_CANDIDATES))


def find_excluded(candidates: Iterable[Candidate], conditions: Sequence[Condition]) -> str:
    """Returns a text with an accepted instance that violates a condition. The text is empty if none was found."""
    for values, is_accepted in candidates:
        broken = next((one for one in conditions if is_accepted and not _holds(one, values)), None)
        if broken is not None:
            return f"the condition {str(broken)[:100]} excludes {_format(values)}, which is accepted"
    return ""


def find_admitted(
    candidates: Iterable[Candidate], conditions: Sequence[Condition], right: Sequence[Condition], *, is_complete: bool
) -> str:
    """Returns a text with values that satisfy `conditions`, but not what is right. The text is empty if none was found.

    Args:
        candidates: the result of `list_values` for the query.
        conditions: the conditions of an answer.
        right: the conditions of the right answer.
        is_complete: whether all rejected instances count. Otherwise only those count that violate `right`.
    """
    for values, is_accepted in candidates:
        is_wrong = not is_accepted and (is_complete or not all(_holds(one, values) for one in right))
        if is_wrong and all(_holds(one, values) for one in conditions):
            return f"the conditions admit {_format(values)}, which is rejected"
    return ""


def _holds(condition: Condition, values: Mapping[str, int]) -> bool:
    """Whether values satisfy a condition. A condition with an unknown name is never satisfied."""
    return condition.symbols <= values.keys() and condition.holds(values)


def _format(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {format_dims([value])[1:-1]}" for name, value in values.items()) or "the query"
