"""What is known of oneDNN."""

from collections.abc import Sequence
from math import prod

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import Dim

_MOST = 2**63 - 1
_F32_BYTES = 4
_MAX_RANK = 12


def is_beyond_the_rank(one: Difference) -> bool:
    """A target of more dims than a tensor has."""
    return one.verdict == "crash" and len(one.question.shape or ()) > _MAX_RANK


def is_division(one: Difference) -> bool:
    """A division that overflows."""
    return one.verdict == "crash" and -1 in (one.question.shape or ())


def is_empty_target(one: Difference) -> bool:
    """A target without items."""
    return one.verdict == "spurious_error" and one.question.shape == ()


def is_wrapped(one: Difference) -> bool:
    """A volume that wraps, and is then said to be another one, or beside an empty one."""
    is_told = one.verdict in {"wrong_shape", "missing_error"}
    return (is_told or _multiply(one.question.data) == 0) and max(map(_count, _list_shapes(one))) > _MOST


def has_no_memory(one: Difference) -> bool:
    """A tensor that no memory holds."""
    return one.verdict == "spurious_error" and max(map(_count, _list_shapes(one))) * _F32_BYTES > _MOST


def _list_shapes(one: Difference) -> tuple[Sequence[Dim], Sequence[Dim]]:
    return one.question.data or (), one.question.shape or ()


def _multiply(dims: Sequence[Dim] | None) -> int:
    return prod(dim for dim in dims or () if isinstance(dim, int))


def _count(dims: Sequence[Dim]) -> int:
    """Returns the product of the dims, but for zeros and minus ones."""
    return prod(max(dim, 1) for dim in dims if isinstance(dim, int))


_VOLUME = (
    '"The volume of src is equal to dst, where volume is the product of dimensions" (developer guide, StaticReshape).'
)

LIBRARY = Library(
    title="oneDNN",
    distributions=("onednn", "onednn-devel"),
    implementations=(
        Implementation(
            name="onednn",
            asked="A partition of one StaticReshape, compiled for the processor, and executed where there are bytes.",
        ),
    ),
    lacks="DynamicReshape, Reshape-1, shapes that are known in part, and element types beyond its own.",
    deviations=(
        Deviation(
            title="A target of more than 12 dims is written beyond the tensor",
            matter=Matter.WRONG_MEMORY,
            why="A tensor has up to 12 dims (`DNNL_MAX_NDIMS`), and data of 13 is refused. A target of as many is "
            "copied into the places of 12, over what lies behind them.",
            explains=is_beyond_the_rank,
            report="onednn-long-shapes",
        ),
        Deviation(
            title="The division for a -1 overflows",
            matter=Matter.CRASH,
            why="The volume wraps to -2^63, and the product of the other items to -1: 64 bits hold no such quotient.",
            explains=is_division,
            report="onednn-division",
        ),
        Deviation(
            title="No reshape to a scalar",
            matter=Matter.NEEDLESS_REFUSAL,
            why=f"{_VOLUME} That of a scalar is 1; no least length of the attribute is documented.",
            explains=is_empty_target,
            report="onednn-empty-shape",
        ),
        Deviation(
            title="Volumes wrap at 2^64",
            matter=Matter.WRONG_SHAPE,
            why=f"{_VOLUME} The product is computed in 64 bits, and no overflow is looked for.",
            explains=is_wrapped,
            report="onednn-wrapped-volumes",
        ),
        Deviation(
            title="Tensors that no memory holds",
            matter=Matter.OTHER_DEFINITION,
            why="A partition is compiled for memory, whose size in bytes has 64 bits. The kit infers shapes of what "
            "cannot be stored as well.",
            explains=has_no_memory,
        ),
    ),
)
