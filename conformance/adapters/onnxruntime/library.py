"""What is known of onnxruntime: of what it executes, and of its symbolic shape inference."""

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.onnx.library import has_copied_zero, is_copied_zero
from conformance.adapters.questions import Unknown


def _is_executed(difference: Difference) -> bool:
    return difference.implementation == "onnxruntime"


def _is_symbolic(difference: Difference) -> bool:
    return difference.implementation == "onnxruntime-symbolic"


def _is_inferred_beside_zero(difference: Difference) -> bool:
    return _is_executed(difference) and difference.reason == "MINUS_ONE_WITH_ZERO_VOLUME"


def _is_too_large(difference: Difference) -> bool:
    return _is_executed(difference) and difference.verdict == "spurious_error"


def _is_literal_zero(difference: Difference) -> bool:
    literal = difference.question.special_zero is False and 0 in (difference.question.shape or ())
    return _is_symbolic(difference) and literal


def _is_division_by_zero(difference: Difference) -> bool:
    return _is_symbolic(difference) and has_copied_zero(difference.question)


def _is_negative_item(difference: Difference) -> bool:
    return _is_symbolic(difference) and difference.reason == "INVALID_TARGET_VALUE"


def _is_negative_dim(difference: Difference) -> bool:
    return _is_symbolic(difference) and difference.reason == "DIM_OUT_OF_RANGE"


def _is_remainder(difference: Difference) -> bool:
    return _is_symbolic(difference) and difference.question.is_known and difference.reason == "NOT_DIVISIBLE"


def _is_unchecked(difference: Difference) -> bool:
    return _is_symbolic(difference) and difference.question.is_known and difference.verdict == "missing_error"


def _is_unknown_rank(difference: Difference) -> bool:
    question = difference.question
    return _is_symbolic(difference) and "Error" in difference.message and None in (question.data, question.shape)


def _is_overflow(difference: Difference) -> bool:
    return _is_symbolic(difference) and difference.verdict == "spurious_error"


def _is_name_with_operators(difference: Difference) -> bool:
    names = [getattr(dim, "name", None) or "" for dim in difference.question.data or ()]
    return _is_symbolic(difference) and any("+" in name for name in names)


def _is_weaker(difference: Difference) -> bool:
    return _is_symbolic(difference) and difference.verdict in ("weaker", "missing_error")


def _is_item_unknown(difference: Difference) -> bool:
    return Unknown() in (difference.question.shape or ()) and _is_weaker(difference)


LIBRARY = Library(
    title="onnxruntime",
    distributions=("onnxruntime", "onnx", "sympy", "numpy"),
    implementations=(
        Implementation(
            name="onnxruntime",
            asked="A session of the CPU provider, which runs the node. The target of Reshape-1 is an initializer, that "
            "of DynamicReshape is fed.",
        ),
        Implementation(
            name="onnxruntime-symbolic",
            asked="`onnxruntime.tools.symbolic_shape_infer`, which computes with sympy. What it raises is taken as a "
            "refusal, whichever exception it is. Its `floor(3*N/2)` is taken as `3*N/2`.",
        ),
    ),
    lacks="What ONNX lacks. A session is asked of known shapes of up to 2^26 elements alone, and of no expected ones: "
    "it warns where an output is not as its model declares it (`session.strict_shape_type_inference` makes that an "
    "error, where the target is an initializer). It has no Reshape of elements below one byte, and none of f8e8m0.",
    deviations=(
        Deviation(
            title="A copied 0 beside a -1 is refused",
            matter=Matter.OTHER_DEFINITION,
            why="As by ONNX: copied dims stay in the division. The symbolic inference refuses by a ZeroDivisionError.",
            explains=is_copied_zero,
        ),
        Deviation(
            title="A session infers a -1 beside a 0",
            matter=Matter.MISSING_ERROR,
            why="With `allowzero`, a target that has both a 0 and a -1 is invalid, says the operator. Where such a "
            "target is fed and the data is empty, dims of 0 are left out of both products: (0, 4, 5) with [0, -1] "
            "becomes (0, 20). The same node is refused where its target is an initializer.",
            explains=_is_inferred_beside_zero,
            report="onnxruntime-zero-beside-minus-one",
        ),
        Deviation(
            title="A session refuses huge dims beside a 0",
            matter=Matter.NEEDLESS_REFUSAL,
            why="The product of the dims other than 0 is computed in 64 bits, and checked, although both volumes are "
            "0: by ONNX's inference, when a model is loaded whose target is an initializer (see there), and by the "
            "operator itself, when the target is fed.",
            explains=_is_too_large,
            report="onnxruntime-huge-empty",
        ),
        Deviation(
            title="Symbolic inference takes items below -1 as dims",
            matter=Matter.MISSING_ERROR,
            why="An item is a dim, a 0 or a -1; a session refuses any other.",
            explains=_is_negative_item,
            report="onnxruntime-symbolic-negative-item",
        ),
        Deviation(
            title="Symbolic inference does not read allowzero",
            matter=Matter.WRONG_SHAPE,
            why="With `allowzero` a 0 is a dim of 0. It copies instead, so it answers dims that the output does not "
            "have, refuses (IndexError) a 0 beyond the rank of the data, and accepts a 0 beside a -1.",
            explains=_is_literal_zero,
            report="onnxruntime-symbolic-allowzero",
        ),
        Deviation(
            title="Symbolic inference divides by 0",
            matter=Matter.MISSING_ERROR,
            why="A -1 beside a copied 0 cannot be inferred. Beside another item, the product is an integer of numpy, "
            "whose division by 0 warns, and is 0: so the -1 becomes 0.",
            explains=_is_division_by_zero,
            report="onnxruntime-symbolic-division-by-zero",
        ),
        Deviation(
            title="Symbolic inference takes a dim of the data below 0 as a number",
            matter=Matter.MISSING_ERROR,
            why="A shape is a list of non-negative integers ([IR](https://onnx.ai/onnx/repo-docs/IR.html)). ONNX's "
            "own inference, with which this one begins, does the same.",
            explains=_is_negative_dim,
            report="onnxruntime-symbolic-negative-dim",
        ),
        Deviation(
            title="Symbolic inference drops remainders",
            matter=Matter.MISSING_ERROR,
            why="(2, 3) with [4, -1] becomes (4, 1), as the -1 is the quotient rounded down. No data can pass such a "
            "node: data and output have the same number of elements.",
            explains=_is_remainder,
            report="onnxruntime-symbolic-remainder",
        ),
        Deviation(
            title="Symbolic inference does not compare volumes",
            matter=Matter.MISSING_ERROR,
            why="Data and output have the same number of elements, says the operator. Without a -1, the target is the "
            "answer.",
            explains=_is_unchecked,
            report="onnxruntime-symbolic-volume",
        ),
        Deviation(
            title="Symbolic inference gives up where a rank is unknown",
            matter=Matter.NEEDLESS_REFUSAL,
            why="A value without a shape is legal ([IR](https://onnx.ai/onnx/repo-docs/IR.html#static-tensor-shapes)): "
            "its rank is unknown. An assertion without a text ends the whole inference.",
            explains=_is_unknown_rank,
            report="onnxruntime-symbolic-unknown-rank",
        ),
        Deviation(
            title="Symbolic inference writes no parentheses around names with operators",
            matter=Matter.WRONG_SHAPE,
            why="A name need not be an identifier, and this tool itself names dims `2*N`. Twice a dim with the name "
            "`seq + past` is said to be `2*seq + past`.",
            explains=_is_name_with_operators,
            report="onnxruntime-symbolic-names",
        ),
        Deviation(
            title="Symbolic inference raises OverflowError for volumes above 2^63 - 1",
            matter=Matter.NEEDLESS_REFUSAL,
            why="Integers of Python meet those of numpy, which have 64 bits. No tensor in memory has so many elements.",
            explains=_is_overflow,
            report="onnxruntime-symbolic-overflow",
        ),
        Deviation(
            title="Symbolic inference knows nothing of a target with an unknown item",
            matter=Matter.WEAKER_ANSWER,
            why="One item that is not known makes all dims of the output unknown, so two items of -1 beside it are not "
            "seen either.",
            explains=_is_item_unknown,
        ),
        Deviation(
            title="Symbolic inference infers nothing but the -1",
            matter=Matter.WEAKER_ANSWER,
            why="It does not ask what the volume says of other dims: which they can be, or that there are none. "
            "That a dim is not 0 it cannot say, as ONNX has no bounds.",
            explains=_is_weaker,
        ),
    ),
)
