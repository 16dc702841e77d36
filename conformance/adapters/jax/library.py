"""What is known of JAX."""

from conformance.adapters.array_differences import is_weaker
from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter


def is_crash(one: Difference) -> bool:
    """The end of the process."""
    return one.verdict == "crash"


def has_no_dims(one: Difference) -> bool:
    """Dims below 0, or above 2^63 - 1."""
    return one.reason in {"DIM_OUT_OF_RANGE", "DIM_OVERFLOW", "INVALID_TARGET_VALUE"}


def ignores_the_volume(one: Difference) -> bool:
    """A target without a -1, which is taken as it is."""
    is_told = one.verdict in {"missing_error", "weaker", "wrong_shape"}
    return is_told and not one.question.is_known and -1 not in (one.question.shape or ())


LIBRARY = Library(
    title="JAX",
    distributions=("jax", "jaxlib"),
    implementations=(
        Implementation(
            name="jax", asked="`jax.numpy.reshape(array, shape)` of an array, on a processor.", sizes=("core",)
        ),
        Implementation(
            name="jax-eval-shape",
            asked="The same by `jax.eval_shape`, of an array that is never made.",
        ),
        Implementation(
            name="jax-export",
            asked="The shape of the output of a function of `jax.export.export`. Names and bounds are symbols with "
            "constraints; a product of them is read with the bounds of the question.",
            sizes=("core", "hostile"),
        ),
    ),
    lacks="special_zero, an expected output shape, strides, elements below one byte; for functions also an unknown "
    "rank and items that may be instructions. Where JAX raises `InconclusiveDimensionOperation`, it asks for more "
    "constraints, which is no answer.",
    deviations=(
        Deviation(
            title="An empty array with huge dims ends the process",
            matter=Matter.CRASH,
            why="Its volume is 0, as that of the data is. An exception of C++ reaches nobody, and the process aborts.",
            explains=is_crash,
            report="jax-empty-crash",
        ),
        Deviation(
            title="Dims of any integers",
            matter=Matter.MISSING_ERROR,
            why="No array has a dim below 0 or above 2^63 - 1. `eval_shape` answers in integers of Python, and looks "
            "at neither.",
            explains=has_no_dims,
            report="jax-unbounded-dims",
        ),
        Deviation(
            title="The volume is not compared where a symbol is",
            matter=Matter.MISSING_ERROR,
            why="Without a -1, any target is taken as it is. What no input can be reshaped to is exported, and refused "
            "in other words when it is called.",
            explains=ignores_the_volume,
            report="jax-export-volume",
        ),
        Deviation(
            title="A symbol that is read as 0",
            matter=Matter.OTHER_DEFINITION,
            why="Dimension variables of JAX are at least 1, as its documentation of shape polymorphism says. So it has "
            "no need to say so of one by which is divided.",
            explains=is_weaker,
        ),
    ),
)
