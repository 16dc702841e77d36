"""Keywords that a method takes through a `TypedDict`: Python itself lets any pass."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any


def check_keywords(method: str, given: Mapping[str, Any], own: Sequence[str], options: type[Mapping[str, Any]]) -> None:
    """Raises TypeError, as Python does, for a keyword that `options` does not have, and names the nearest that exists.

    Args:
        method: whose keywords they are.
        given: what was not one of the method's own.
        own: the names that the method itself takes.
        options: the `TypedDict` with the others.
    """
    known = options.__annotations__
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    nearest = get_close_matches(unknown, [*own, *known], n=1)
    hint = f". Did you mean '{nearest[0]}'?" if nearest else ""
    message = f"{method}() got an unexpected keyword argument '{unknown}'{hint}"
    raise TypeError(message)
