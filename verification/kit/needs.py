"""Which cases of the core could be dropped.

Law: a case is needed where no other lies on its boundary, or where without it some wrong implementation would have no
case of its own. The rest is needless, and is to be dropped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from tensor_reshape.rules.records import Json
from verification.kit.boundaries import find_boundary
from verification.kit.mistakes import find_matching


def find_needless(cases: Sequence[Json], caught: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the cases that could be dropped, each by itself.

    Args:
        cases: of the core.
        caught: the cases that each wrong implementation fails.
    """
    counts, most = Counter(map(find_boundary, cases)), len(find_matching(caught))
    shared = [case["id"] for case in cases if counts[find_boundary(case)] > 1]
    return [name for name in shared if len(find_matching(_drop(name, caught))) == most]


def _drop(dropped: str, caught: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: [case for case in cases if case != dropped] for name, cases in caught.items()}
