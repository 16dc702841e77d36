"""What is known of TensorFlow."""

from conformance.adapters.array_differences import (
    has_huge_product,
    has_zero_beside_minus_one,
    is_needlessly_refused_for_its_size,
    is_weaker,
)
from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter


def has_second_minus_one(one: Difference) -> bool:
    """Two items of -1."""
    return one.reason == "MULTIPLE_MINUS_ONE"


def has_wrapped_item(one: Difference) -> bool:
    """An item that no int64 holds."""
    return one.reason == "INVALID_TARGET_VALUE"


def has_wrapped_volume(one: Difference) -> bool:
    """A product that no int64 holds, in a graph."""
    return one.implementation == "tensorflow-graph" and one.verdict != "weaker" and has_huge_product(one)


def accepts_what_nothing_can_be(one: Difference) -> bool:
    """Shapes that are known in part, and that no value of the unknown dims makes right."""
    return one.verdict == "missing_error" and one.reason in {"NOT_DIVISIBLE", "VOLUME_MISMATCH"}


LIBRARY = Library(
    title="TensorFlow",
    distributions=("tensorflow",),
    implementations=(
        Implementation(
            name="tensorflow",
            asked="`tf.reshape(tensor, shape)`, eagerly, on a processor.",
        ),
        Implementation(name="tensorflow-graph", asked="The static shape of the same in a graph."),
    ),
    lacks="special_zero, an expected output shape, strides, dims with bounds or names, elements below one byte.",
    deviations=(
        Deviation(
            title="A 0 beside a -1",
            matter=Matter.OTHER_DEFINITION,
            why="Any value of the -1 keeps 0 elements, so none of them is the answer by this contract. TensorFlow "
            "gives it the quotient of the dims that are not 0, and a graph leaves it unknown; its documentation does "
            "not say.",
            explains=has_zero_beside_minus_one,
        ),
        Deviation(
            title="A graph takes two items of -1",
            matter=Matter.MISSING_ERROR,
            why='"At most one component of `shape` can be -1" (the documentation of `tf.reshape`).',
            explains=has_second_minus_one,
            report="tensorflow-graph-second-minus-one",
        ),
        Deviation(
            title="A graph takes the lower bits of items of 2^63 and more",
            matter=Matter.WRONG_SHAPE,
            why="A list that no int64 holds ends as a constant of int32, in which 2^64 - 1 is a -1 and 2^63 + 6 a 6. "
            "Eagerly the same list is refused.",
            explains=has_wrapped_item,
            report="tensorflow-graph-wrapped-item",
        ),
        Deviation(
            title="Volumes of a graph wrap at 2^64",
            matter=Matter.MISSING_ERROR,
            why='It "does not change [...] the total number of elements" (the documentation of `tf.reshape`). Products '
            "of 64 bits are compared instead.",
            explains=has_wrapped_volume,
            report="tensorflow-graph-wrapped-volume",
        ),
        Deviation(
            title="Empty tensors with huge dims, by the order of the dims",
            matter=Matter.NEEDLESS_REFUSAL,
            why="A tensor of [0, 2^62, 4] is made, one of [2^62, 4, 0] is refused. Both have 0 elements.",
            explains=is_needlessly_refused_for_its_size,
            report="tensorflow-empty-order",
        ),
        Deviation(
            title="A shape for what nothing can be",
            matter=Matter.WEAKER_ANSWER,
            why="No value of the unknown dims keeps the volume, which could be told before a graph runs. It compares "
            "volumes where all dims and items are known, and is right to leave the rest open.",
            explains=accepts_what_nothing_can_be,
        ),
        Deviation(
            title="Unknown where more is known",
            matter=Matter.WEAKER_ANSWER,
            why="A dim of a graph is a number or unknown, so bounds that follow from the volume cannot be said.",
            explains=is_weaker,
        ),
    ),
)
