"""Instances that the search of `witnesses` does not come upon, found by solving the equation of volumes by hand.

Law: they are tried as those of the search are, and so an instance that is none shows nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class FoundInstance(NamedTuple):
    """Numbers for a question: one for each dim, or where it has a name, for that.

    Attributes:
        data: those of the data.
        target: those of the target; what is a number in the question stays.
    """

    data: Sequence[int]
    target: Sequence[int]


FOUND: Mapping[str, Sequence[FoundInstance]] = {
    "partial/rv-03715": (FoundInstance([50 * 2**40, 2], [2, 10, 5, -1]),),
    "partial/rv-03822": (FoundInstance([4, 6, 10**18, 8, 2**30], [-1, 6, 2**32]),),
    "partial/rv-03861": (FoundInstance([0, 3, 1, 4, 5], [3, 0, 0]),),
    "partial/rv-04294": (FoundInstance([1, 2, 2**62, 3, (2**62 - 1) // 3], [2**63 - 2, 2**59, 8]),),
    "partial/rv-04521": (FoundInstance([1008 * 10**9, 1, 1, 3], [10**9, 12, 12, 0, 7]),),
    "partial/rv-04603": (
        FoundInstance([6, 8, 7, 6 * 10**9], [12, 8, 7 * 10**9, 3]),
        FoundInstance([6, 8, 7, 6 * 10**9], [12, 8, 7, 3 * 10**9]),
    ),
    "partial/rv-04663": (FoundInstance([3, 8, 10**18, 1, 1], [12, -1, 1]),),
    "partial/rv-05491": (
        FoundInstance([1, 0, 3, 4, 1], [3, 4, -1, 4, 3]),
        FoundInstance([3, 3, 4 * 10**9, 4, 3], [3, 4, -1, 4, 3]),
    ),
    "partial/rv-05974": (
        FoundInstance([4, 3, 2**63 - 1, 2], [4, 3, 2**63 - 1, 2]),
        FoundInstance([4, 3, 2**63 - 1, 2], [4, 3, 2**63 - 1, 2, 1]),
    ),
    "partial/rv-06104": (FoundInstance([2**31 * 10**9, 1, 10**18], [10**18, 10**9, 2**31]),),
    "partial/rv-06182": (FoundInstance([4, 8, 500 * 10**9], [8, 4, 5, 10**10, 10]),),
    "partial/rv-06432": (FoundInstance([4, 2**52 + 1, 3 * 2**31], [2, 2**32, -1, 3]),),
    "partial/rv-06449": (FoundInstance([1, 45, 8, 2], [1, 10, 6, 3, 4]),),
    "partial/rv-06744": (FoundInstance([2, 2, 64 * 10**9, 8], [4, 8, 10**9, 0, 8]),),
    "symbols/sym-0482": (FoundInstance([5 * 10**9, 10**9, 1], [10**9, 0, 5]),),
    "symbols/sym-1058": (FoundInstance([48, 12, 4], [-1, 48, 48]), FoundInstance([1, 12, 4], [-1, 1, 1])),
    "symbols/small-41272bea1a": (FoundInstance([2**62], [2**31, 2**31]),),
    "symbols/small-5fec0c0936": (FoundInstance([2**60], [2**31, 2**31]),),
    "symbols/small-fa7a0c6573": (FoundInstance([2**61, 2], [2**31, 2**31]),),
    "symbols/small-9cd755e363": (FoundInstance([2, 2**61], [2**31, 2**31]),),
}
"""By the case."""

WIDER: Mapping[str, str] = {
    "partial/rv-03815": "4 divides the volume only where its second dim is 4, so a -1 begins at 9007199254740993",
}
"""The cases whose answer is known to be wider than the hull, and why."""
