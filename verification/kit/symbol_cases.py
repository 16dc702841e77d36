"""The cases of the core whose dims have names: written by hand."""

from verification.kit.rows import ALL, GRAPH, ONLY_RESHAPE, Refused, Row

_COPY = "A copied dim keeps its name (OpenVINO: its symbol)."
_CANCEL = "Equal names on both sides cancel as equal numbers do (this contract)."
_PRODUCT = "A product of names is one dim, and is called what it is (this contract)."
_DIVIDED = "A division leaves no remainder, so a name may be divided (this contract)."
_LENGTH = "A name in a target is a length that somebody counts on (this contract)."
_ONE = "One name is one number wherever it stands (this contract)."
_NOT_ZERO = (
    "The graph operations refuse a copied 0 beside a -1, so where it is accepted the copy is not 0 (oneDNN Graph)."
)
_BESIDE = (
    "A -1 beside a product of 0 is refused, so where it is accepted the others are not 0 (oneDNN Graph, OpenVINO)."
)
_BOUNDS = "Bounds of a name are those of each dim that has it (this contract)."
_ZERO = "An equation that only 0 solves makes the dim 0 (this contract)."
_NONE = "An error is given where no instance is accepted (this contract: sound)."
_WHOLE_NAME = "What exporters compute is one name as a whole (this contract)."

_MISMATCH = Refused("VOLUME_MISMATCH", field="shape")

SYMBOLS = (
    Row("copied", ALL, ["N", 3], [0, 3], True, ["N", 3], _COPY),
    Row("copied-two", ALL, ["N", "S", 768], [0, 0, 12, 64], True, ["N", "S", 12, 64], _COPY),
    Row("copied-beside", GRAPH, ["N", 4, 5], [0, -1], True, ["N:1..", 20], _NOT_ZERO),
    Row("copied-beside-of-reshape", ONLY_RESHAPE, ["N", 4, 5], [0, -1], True, ["N", 20], _CANCEL),
    Row("copied-of-two", ONLY_RESHAPE, ["N", "C", 4], [0, -1], True, ["N", "4*C"], _CANCEL),
    Row("inferred", ALL, ["N", 4, 5], [-1, 20], False, ["N", 20], _CANCEL),
    Row("inferred-at-another-index", ALL, ["N", 4, 5], [20, -1], False, [20, "N"], _CANCEL),
    Row("multiplied", ALL, ["N", 3], [-1], False, ["3*N"], _PRODUCT),
    Row("multiplied-names", ALL, ["N", "S", 768], [-1, 768], False, ["N*S", 768], _PRODUCT),
    Row("squared", ALL, ["N", "N"], [-1], False, ["N^2"], _PRODUCT),
    Row("divided", ALL, ["N", 4], [-1, 8], False, ["N/2", 8], _DIVIDED),
    Row("factor", ALL, ["4*C"], [4, -1], False, [4, "C"], _CANCEL),
    Row("part-of-a-factor", ALL, ["4*C"], [2, -1], False, [2, "2*C"], _CANCEL),
    Row("length", ALL, ["N", 6], ["N", 2, 3], False, ["N", 2, 3], _LENGTH),
    Row("length-of-another-name", ALL, ["N", 4], ["M", 2], False, ["M", 2], _LENGTH),
    Row("swapped", ALL, ["N", "C"], ["C", "N"], False, ["C", "N"], _ONE),
    Row("beside-a-length", ALL, ["N", "C"], ["N", -1], False, ["N:1..", "C"], _BESIDE),
    Row("beside-an-inner-length", ALL, ["N", "C"], [-1, "C"], False, ["N", "C:1.."], _BESIDE),
    Row("crosswise", ALL, ["A", "B"], ["B", -1], False, ["B:1..", "A"], _BESIDE),
    Row("twice", GRAPH, ["N", "N"], [0, -1], True, ["N:1..", "N:1.."], _ONE),
    Row("bounds-multiplied", ALL, ["N:1..8", 4], [-1], False, ["4*N:4..32"], _BOUNDS),
    Row("bounds-of-a-product", ALL, ["N:1..8", "S:1..512", 768], [-1, 768], False, ["N*S:1..4096", 768], _BOUNDS),
    Row("bounds-divided", ALL, ["N:4..9"], [2, -1], False, [2, "N/2:2..4"], _BOUNDS),
    Row("bounds-met", ALL, ["N:2..4", "N:3..8"], [0, 0], True, ["N:3..4", "N:3..4"], _ONE),
    Row("bounds-of-two-names", ALL, ["N:2..8"], ["M:5..20"], False, ["M:5..8"], _ONE),
    Row("one-value", ALL, ["N:3..3", 2], [-1], False, [6], _ONE),
    Row("only-zero", ALL, ["N", 6], ["N", 2, 2], False, [0, 2, 2], _ZERO),
    Row("only-zero-that-cannot-be", ALL, ["N:1..", 6], ["N", 2, 2], False, _MISMATCH, _NONE),
    Row("one-beside-a-name", ALL, ["N:1.."], ["N", "M"], False, ["N:1..", 1], _CANCEL),
    Row("bounds-apart", ALL, ["N:2..4"], ["M:5..20"], False, _MISMATCH, _NONE),
    Row("whole-name", ALL, ["seq + past", 8], [0, 2, 4], True, ["seq + past", 2, 4], _WHOLE_NAME),
    Row("whole-name-multiplied", ALL, ["seq + past", 8], [-1, 4], False, ["2*(seq + past)", 4], _WHOLE_NAME),
    Row("unknown-beside-a-copy", ONLY_RESHAPE, ["N", None], [0, -1], True, ["N", None], _CANCEL),
    Row("conflict", ALL, ["N:2..3", "N:4..8"], [0, 0], True, Refused("SYMBOL_CONFLICT", field="data.dims[1]"), _ONE),
)
