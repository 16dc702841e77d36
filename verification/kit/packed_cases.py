"""The cases of the core whose elements are below one byte, or of other types than the graph operations take."""

from tensor_reshape.rules.records import Json
from verification.kit.rows import GRAPH, ONLY_RESHAPE, Refused, Row

_SAME = "A reshape moves no element, so the bytes are the same (OpenVINO, executed)."
_GROUPS = "A tensor takes the bytes of whole groups, and rows do not begin at bytes of their own (OpenVINO, executed)."
_SPARE = "Bits behind the last element are kept (OpenVINO, executed)."
_EMPTY = "A tensor without elements has no bytes (OpenVINO, executed)."
_SIZE = "The bytes are exactly those that the data type and the dims make (this contract)."
_STRIDES = "An element that shares its byte has no address, so there are no strides (OpenVINO; this contract)."
_TYPES = "The graph operations take f32, f16 and bf16 (oneDNN Graph)."
_KEPT = "A reshape looks at no element, so any byte is kept (this contract)."


def _run(data_type: str, text: str) -> Json:
    return {"data_type": data_type, "bytes": text}


def _kept(data_type: str, text: str) -> tuple[Json, Json]:
    """Returns the rest of a question and of its answer, whose bytes are the same."""
    return _run(data_type, text), {"bytes": text}


_SHORT = Refused("DATA_SIZE_MISMATCH", field="data.data")
_TYPE = Refused("DATA_TYPE_UNSUPPORTED", field="data.data_type")
_STRIDED = Refused("STRIDES_UNSUPPORTED", field="data.strides")

PACKED = (
    Row("u4", ONLY_RESHAPE, [2, 2], [4], False, [4], _SAME, None, *_kept("u4", "2143")),
    Row("u4-odd", ONLY_RESHAPE, [5], [5, 1], False, [5, 1], _GROUPS, None, *_kept("u4", "214305")),
    Row("u4-odd-rows", ONLY_RESHAPE, [3, 3], [9], False, [9], _GROUPS, None, *_kept("u4", "2143658709")),
    Row("u4-to-odd-rows", ONLY_RESHAPE, [2, 3], [-1, 3], False, [2, 3], _GROUPS, None, *_kept("u4", "214365")),
    Row("u4-spare-bits", ONLY_RESHAPE, [1], [1, 1], False, [1, 1], _SPARE, None, *_kept("u4", "f1")),
    Row("u4-empty", ONLY_RESHAPE, [0, 3], [3, 0], False, [3, 0], _EMPTY, None, *_kept("u4", "")),
    Row("u4-scalar", ONLY_RESHAPE, [], [1], False, [1], _GROUPS, None, *_kept("u4", "07")),
    Row("u4-too-few-bytes", ONLY_RESHAPE, [5], [5], False, _SHORT, _SIZE, None, _run("u4", "2143")),
    Row("u4-a-byte-each", ONLY_RESHAPE, [2], [2], False, _SHORT, _SIZE, None, _run("u4", "0102")),
    Row(
        "u4-strided", ONLY_RESHAPE, [4], [2, 2], False, _STRIDED, _STRIDES, None, {"strides": [1], **_run("u4", "2143")}
    ),
    Row("i4", ONLY_RESHAPE, [2], [1, 2], False, [1, 2], _SAME, None, *_kept("i4", "e1")),
    Row("nf4", ONLY_RESHAPE, [2], [2, 1], False, [2, 1], _SAME, None, *_kept("nf4", "f0")),
    Row("f4e2m1", ONLY_RESHAPE, [2], [2, 1], False, [2, 1], _SAME, None, *_kept("f4e2m1", "71")),
    Row("u1", ONLY_RESHAPE, [3, 3], [9], False, [9], _GROUPS, None, *_kept("u1", "9d80")),
    Row("u2", ONLY_RESHAPE, [3, 3], [-1], False, [9], _GROUPS, None, *_kept("u2", "e4e401")),
    Row("u3", ONLY_RESHAPE, [2, 4], [8], False, [8], _SAME, None, *_kept("u3", "6c6c1e")),
    Row("u3-of-a-group", ONLY_RESHAPE, [5], [5, 1], False, [5, 1], _GROUPS, None, *_kept("u3", "6c001e")),
    Row("u6", ONLY_RESHAPE, [2, 2], [4], False, [4], _SAME, None, *_kept("u6", "123102")),
    Row("f8e8m0", ONLY_RESHAPE, [2], [1, 2], False, [1, 2], _SAME, None, *_kept("f8e8m0", "7fff")),
    Row("boolean", ONLY_RESHAPE, [3], [3, 1], False, [3, 1], _KEPT, None, *_kept("boolean", "000102")),
    Row("nan", GRAPH, [2], [2, 1], False, [2, 1], _KEPT, None, *_kept("f32", "0100c07f0100807f")),
    Row("u4-of-a-graph", GRAPH, [2], [2], False, _TYPE, _TYPES, None, {"data_type": "u4"}),
    Row("f64-of-a-graph", GRAPH, [2], [2], False, _TYPE, _TYPES, None, {"data_type": "f64"}),
    Row("bf16-of-a-graph", GRAPH, [2], [1, 2], False, [1, 2], _TYPES, None, *_kept("bf16", "803f0040")),
)
