"""What is known of numpy."""

from conformance.adapters.array_differences import OVERLAPPING_STRIDES, is_needlessly_refused_for_its_size
from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter


def has_negative_item(one: Difference) -> bool:
    """A negative item other than -1."""
    return one.reason == "INVALID_TARGET_VALUE"


LIBRARY = Library(
    title="NumPy",
    distributions=("numpy",),
    implementations=(Implementation(name="numpy", asked="`array.reshape(shape)`; views by `copy=False`."),),
    lacks="special_zero, an expected output shape, shapes that are known in part, and elements that numpy itself does "
    "not have, such as bf16.",
    deviations=(
        Deviation(
            title="Every negative item is a -1",
            matter=Matter.MISSING_ERROR,
            why='"One shape dimension can be -1" (the documentation of `numpy.reshape`). A computed size that has '
            "become negative goes unnoticed.",
            explains=has_negative_item,
            report="numpy-negative-items",
        ),
        Deviation(
            title="Empty arrays with huge dims",
            matter=Matter.OTHER_DEFINITION,
            why="There are none: `numpy.empty` refuses them as well, whichever dim the 0 is. Its source says that the "
            'largest size is calculated "as if" a 0 were a 1.',
            explains=is_needlessly_refused_for_its_size,
        ),
        OVERLAPPING_STRIDES,
    ),
)
