"""Causes of differences that libraries of arrays have in common."""

from conformance.adapters.array_libraries import LARGEST_DIM
from conformance.adapters.libraries import Deviation, Difference, Matter
from conformance.adapters.questions import multiply_most


def has_overlapping_strides(one: Difference) -> bool:
    """Strides that put two elements at one place, or lead backwards."""
    return one.reason in {"STRIDES_OVERLAP", "STRIDE_NEGATIVE"}


def has_zero_beside_minus_one(one: Difference) -> bool:
    """A literal 0 beside a -1, which is not refused."""
    return one.reason == "MINUS_ONE_WITH_ZERO_VOLUME"


def is_needlessly_refused_for_its_size(one: Difference) -> bool:
    """A refusal of a product that is 0, or small, where that of some of its dims is beyond 2^63."""
    return one.verdict == "spurious_error" and has_huge_product(one)


def has_huge_product(one: Difference) -> bool:
    """Dims or items whose product, without those that are 0, is beyond 2^63."""
    return max(multiply_most(one.question.data or ()), multiply_most(one.question.shape or ())) > LARGEST_DIM


def is_weaker(one: Difference) -> bool:
    """An answer that says less than could be known."""
    return one.verdict == "weaker"


OVERLAPPING_STRIDES = Deviation(
    title="Strides that overlap",
    matter=Matter.OTHER_DEFINITION,
    why="Its documentation of `as_strided` allows several elements at one place. This contract refuses them.",
    explains=has_overlapping_strides,
)
