"""What is known of ONNX: of its shape inference, and of its reference evaluator."""

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import Question, are_known

_INFERENCE = ("onnx", "onnx-without-propagation")


def is_copied_zero(difference: Difference) -> bool:
    """Whether Reshape-1 takes a copied 0 out of the division, as ONNX does not."""
    return has_copied_zero(difference.question) and difference.verdict == "spurious_error"


def has_copied_zero(question: Question) -> bool:
    """Whether a -1 is to be inferred beside a copied dim of 0."""
    data, items = question.data or (), question.shape or ()
    copied = [dim for dim, item in zip(data, items, strict=False) if item == 0]
    return question.special_zero is True and 0 in copied and -1 in items


def _is_computed(difference: Difference) -> bool:
    question, is_less = difference.question, difference.verdict in ("weaker", "missing_error")
    is_computed = question.operation == "dynamic_reshape" or not are_known(question.shape)
    return difference.implementation == "onnx-without-propagation" and is_computed and bool(question.shape) and is_less


def _is_negative_dim(difference: Difference) -> bool:
    return difference.implementation in _INFERENCE and difference.reason == "DIM_OUT_OF_RANGE"


def _is_declared_name(difference: Difference) -> bool:
    return difference.implementation in _INFERENCE and difference.reason == "EXPECTED_SHAPE_MISMATCH"


def _is_overflow(difference: Difference) -> bool:
    return "Dimension product overflow" in difference.message


def _is_unchecked(difference: Difference) -> bool:
    return (
        difference.implementation in _INFERENCE
        and difference.question.is_known
        and difference.verdict == "missing_error"
    )


def _is_weaker(difference: Difference) -> bool:
    return difference.implementation in _INFERENCE and difference.verdict in ("weaker", "missing_error")


def _is_negative_item(difference: Difference) -> bool:
    return difference.implementation == "onnx-reference" and difference.reason == "INVALID_TARGET_VALUE"


def _is_surplus(difference: Difference) -> bool:
    return difference.implementation == "onnx-reference" and difference.reason == "DATA_SIZE_MISMATCH"


def _is_padding(difference: Difference) -> bool:
    right, have = (str(answer.get("bytes", "")) for answer in (difference.right, difference.answer))
    is_packed = difference.question.data_type in ("u2", "u4", "i4", "f4e2m1")
    return is_packed and difference.verdict == "wrong_bytes" and right[:-2] == have[:-2]


def _is_too_large_for_numpy(difference: Difference) -> bool:
    return difference.implementation == "onnx-reference" and difference.verdict == "spurious_error"


LIBRARY = Library(
    title="ONNX",
    distributions=("onnx", "numpy"),
    implementations=(
        Implementation(
            name="onnx",
            asked="`infer_shapes` with `check_type`, `strict_mode` and `data_prop`. The target of Reshape-1 is an "
            "initializer, that of DynamicReshape is joined by Concat of what is known, one by one.",
        ),
        Implementation(name="onnx-without-propagation", asked="The same without `data_prop`, as it is by default."),
        Implementation(
            name="onnx-reference",
            asked="`ReferenceEvaluator`, which computes with numpy. Where no bytes are given the data is one element "
            "with strides of 0, so shapes of up to 2^63 - 1 elements can be asked for.",
        ),
    ),
    lacks="A target that is an attribute, strides, and dims with bounds or of a product of names: a dim is a number, a "
    "name, or nothing is said of it. Limits of ranks and element types, which the graph operations have. An absent "
    "special_zero: it is what `allowzero` is not, which has a default. The reference evaluator takes "
    "known shapes alone, and looks at no expected ones. Not asked: inference that is not strict, which leaves out what "
    "it refuses; and opsets before 25. From 14 on, inference gives the same answers; before, it propagates nothing, "
    "and has no `allowzero`.",
    deviations=(
        Deviation(
            title="A copied 0 beside a -1 is refused",
            matter=Matter.OTHER_DEFINITION,
            why="A -1 is inferred from the number of elements and the remaining dims, copied ones included: as by "
            "StaticReshape and DynamicReshape, and other than by Reshape-1, where they leave both sides first. The "
            "text leaves it open; [asked about it](https://github.com/onnx/onnx/issues/6104), an author points to what "
            "inference does.",
            explains=is_copied_zero,
        ),
        Deviation(
            title="Nothing is known of a target that is computed",
            matter=Matter.WEAKER_ANSWER,
            why="Without `data_prop`, a target that is no initializer tells its length alone. "
            "[Documented](https://onnx.ai/onnx/repo-docs/ShapeInference.html#limitations).",
            explains=_is_computed,
        ),
        Deviation(
            title="A dim of the data below 0 is taken as a number",
            matter=Matter.MISSING_ERROR,
            why="A shape is a list of non-negative integers "
            "([IR](https://onnx.ai/onnx/repo-docs/IR.html)). Inference multiplies such a dim like any other, and "
            "answers negative dims.",
            explains=_is_negative_dim,
            report="onnx-negative-dim",
        ),
        Deviation(
            title="A name that stands for two numbers in the declared output",
            matter=Matter.MISSING_ERROR,
            why="A dim variable is the same value across the graph "
            "([IR](https://onnx.ai/onnx/repo-docs/IR.html#static-tensor-shapes)). Inference compares what is inferred "
            "with each number that is declared, and replaces the names.",
            explains=_is_declared_name,
            report="onnx-declared-names",
        ),
        Deviation(
            title="Volumes above 2^63 - 1 are refused",
            matter=Matter.NEEDLESS_REFUSAL,
            why="Products are computed in 64 bits, and checked "
            "[on purpose](https://github.com/onnx/onnx/pull/7822). No tensor in memory has so many elements, but for "
            "empty ones: (0) with [2^62, 4, 0] is refused, although both volumes are 0.",
            explains=_is_overflow,
            report="onnx-huge-volume",
        ),
        Deviation(
            title="Volumes are not compared",
            matter=Matter.MISSING_ERROR,
            why="Data and output have the same number of elements, says the operator. Strict inference looks at the "
            "number of elements only where it has a -1 to infer; without one, it says what the target says, also of "
            "a node that no data can pass.",
            explains=_is_unchecked,
            report="onnx-volume",
        ),
        Deviation(
            title="No arithmetic with names, and none with what is unknown",
            matter=Matter.WEAKER_ANSWER,
            why="Inference has numbers and simple names: no products of them, and no bounds. Nor is it told that no "
            "value of an unknown dim fits. "
            "[Documented](https://onnx.ai/onnx/repo-docs/ShapeInference.html#limitations).",
            explains=_is_weaker,
        ),
        Deviation(
            title="The reference evaluator infers any item below 0",
            matter=Matter.MISSING_ERROR,
            why="An item is a dim, a 0 or a -1. Strict inference refuses others; the evaluator hands them to numpy, "
            "which reads each negative number as its -1.",
            explains=_is_negative_item,
            report="onnx-reference-negative-item",
        ),
        Deviation(
            title="Bytes behind the last element below one byte are dropped",
            matter=Matter.MISSING_ERROR,
            why="A tensor has as many values as its dims make ([IR](https://onnx.ai/onnx/repo-docs/IR.html)). "
            "`numpy_helper.to_array` refuses too few bytes, and too many of elements of whole bytes. Of u4 with a byte "
            "for each element, it takes every other value for an element.",
            explains=_is_surplus,
            report="onnx-packed-size",
        ),
        Deviation(
            title="Bits behind the last element below one byte become 0",
            matter=Matter.OTHER_DEFINITION,
            why="For the reference evaluator a tensor is its values, so spare bits of the last byte are none of it. "
            "OpenVINO keeps them, as a reshape copies bytes.",
            explains=_is_padding,
        ),
        Deviation(
            title="The reference evaluator refuses huge dims beside a 0",
            matter=Matter.NEEDLESS_REFUSAL,
            why="numpy makes no array whose dims other than 0 have a product above 2^63 - 1.",
            explains=_is_too_large_for_numpy,
            report="onnx-reference-huge-empty",
        ),
    ),
)
