"""The cases of the core of which refusal comes first, and of dims that are none."""

from verification.kit.rows import ALL, GRAPH, Refused, Row

_ORDER = "Rules are checked in their order, and the first that is broken is told (this contract)."
_LEFT = "Items are read from left to right: the first that breaks a rule is to blame (this contract)."
_DIM = "A dim lies from 0 to 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."
_ITEM = "An item lies from -1 to 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."
_INTERVAL = "An interval does not end below its beginning (this contract)."
_CONFLICT = "What is said of one name in all places leaves a number (this contract)."
_ZERO = "A literal 0 beside a -1 is told before the volume is looked at (this contract)."

_MISSING = Refused("SPECIAL_ZERO_MISSING", field="special_zero")
_RANK = Refused("RANK_UNSUPPORTED", field="data.dims")
_VOLUME = Refused("VOLUME_MISMATCH", field="shape")


def _dim(index: int) -> Refused:
    return Refused("DIM_OUT_OF_RANGE", field=f"data.dims[{index}]")


ERRORS = (
    Row("special-zero-before-rank", GRAPH, [1] * 13, [1], None, _MISSING, _ORDER),
    Row("special-zero-before-items", ALL, [4], [-2], None, _MISSING, _ORDER),
    Row("rank-before-items", GRAPH, [1] * 13, [-2], False, _RANK, _ORDER),
    Row("dim-before-items", ALL, [-1], [-2], False, _dim(0), _ORDER),
    Row("first-dim", ALL, [2, -1, -3], [6], False, _dim(1), _LEFT),
    Row("item-before-division", ALL, [5], [2, -1, -2], False, Refused("INVALID_TARGET_VALUE", 2), _ORDER),
    Row("item-before-volume", ALL, [5], [2, -2], False, Refused("INVALID_TARGET_VALUE", 1), _ORDER),
    Row("copy-before-volume", ALL, [5], [2, 0], True, Refused("ZERO_INDEX_OUT_OF_RANGE", 1), _ORDER),
    Row("zero-before-division", ALL, [5], [2, 0, -1], False, Refused("MINUS_ONE_WITH_ZERO_VOLUME", 2), _ZERO),
    Row("volume-before-expected", ALL, [5], [4], False, _VOLUME, _ORDER, [7]),
    Row("division-before-expected", ALL, [5], [2, -1], False, Refused("NOT_DIVISIBLE", 1), _ORDER, [7]),
    Row("bounds-below-zero", ALL, [(-1, 2)], [-1], False, _dim(0), _DIM),
    Row("bounds-above-2-63", ALL, [(0, 2**63)], [-1], False, _dim(0), _DIM),
    Row("unknown-beside-a-negative", ALL, [None, -1], [-1], False, _dim(1), _DIM),
    Row("empty-interval", ALL, [(4, 2)], [-1], False, Refused("INTERVAL_EMPTY", field="data.dims[0]"), _INTERVAL),
    Row("empty-interval-in-a-target", ALL, [2], [(4, 2)], False, Refused("INTERVAL_EMPTY", 0), _INTERVAL),
    Row("item-above-2-63", ALL, [0], [2**63, 0], False, Refused("INVALID_TARGET_VALUE", 0), _ITEM),
    Row("item-of-2-64", ALL, [6], [2**64 - 1], False, Refused("INVALID_TARGET_VALUE", 0), _ITEM),
    Row("target-name-conflict", ALL, ["N:2..3"], ["N:4..5"], False, Refused("SYMBOL_CONFLICT", 0), _CONFLICT),
    Row(
        "conflict-before-items",
        ALL,
        ["N:2..3", "N:4..5"],
        [-2],
        False,
        Refused("SYMBOL_CONFLICT", field="data.dims[1]"),
        _ORDER,
    ),
    Row("items-before-literal-zero", ALL, [None], [-1, 0, -2], False, Refused("INVALID_TARGET_VALUE", 2), _ORDER),
)
