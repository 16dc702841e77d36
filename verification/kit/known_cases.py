"""The cases of the core whose shapes are known, written by hand: each boundary of each rule."""

from verification.kit.rows import ALL, GRAPH, RESHAPE, Refused, Row

LARGEST = 2**63 - 1

_REQUIRED = "special_zero is a required attribute without a default (oneDNN Graph, OpenVINO)."
_RANK = "The operations of oneDNN Graph are for tensors of up to 12 dims (oneDNN Graph)."
_WITHIN = "12 dims are within what oneDNN Graph takes, and Reshape-1 bounds no rank (oneDNN Graph, OpenVINO)."
_ANY_RANK = "Reshape-1 bounds no rank; this contract does, at 64 (this contract)."
_COPY = "Under special_zero a 0 copies the data dim at the same index (oneDNN Graph, OpenVINO)."
_LITERAL = "Without special_zero a 0 is a dim of 0 (oneDNN Graph, OpenVINO)."
_BEYOND = "A 0 that copies needs a data dim at its index (OpenVINO; oneDNN Graph by its definition of the copy)."
_ONE = "At most one item is -1 (oneDNN Graph, OpenVINO)."
_LEAST = "Each value is at least -1 (oneDNN Graph, OpenVINO)."
_ORDER = "Items are read from left to right: the first that breaks a rule is to blame (this contract)."
_KEEP = (
    "A -1 keeps the number of elements: it is the volume of the data over the product of all other items"
    " (oneDNN Graph, OpenVINO)."
)
_WHOLE = "The division must leave no remainder (oneDNN Graph, OpenVINO)."
_EXACT = "Integers are exact, of any size (this contract); libraries wrap, saturate or round."
_DIM = "A dim lies from 0 to 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."
_ZERO = "A -1 beside a product of 0 cannot be inferred, on empty data neither (this contract; libraries disagree)."
_EITHER = "A copied dim that is not 0 cancels, whether or not it leaves both sides first (oneDNN Graph, OpenVINO)."
_CANCEL = "Reshape-1 takes copied dims out of both sides before it divides (OpenVINO)."
_DIVIDE = "The graph operations divide the whole volume, so a copied 0 beside a -1 is a product of 0 (oneDNN Graph)."
_VOLUME = "The output has as many elements as the data (oneDNN Graph, OpenVINO)."
_EMPTY = "0 elements are 0 elements, whatever the other dims are (oneDNN Graph, OpenVINO)."
_SCALAR = "A scalar has the shape [] and one element (oneDNN Graph, OpenVINO)."
_EXPECTED = "An expected output shape that the output does not have is refused (this contract)."

_MISMATCH = Refused("VOLUME_MISMATCH", field="shape")
_MISSING = Refused("SPECIAL_ZERO_MISSING", field="special_zero")
_UNEXPECTED = Refused("EXPECTED_SHAPE_MISMATCH", field="expected_shape")


def _zero(item: int) -> Refused:
    return Refused("MINUS_ONE_WITH_ZERO_VOLUME", item)


ADMITTED = (
    Row("special-zero-missing", ALL, [2, 3], [6], None, _MISSING, _REQUIRED),
    Row("data-of-rank-12", ALL, [1] * 12, [1], False, [1], _WITHIN),
    Row("target-of-rank-12", ALL, [1], [1] * 12, False, [1] * 12, _WITHIN),
    Row("data-of-rank-13", GRAPH, [1] * 13, [1], False, Refused("RANK_UNSUPPORTED", field="data.dims"), _RANK),
    Row("target-of-rank-13", GRAPH, [1], [1] * 13, False, Refused("RANK_UNSUPPORTED", field="shape"), _RANK),
    Row("rank-13", (RESHAPE,), [1] * 13, [1] * 13, False, [1] * 13, _ANY_RANK),
    Row("largest-dim", ALL, [LARGEST], [LARGEST], False, [LARGEST], _DIM),
    Row("dim-too-large", ALL, [LARGEST + 1], [-1], False, Refused("DIM_OUT_OF_RANGE", field="data.dims[0]"), _DIM),
    Row("dim-below-zero", ALL, [2, -1], [-1], False, Refused("DIM_OUT_OF_RANGE", field="data.dims[1]"), _DIM),
)

TARGET = (
    Row("copy-first", ALL, [2, 3], [0, 3], True, [2, 3], _COPY),
    Row("copy-last", ALL, [2, 3], [2, 0], True, [2, 3], _COPY),
    Row("copy-all", ALL, [2, 3, 4], [0, 0, 0], True, [2, 3, 4], _COPY),
    Row("copy-at-own-index", ALL, [2, 3, 4], [6, 1, 0], True, [6, 1, 4], _COPY),
    Row("copy-a-zero", ALL, [0, 3], [0, 3], True, [0, 3], _COPY),
    Row("copy-beyond-the-rank", ALL, [6], [2, 3, 0], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 2), _BEYOND),
    Row("copy-at-the-rank", ALL, [2, 3], [2, 3, 0], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 2), _BEYOND),
    Row("copy-of-a-scalar", ALL, [], [0], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 0), _BEYOND),
    Row("copy-beyond-on-empty-data", ALL, [0], [0, 0], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 1), _BEYOND),
    Row("literal-zero", ALL, [0, 3], [5, 0], False, [5, 0], _LITERAL),
    Row("literal-zero-beyond-the-rank", ALL, [0], [2, 0], False, [2, 0], _LITERAL),
    Row("literal-zero-of-elements", ALL, [2, 3], [0, 3], False, _MISMATCH, _LITERAL),
    Row("second-minus-one", ALL, [4], [-1, -1], False, Refused("MULTIPLE_MINUS_ONE", 1), _ONE),
    Row("second-minus-one-apart", ALL, [4, 1], [-1, 2, -1], False, Refused("MULTIPLE_MINUS_ONE", 2), _ONE),
    Row("second-minus-one-on-empty-data", ALL, [0], [-1, -1], False, Refused("MULTIPLE_MINUS_ONE", 1), _ONE),
    Row("minus-two", ALL, [4], [-2], False, Refused("INVALID_TARGET_VALUE", 0), _LEAST),
    Row("minus-two-of-a-volume", ALL, [4], [-2, -2], False, Refused("INVALID_TARGET_VALUE", 0), _LEAST),
    Row("least-s32", ALL, [4], [-(2**31)], False, Refused("INVALID_TARGET_VALUE", 0), _LEAST),
    Row("below-then-second-minus-one", ALL, [4], [-2, -1, -1], False, Refused("INVALID_TARGET_VALUE", 0), _ORDER),
    Row("second-minus-one-then-below", ALL, [4], [-1, -1, -2], False, Refused("MULTIPLE_MINUS_ONE", 1), _ORDER),
    Row("copy-beyond-then-below", ALL, [], [0, -2], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 0), _ORDER),
    Row("below-then-copy-beyond", ALL, [], [-2, 0], True, Refused("INVALID_TARGET_VALUE", 0), _ORDER),
)

INFERRED = (
    Row("all-elements", ALL, [2, 3], [-1], False, [6], _KEEP),
    Row("first", ALL, [2, 3], [-1, 2], False, [3, 2], _KEEP),
    Row("last", ALL, [2, 3], [2, -1], False, [2, 3], _KEEP),
    Row("middle", ALL, [2, 3, 4], [4, -1, 2], False, [4, 3, 2], _KEEP),
    Row("one", ALL, [2, 3], [6, -1], False, [6, 1], _KEEP),
    Row("of-a-scalar", ALL, [], [-1], False, [1], _SCALAR),
    Row("of-a-scalar-beside-ones", ALL, [], [1, -1, 1], True, [1, 1, 1], _SCALAR),
    Row("beside-a-copy", ALL, [2, 3, 4], [0, -1], True, [2, 12], _KEEP),
    Row("before-a-copy", ALL, [2, 3, 4], [-1, 0], True, [8, 3], _KEEP),
    Row("between-copies", ALL, [2, 3, 4], [0, -1, 0], True, [2, 3, 4], _KEEP),
    Row("remainder", ALL, [2, 3], [4, -1], False, Refused("NOT_DIVISIBLE", 1), _WHOLE),
    Row("remainder-above", ALL, [2, 3], [7, -1], False, Refused("NOT_DIVISIBLE", 1), _WHOLE),
    Row("remainder-beside-a-copy", ALL, [3, 2], [0, 4, -1], True, Refused("NOT_DIVISIBLE", 2), _WHOLE),
    Row("remainder-of-a-scalar", ALL, [], [2, -1], False, Refused("NOT_DIVISIBLE", 1), _WHOLE),
    Row("empty", ALL, [0, 3], [-1], False, [0], _EMPTY),
    Row("empty-beside-a-number", ALL, [0, 3], [7, -1], False, [7, 0], _EMPTY),
    Row("empty-beside-a-large-number", ALL, [0], [LARGEST, -1], False, [LARGEST, 0], _EMPTY),
    Row("literal-zero", ALL, [0, 3], [0, -1], False, _zero(1), _ZERO),
    Row("literal-zero-of-elements", ALL, [2, 3], [0, -1], False, _zero(1), _ZERO),
    Row("before-a-literal-zero", ALL, [0], [-1, 0], False, _zero(0), _ZERO),
    Row("volume-above-2-31", ALL, [2**16, 2**16], [-1], False, [2**32], _EXACT),
    Row("volume-above-2-53", ALL, [2**53 + 1, 3], [3, -1], False, [3, 2**53 + 1], _EXACT),
    Row("remainder-above-2-53", ALL, [2**53 + 1], [2**53, -1], False, Refused("NOT_DIVISIBLE", 1), _EXACT),
    Row("volume-of-2-64", ALL, [2**32, 2**32], [2**32, -1], False, [2**32, 2**32], _EXACT),
    Row("divisor-above-2-63", ALL, [2**40, 2**40, 3], [2**40, 2**40, -1], False, [2**40, 2**40, 3], _EXACT),
    Row("divisor-of-2-64", ALL, [6], [2**32, 2**32, -1], False, Refused("NOT_DIVISIBLE", 2), _EXACT),
    Row("largest", ALL, [LARGEST], [-1], False, [LARGEST], _DIM),
    Row("overflow-of-2-63", ALL, [2**62, 2], [-1, 1], False, Refused("DIM_OVERFLOW", 0), _DIM),
    Row("overflow", ALL, [LARGEST, 2], [-1], False, Refused("DIM_OVERFLOW", 0), _DIM),
    Row("overflow-of-2-64", ALL, [2**32, 2**32], [-1], False, Refused("DIM_OVERFLOW", 0), _DIM),
)

COPIES = (
    Row("copied-zero", (RESHAPE,), [4, 0, 2], [-1, 0], True, [8, 0], _CANCEL),
    Row("copied-zero-of-a-graph", GRAPH, [4, 0, 2], [-1, 0], True, _zero(0), _DIVIDE),
    Row("copied-zero-first", (RESHAPE,), [0, 3], [0, -1], True, [0, 3], _CANCEL),
    Row("copied-zero-first-of-a-graph", GRAPH, [0, 3], [0, -1], True, _zero(1), _DIVIDE),
    Row("two-copied-zeros", (RESHAPE,), [0, 0, 6], [0, 0, -1], True, [0, 0, 6], _CANCEL),
    Row("two-copied-zeros-of-a-graph", GRAPH, [0, 0, 6], [0, 0, -1], True, _zero(2), _DIVIDE),
    Row("copied-zero-and-a-remainder", (RESHAPE,), [0, 3], [0, -1, 2], True, Refused("NOT_DIVISIBLE", 1), _CANCEL),
    Row("all-copied-but-the-minus-one", (RESHAPE,), [0, 2], [0, 0, -1], True, [0, 2, 1], _CANCEL),
    Row("zero-not-copied", (RESHAPE,), [2, 0, 3], [0, -1], True, [2, 0], _CANCEL),
    Row("zero-not-copied-of-a-graph", GRAPH, [2, 0, 3], [0, -1], True, [2, 0], _KEEP),
    Row("literal-beside-a-copied-zero", (RESHAPE,), [0, 6], [0, -1, 3], True, [0, 2, 3], _CANCEL),
    Row("copies-that-are-not-zero", ALL, [4, 3, 2], [0, 2, -1], True, [4, 2, 3], _EITHER),
)

VOLUME = (
    Row("same", ALL, [2, 3], [2, 3], False, [2, 3], _VOLUME),
    Row("other-dims", ALL, [2, 6], [3, 4], False, [3, 4], _VOLUME),
    Row("more-elements", ALL, [2, 3], [7], False, _MISMATCH, _VOLUME),
    Row("fewer-elements", ALL, [2, 3], [5], False, _MISMATCH, _VOLUME),
    Row("a-multiple", ALL, [2, 3], [2, 6], False, _MISMATCH, _VOLUME),
    Row("copies-and-more", ALL, [2, 3], [0, 2], True, _MISMATCH, _VOLUME),
    Row("copies-and-ones", ALL, [2, 3], [0, 0, 1], True, [2, 3, 1], _VOLUME),
    Row("to-a-scalar", ALL, [1, 1], [], False, [], _SCALAR),
    Row("scalar-to-a-scalar", ALL, [], [], True, [], _SCALAR),
    Row("scalar-to-one", ALL, [], [1, 1], False, [1, 1], _SCALAR),
    Row("elements-to-a-scalar", ALL, [2], [], False, _MISMATCH, _SCALAR),
    Row("empty-to-a-scalar", ALL, [0], [], False, _MISMATCH, _SCALAR),
    Row("scalar-to-empty", ALL, [], [0], False, _MISMATCH, _SCALAR),
    Row("empty-to-elements", ALL, [0, 3], [3], False, _MISMATCH, _EMPTY),
    Row("empty-to-empty", ALL, [0, 3], [5, 0, 7], False, [5, 0, 7], _EMPTY),
    Row("empty-to-huge", ALL, [0], [2**62, 4, 0], False, [2**62, 4, 0], _EMPTY),
    Row("huge", ALL, [2**62, 4], [4, 2**62], False, [4, 2**62], _EXACT),
    Row("huge-and-wrapped", ALL, [2**32, 2**32], [2**33, 2**33], False, _MISMATCH, _EXACT),
    Row("empty-and-wrapped", ALL, [0], [2**32, 2**32], False, _MISMATCH, _EXACT),
    Row("huge-by-one", ALL, [2**53 + 1], [2**53], False, _MISMATCH, _EXACT),
)

EXPECTED = (
    Row("same", ALL, [2, 3], [-1], False, [6], _EXPECTED, [6]),
    Row("unknown", ALL, [2, 3], [-1, 2], False, [3, 2], _EXPECTED, [None, 2]),
    Row("interval", ALL, [2, 3], [-1], False, [6], _EXPECTED, [(6, 8)]),
    Row("name", ALL, [2, 2], [-1, 2], False, [2, 2], _EXPECTED, ["N", "N"]),
    Row(
        "other-dim",
        ALL,
        [2, 3],
        [-1],
        False,
        Refused("EXPECTED_SHAPE_MISMATCH", field="expected_shape.dims[0]"),
        _EXPECTED,
        [5],
    ),
    Row("other-rank", ALL, [2, 3], [-1], False, _UNEXPECTED, _EXPECTED, [6, 1]),
    Row(
        "below",
        ALL,
        [2, 3],
        [-1],
        False,
        Refused("EXPECTED_SHAPE_MISMATCH", field="expected_shape.dims[0]"),
        _EXPECTED,
        [(7, None)],
    ),
    Row(
        "above",
        ALL,
        [2, 3],
        [-1],
        False,
        Refused("EXPECTED_SHAPE_MISMATCH", field="expected_shape.dims[0]"),
        _EXPECTED,
        [(0, 5)],
    ),
    Row(
        "two-of-one-name",
        ALL,
        [2, 3],
        [2, 3],
        False,
        Refused("EXPECTED_SHAPE_MISMATCH", field="expected_shape.dims[1]"),
        _EXPECTED,
        ["N", "N"],
    ),
)
