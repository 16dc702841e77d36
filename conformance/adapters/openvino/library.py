"""What is known of OpenVINO."""

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import Unknown, multiply_most

_EXACT = 2**53
"""Up to here every integer is a double."""
_MOST = 2**63 - 1
_VOLUME = (
    '"Input tensor volume is equal to output tensor volume, where volume is the product of dimensions" (Reshape-1).'
)
_KEEPS = '"-1 means that this dimension is calculated to keep the overall elements count the same" (Reshape-1).'


def lacks_special_zero(one: Difference) -> bool:
    """A node without the attribute."""
    return one.reason == "SPECIAL_ZERO_MISSING"


def has_negative_dim(one: Difference) -> bool:
    """A dim of the data that is none."""
    lows = (dim if isinstance(dim, int) else dim.min for dim in one.question.data or ())
    return any(low < 0 for low in lows)


def is_unbounded_dim(one: Difference) -> bool:
    """A 2^63 - 1, which stands for no bound."""
    return _MOST in (*(one.question.data or ()), *(one.question.shape or ()))


def has_volume_unchecked_beside_a_copy(one: Difference) -> bool:
    """Another volume than that of the data, where a 0 copies."""
    target = one.question.shape or ()
    return one.reason == "VOLUME_MISMATCH" and one.question.is_known and bool(one.question.special_zero) and 0 in target


def has_zero_beside_minus_one(one: Difference) -> bool:
    """A literal 0 beside a -1, which is given a value."""
    return one.reason == "MINUS_ONE_WITH_ZERO_VOLUME"


def is_saturated(one: Difference) -> bool:
    """Products that no int64 holds."""
    volumes = (multiply_most(one.question.data or ()), multiply_most(one.question.shape or ()))
    return one.verdict != "weaker" and max(volumes) > _MOST


def is_rounded(one: Difference) -> bool:
    """Products that no double holds."""
    volumes = (multiply_most(one.question.data or ()), multiply_most(one.question.shape or ()))
    return one.verdict != "weaker" and max(volumes) > _EXACT


def is_empty_interval(one: Difference) -> bool:
    """A dim that lies between nothing."""
    dims = one.answer.get("shape") or ()
    return any(isinstance(dim, dict) and dim.get("max") is not None and dim["min"] > dim["max"] for dim in dims)


def is_minus_one_of_unknown_rank(one: Difference) -> bool:
    """A -1 that is at least 1, though the data may be empty."""
    return one.verdict == "wrong_shape" and one.question.data is None and -1 in (one.question.shape or ())


def has_wrong_name(one: Difference) -> bool:
    """A dim that is called what it is not where the data is empty."""
    return (
        one.verdict == "wrong_shape"
        and one.rule == "symbols"
        and _strip(one.answer["shape"]) == _strip(one.right["shape"])
    )


def is_of_no_instance(one: Difference) -> bool:
    """A shape of what nothing can be."""
    return one.verdict == "missing_error" and not one.question.is_known


def loses_names(one: Difference) -> bool:
    """Bounds as narrow as they can be, without the name."""
    return one.verdict == "weaker" and _strip(one.answer.get("shape")) == _strip(one.right.get("shape"))


def has_unknown_item(one: Difference) -> bool:
    """An item of the target of which nothing is known."""
    return one.verdict == "weaker" and (one.question.shape is None or Unknown() in one.question.shape)


def is_wider(one: Difference) -> bool:
    """Any other answer that says less than could be known."""
    return one.verdict == "weaker"


def _strip(dims: object) -> object:
    """Returns dims without names."""
    if not isinstance(dims, list):
        return dims
    bounds = [{"min": 0} if dim is None else {"min": dim, "max": dim} if isinstance(dim, int) else dim for dim in dims]
    return [(dim["min"], dim.get("max")) for dim in bounds]


LIBRARY = Library(
    title="OpenVINO",
    distributions=("openvino",),
    implementations=(
        Implementation(
            name="openvino",
            asked="A node of Reshape-1 that it validates; bytes are what the reference implementation makes of them.",
        ),
    ),
    lacks="StaticReshape and DynamicReshape, an expected output shape, strides, and symbols that are expressions.",
    deviations=(
        Deviation(
            title="The volume is not compared beside a copy",
            matter=Matter.WRONG_MEMORY,
            why=f"{_VOLUME} Where the output is larger than the data, it has what lies behind it in memory.",
            explains=has_volume_unchecked_beside_a_copy,
            report="openvino-volume-beside-a-copy",
        ),
        Deviation(
            title="A missing special_zero is false",
            matter=Matter.MISSING_ERROR,
            why="Reshape-1 requires the attribute, and gives it no default.",
            explains=lacks_special_zero,
            report="openvino-special-zero-missing",
        ),
        Deviation(
            title="A dim below zero is an unknown one",
            matter=Matter.OTHER_DEFINITION,
            why="Its documentation of `Dimension` says that -1 is a dynamic dim.",
            explains=has_negative_dim,
        ),
        Deviation(
            title="A 0 beside a -1",
            matter=Matter.OTHER_DEFINITION,
            why="Any value of the -1 keeps 0 elements, so none of them is the answer by this contract. OpenVINO takes "
            "0 or 1, and Reshape-1 does not say.",
            explains=has_zero_beside_minus_one,
        ),
        Deviation(
            title="2^63 - 1 stands for no bound",
            matter=Matter.OTHER_DEFINITION,
            why="It is how OpenVINO writes that a dim has no upper bound, so such a dim is an unknown one.",
            explains=is_unbounded_dim,
        ),
        Deviation(
            title="Volumes above 2^63 are all equal",
            matter=Matter.WRONG_SHAPE,
            why=f"{_VOLUME} Products saturate instead, that of an empty tensor too.",
            explains=is_saturated,
            report="openvino-saturated-volumes",
        ),
        Deviation(
            title="The dim for a -1 is computed in doubles",
            matter=Matter.WRONG_SHAPE,
            why=f"{_KEEPS} Above 2^53 it is rounded, and a remainder is lost.",
            explains=is_rounded,
            report="openvino-doubles",
        ),
        Deviation(
            title="Bounds that cross",
            matter=Matter.MISSING_ERROR,
            why=f"{_KEEPS} No value of it does, which is an error, and not a dim between 1 and 0.",
            explains=is_empty_interval,
            report="openvino-empty-interval",
        ),
        Deviation(
            title="A -1 is at least 1 where the rank is unknown",
            matter=Matter.WRONG_SHAPE,
            why=f"{_KEEPS} The data may have 0 elements.",
            explains=is_minus_one_of_unknown_rank,
            report="openvino-unranked-minus-one",
        ),
        Deviation(
            title="Two dims are equal, which they are not where the data is empty",
            matter=Matter.WRONG_SHAPE,
            why="0 elements are 0 elements whatever the other dims are, so a dim that is left of the target is that "
            "which is left of the data only where none of the others can be 0. Compiled models rely on the symbol.",
            explains=has_wrong_name,
            report="openvino-names-of-empty-tensors",
        ),
        Deviation(
            title="A shape for what nothing can be",
            matter=Matter.WEAKER_ANSWER,
            why="No value of the unknown dims keeps the volume, which could be told before a model runs. OpenVINO "
            "compares volumes where all dims are known.",
            explains=is_of_no_instance,
        ),
        Deviation(
            title="An item that is not known makes all others unknown",
            matter=Matter.WEAKER_ANSWER,
            why="The items that are known, and the volume, say more.",
            explains=has_unknown_item,
        ),
        Deviation(
            title="Names of products are lost",
            matter=Matter.WEAKER_ANSWER,
            why="A symbol is no expression, so the product of two dims has none.",
            explains=loses_names,
        ),
        Deviation(
            title="Bounds that could be narrower",
            matter=Matter.WEAKER_ANSWER,
            why="The equation of the volumes says more about each dim.",
            explains=is_wider,
        ),
    ),
)
