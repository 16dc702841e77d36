"""The cases of the core of which something is not known, and nothing has a name: written by hand."""

from verification.kit.rows import ALL, GRAPH, ONLY_RESHAPE, Refused, Row

_ANY = "A dim of which nothing is known may be any number, 0 too; the output keeps the volume (oneDNN Graph, OpenVINO)."
_ENDS = "Each end of an interval is the output of an instance that is accepted (this contract: sound and tight)."
_WHOLE = "Only instances whose division leaves no remainder count, so an end moves to the next one (this contract)."
_NONE = "An error is given where no instance is accepted (this contract: sound)."
_LITERAL = "What breaks a rule whatever the data is, is refused whatever is not known of the data (this contract)."
_LENGTH = "An interval in a target is a length, also where it holds 0 or -1: never an instruction (this contract)."
_UNKNOWN_ITEM = (
    "An item of which nothing is known may be a length, a -1 or a copy; the volume bounds it (this contract)."
)
_RANK = "The target alone gives the rank of the output, whatever that of the data is (oneDNN Graph, OpenVINO)."
_NO_RANK = "A target of unknown length gives an output of unknown rank (oneDNN Graph, OpenVINO)."
_COPY = "A copied dim is the data's own, with all that is known of it (oneDNN Graph, OpenVINO)."
_NOT_ZERO = (
    "The graph operations refuse a copied 0 beside a -1, so where it is accepted the copy is not 0 (oneDNN Graph)."
)
_CANCEL = "Reshape-1 takes copied dims out of both sides, so the copy may be 0 (OpenVINO)."
_EMPTY = "An unknown dim may be 0, and 0 elements fit 0 elements (oneDNN Graph, OpenVINO)."
_ONE_VALUE = "An interval of one number is that number (this contract)."
_EXACT = "Bounds are exact integers (this contract); libraries wrap, saturate or round."
_EXPECTED = "What an expected output says is part of what is known (this contract)."
_DIM = "A dim lies from 0 to 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."

_MISMATCH = Refused("VOLUME_MISMATCH", field="shape")

PARTIAL = (
    Row("any", ALL, [None], [-1], False, [None], _ANY),
    Row("any-beside-a-number", ALL, [None, 3], [6, -1], False, [6, None], _ANY),
    Row("any-copied", ALL, [None, 3], [0, 3], True, [None, 3], _COPY),
    Row("any-beside-a-known-copy", ALL, [None, 1, 2], [-1, 0], True, [None, 1], _ANY),
    Row("any-to-numbers", ALL, [None, None], [2, 3], False, [2, 3], _ANY),
    Row("any-to-zero", ALL, [None], [0], False, [0], _EMPTY),
    Row("any-that-must-be-zero", ALL, [None, 3], [0, 2], True, [0, 2], _EMPTY),
    Row("any-that-cannot-be", ALL, [16, 4, None, 8], [32, 4], False, _MISMATCH, _NONE),
    Row("bounded", ALL, [(2, 4), 6], [-1, 4], False, [(3, 6), 4], _ENDS),
    Row("low-end-rounded", ALL, [(3, 10), 6], [4, -1], False, [4, (6, 15)], _WHOLE),
    Row("both-ends-rounded", ALL, [(1, 3)], [2, -1], False, [2, 1], _WHOLE),
    Row("bounded-from-zero", ALL, [(0, 3)], [2, -1], False, [2, (0, 1)], _EMPTY),
    Row("no-multiple", ALL, [(5, 7), 12], [40, -1], False, Refused("NOT_DIVISIBLE", 1), _NONE),
    Row("no-multiple-above-zero", ALL, [(1, 3)], [9, -1], False, Refused("NOT_DIVISIBLE", 1), _NONE),
    Row("product-of-intervals", ALL, [1, (1, 3), 3, (1, 6)], [0, -1, 3], True, [1, (1, 18), 3], _ENDS),
    Row("product-over-a-number", ALL, [(2, 4), 2, (2, 6), 1, 3], [-1, 12, 2], False, [(1, 6), 12, 2], _WHOLE),
    Row("copied-interval", ALL, [(2, 4), 6], [0, 2, 3], True, [(2, 4), 2, 3], _COPY),
    Row("copy-from-zero", GRAPH, [(0, 3), 4], [0, -1], True, [(1, 3), 4], _NOT_ZERO),
    Row("copy-from-zero-of-reshape", ONLY_RESHAPE, [(0, 3), 4], [0, -1], True, [(0, 3), 4], _CANCEL),
    Row("copy-of-any", GRAPH, [None, 3], [0, -1], True, [(1, None), 3], _NOT_ZERO),
    Row("copy-of-any-of-reshape", ONLY_RESHAPE, [None, 3], [0, -1], True, [None, 3], _CANCEL),
    Row("copied-zero", ONLY_RESHAPE, [0, (1, 3)], [0, -1], True, [0, (1, 3)], _CANCEL),
    Row("not-above-2-63", ALL, [(2**62, None), 2], [-1], False, Refused("DIM_OVERFLOW", 0), _DIM),
    Row("above-2-31", ALL, [(2**31, 2**32), 2], [-1], False, [(2**32, 2**33)], _EXACT),
    Row("above-2-53", ALL, [(3, 5), 2**53 + 1], [-1], False, [(3 * 2**53 + 3, 5 * 2**53 + 5)], _EXACT),
    Row("one-value", ALL, [(3, 3), 2], [-1, 3], False, [2, 3], _ONE_VALUE),
    Row("item-interval", ALL, [4, 6], [(1, 5), -1], False, [(1, 4), (6, 24)], _WHOLE),
    Row("item-from-zero", ALL, [40, 6], [(0, 3), -1], True, [(1, 3), (80, 240)], _LENGTH),
    Row("item-decided", ALL, [2, 3], [(1, 3), 2], False, [3, 2], _ENDS),
    Row("item-too-large", ALL, [2, 3], [(4, 5), 2], False, _MISMATCH, _NONE),
    Row("items-decided", ALL, [2, 3], [(1, None), 3, 2, (1, None)], False, [1, 3, 2, 1], _ENDS),
    Row("items-unbounded", ALL, [3, (7, 12)], [(1, None), 3, 2, (1, None)], False, [(1, 6), 3, 2, (1, 6)], _WHOLE),
    Row("item-unknown", ALL, [2, 3], [None], False, [6], _UNKNOWN_ITEM),
    Row("items-unknown", ALL, [2, 3], [None, None], False, [(1, 6), (1, 6)], _UNKNOWN_ITEM),
    Row("item-unknown-beside-a-number", ALL, [2, 3], [None, 2], False, [3, 2], _UNKNOWN_ITEM),
    Row("item-unknown-that-cannot-be", ALL, [2, 3], [None, 4], False, _MISMATCH, _NONE),
    Row("item-unknown-of-a-scalar", ALL, [], [None], True, [1], _UNKNOWN_ITEM),
    Row("item-unknown-of-empty", ALL, [0, 3], [None], False, [0], _UNKNOWN_ITEM),
    Row("item-unknown-of-any", ALL, [None, 6], [None, 4], False, [None, 4], _ANY),
    Row("rank-unknown", ALL, None, [-1], False, [None], _RANK),
    Row("rank-unknown-to-a-number", ALL, None, [6], False, [6], _RANK),
    Row("rank-unknown-copied", ALL, None, [0, 6], True, [None, 6], _RANK),
    Row("rank-unknown-beside-a-copy", GRAPH, None, [3, -1, 0, 2], True, [3, None, (1, None), 2], _NOT_ZERO),
    Row("rank-unknown-beside-a-copy-of-reshape", ONLY_RESHAPE, None, [3, -1, 0, 2], True, [3, None, None, 2], _CANCEL),
    Row("length-unknown", ALL, [2, 3], None, False, None, _NO_RANK),
    Row("nothing-known", ALL, None, None, True, None, _NO_RANK),
    Row("second-minus-one", ALL, None, [-1, -1], False, Refused("MULTIPLE_MINUS_ONE", 1), _LITERAL),
    Row("minus-two", ALL, None, [-2], False, Refused("INVALID_TARGET_VALUE", 0), _LITERAL),
    Row("literal-zero", ALL, [None, 5], [-1, 0], False, Refused("MINUS_ONE_WITH_ZERO_VOLUME", 0), _LITERAL),
    Row("copy-beyond", ALL, [None], [0, 0], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 1), _LITERAL),
    Row("expected", ALL, [(2, 8), None], [-1, 4], False, [6, 4], _EXPECTED, [6, None]),
    Row("expected-interval", ALL, [None], [-1], False, [(2, 5)], _EXPECTED, [(2, 5)]),
    Row("expected-rank", ALL, [2, 3], None, False, [(1, 6), (1, 6)], _EXPECTED, [None, None]),
)
