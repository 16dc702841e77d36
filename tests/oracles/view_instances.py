"""Oracle for views, which compares the address of each element.

An output is a view if strides exist that lead to the address of each of its elements.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from math import prod

from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.views import View, ViewPossibility
from verification.checker import Dims, Found

_MAX_CASES = 60
_MAX_VOLUME = 600


def check_view(found: Found, view: View, strides: Sequence[int]) -> str:
    """Returns the first instance that contradicts the answer about the view; empty if none does."""
    cases = {(case.data, case.output) for case in found.accepted if prod(case.data) <= _MAX_VOLUME}
    problems = (_contradict(view, data, strides, output) for data, output in islice(cases, _MAX_CASES))
    return next(filter(None, problems), "")


def _contradict(view: View, data: Dims, strides: Sequence[int], output: Dims) -> str:
    if view.possibility is ViewPossibility.IMPOSSIBLE and find_strides(data, strides, output) is not None:
        return f"{output} is a view of {data} at {strides}"
    if view.possibility is ViewPossibility.POSSIBLE:
        if view.strides is None or len(view.strides) != len(output):
            return f"{view} has no strides for {output}"
        if list_addresses(data, strides) != list_addresses(output, view.strides):
            return f"{output} is not a view of {data} at {strides} under {view.strides}"
    return ""


def check_overlap(found: Found, strides: Sequence[int]) -> str:
    """Returns the first accepted instance whose elements do not overlap; empty if there is none.

    Other strides that are wrong for every data shape are correctly rejected, too.
    """
    if any(not 0 <= stride <= MAX_DIM for stride in strides):
        return ""
    cases = [case.data for case in found.accepted if prod(case.data) <= _MAX_VOLUME]
    wrong = (data for data in cases if len(data) == len(strides) and not have_overlap(data, strides))
    return next((f"{strides} are rejected, but no elements of {data} overlap" for data in wrong), "")


def have_overlap(data: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements have the same position, although no stride between them is 0; False for large data."""
    if prod(data) > _MAX_VOLUME:
        return False
    axes = [(dim, stride) for dim, stride in zip(data, strides, strict=True) if stride]
    places = list_addresses([dim for dim, _ in axes], [stride for _, stride in axes])
    return 0 not in data and len(set(places)) < len(places)


def is_decided(view: View, data: Sequence[int], strides: Sequence[int], output: Sequence[int]) -> bool:
    """Whether a known query has an answer, or the strides of its output exceed the maximum of the API."""
    if view.possibility is not ViewPossibility.UNKNOWN or prod(data) > _MAX_VOLUME:
        return True
    return max(find_strides(data, strides, output) or (), default=0) > MAX_DIM


def find_strides(data: Sequence[int], strides: Sequence[int], output: Sequence[int]) -> Dims | None:
    """Returns the strides of the output over the elements of the data, or None if no strides reach all of them."""
    addresses = list_addresses(data, strides)
    if not addresses:
        return (0,) * len(output)
    steps = [prod(output[index + 1 :]) for index in range(len(output))]
    found = tuple(addresses[step] if dim > 1 else 0 for dim, step in zip(output, steps, strict=True))
    return found if list_addresses(output, found) == addresses else None


def list_addresses(dims: Sequence[int], strides: Iterable[int]) -> list[int]:
    """Returns the offset of each element in row-major order."""
    places = [] if 0 in dims else [0]
    for dim, stride in zip(dims, strides, strict=True):
        places = [place + index * stride for place in places for index in range(dim)]
    return places
