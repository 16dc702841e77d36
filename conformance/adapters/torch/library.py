"""What is known of torch."""

from conformance.adapters.array_differences import (
    OVERLAPPING_STRIDES,
    is_needlessly_refused_for_its_size,
    is_weaker,
)
from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import Unknown

_LEAST_GENERAL = 2


def is_specialized_for_small_sizes(one: Difference) -> bool:
    """Bounds that lack what a dim of 0 or 1 leads to."""
    unknown = [dim for dim in (*(one.question.data or ()), *(one.question.shape or ())) if isinstance(dim, Unknown)]
    return one.verdict == "wrong_shape" and any(dim.min < _LEAST_GENERAL for dim in unknown)


def loses_a_literal(one: Difference) -> bool:
    """A number of the target that is an expression in the output."""
    target, answer = one.question.shape or (), one.answer.get("shape") or ()
    return one.verdict == "weaker" and any(
        isinstance(item, int) and item >= 0 and not isinstance(dim, int)
        for item, dim in zip(target, answer, strict=False)
    )


LIBRARY = Library(
    title="PyTorch",
    distributions=("torch",),
    implementations=(
        Implementation(
            name="torch",
            asked="`tensor.reshape(shape)` of a tensor; views by `tensor.view(shape)`.",
        ),
        Implementation(
            name="torch-meta",
            asked="The same on the device `meta`, where a tensor has no data.",
        ),
        Implementation(
            name="torch-export",
            asked="The shape of the output of a program of `torch.export.export`, whose dims are `Dim.AUTO`. A dim "
            "that is a product of sizes, or one divided by a number, is read with the bounds of the question; those of "
            "others are what torch says.",
        ),
    ),
    lacks="special_zero, an expected output shape, elements below one byte; for programs also an unknown rank, items "
    "that may be instructions, and what no example can be found for. Nor does a program count that refuses sizes as "
    'general as those of its example: it "can then be run on different inputs as long as they satisfy the same '
    'conditions" (the programming model of `torch.export`). How a reshape is split into steps is such a condition: '
    "[N, 6] to [4, -1], exported with an N of 8, refuses 6 and 10; exported with 6, it refuses 8.",
    deviations=(
        OVERLAPPING_STRIDES,
        Deviation(
            title="Empty tensors with huge dims, by the order of the dims",
            matter=Matter.NEEDLESS_REFUSAL,
            why="A tensor of [0, 2^62, 4] is made, one of [2^62, 4, 0] is refused. Both have 0 elements.",
            explains=is_needlessly_refused_for_its_size,
            report="torch-empty-order",
        ),
        Deviation(
            title="Programs are for sizes of at least 2",
            matter=Matter.OTHER_DEFINITION,
            why='Its documentation has a page on it, "The Zero-One Specialization Problem": a size of 0 or 1 is a '
            "number.",
            explains=is_specialized_for_small_sizes,
        ),
        Deviation(
            title="A number of the target becomes an expression",
            matter=Matter.WEAKER_ANSWER,
            why="An output of [-1, 8] has a second dim of 8. It comes out as 4*(N//(N//2)), whose bounds are wider.",
            explains=loses_a_literal,
        ),
        Deviation(
            title="Bounds that could be narrower",
            matter=Matter.WEAKER_ANSWER,
            why="The equation of the volumes says more about each dim.",
            explains=is_weaker,
        ),
    ),
)
