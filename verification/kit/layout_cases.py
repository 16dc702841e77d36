"""The cases of the core whose data has strides: whether the output can be a view, and what an execution gives."""

import struct
from collections.abc import Sequence

from tensor_reshape.rules.records import Json
from verification.kit.rows import ALL, Refused, Row

_RUN = "Dims that lie evenly behind one another are one run; an output dim within a run is a view (this contract)."
_GAP = "An output dim that crosses a gap has elements at uneven distances, so there is no view (this contract)."
_ONE = "Nobody steps along a dim of 1, whatever its stride is (this contract)."
_EMPTY = "Without elements any strides lead to all of them (this contract)."
_BROADCAST = "A stride of 0 repeats one element; it is a run with others of 0 alone (this contract)."
_ALL = "What is said of a view holds for every instance, so where they differ nothing is said (this contract)."
_EACH = "Each dim has a stride (this contract)."
_NEGATIVE = "A stride is not negative (this contract)."
_READ = (
    "The output is the row-major reading of the logical tensor, whatever its layout (oneDNN Graph: 341 of 341 runs)."
)
_OVERLAP = "Two elements at one place are refused, a broadcast aside (this contract)."
_SPAN = "A strided buffer ends with its last element: 1 + the sum of (dim - 1) * stride elements (this contract)."

_IMPOSSIBLE: Json = {"view": {"possibility": "impossible", "strides": None}}
_UNDECIDED: Json = {"view": {"possibility": "unknown", "strides": None}}


def write_floats(elements: Sequence[int]) -> str:
    """Returns elements as f32, in hexadecimal."""
    return struct.pack(f"<{len(elements)}f", *elements).hex()


def _strides(*strides: int) -> Json:
    return {"strides": list(strides)}


def _view(*strides: int) -> Json:
    return {"view": {"possibility": "possible", "strides": list(strides)}}


def _buffer(places: int, strides: Sequence[int] | None = None) -> Json:
    """Returns the rest of a question that is executed: each place of its buffer holds its own index."""
    layout: Json = {} if strides is None else {"strides": list(strides)}
    return {**layout, "data_type": "f32", "bytes": write_floats(range(places))}


def _elements(*places: int) -> Json:
    return {"bytes": write_floats(places)}


def _blame(reason: str, field: str) -> Refused:
    return Refused(reason, field=field)


LAYOUTS = (
    Row("dense", ALL, [2, 3], [6], False, [6], _RUN, None, _strides(3, 1), _view(1)),
    Row("dense-split", ALL, [6], [2, 3], False, [2, 3], _RUN, None, _strides(1), _view(3, 1)),
    Row("transposed", ALL, [2, 3], [6], False, [6], _GAP, None, _strides(1, 2), _IMPOSSIBLE),
    Row("transposed-kept", ALL, [2, 3], [0, 0], True, [2, 3], _RUN, None, _strides(1, 2), _view(1, 2)),
    Row("gap", ALL, [2, 3], [6], False, [6], _GAP, None, _strides(4, 1), _IMPOSSIBLE),
    Row("gap-outside", ALL, [2, 4], [2, 2, 2], False, [2, 2, 2], _RUN, None, _strides(8, 1), _view(8, 2, 1)),
    Row("inner-run", ALL, [2, 3, 4], [2, -1], False, [2, 12], _RUN, None, _strides(24, 4, 1), _view(24, 1)),
    Row("outer-dims-apart", ALL, [2, 3, 4], [-1, 4], False, [6, 4], _GAP, None, _strides(24, 4, 1), _IMPOSSIBLE),
    Row("every-second", ALL, [6], [2, 3], False, [2, 3], _RUN, None, _strides(2), _view(6, 2)),
    Row("dim-of-one", ALL, [1, 6], [6], False, [6], _ONE, None, _strides(100, 1), _view(1)),
    Row("broadcast", ALL, [2, 3], [6], False, [6], _BROADCAST, None, _strides(0, 1), _IMPOSSIBLE),
    Row("broadcast-of-one", ALL, [2, 3], [6], False, [6], _BROADCAST, None, _strides(0, 0), _view(0)),
    Row("empty", ALL, [0, 3], [3, -1], False, [3, 0], _EMPTY, None, _strides(5, 7), _view(0, 0)),
    Row("name", ALL, ["N:1..", 3, 4], [0, -1], True, ["N:1..", 12], _RUN, None, _strides(12, 4, 1), _view(12, 1)),
    Row("name-that-may-be-one", ALL, ["N", 4], [-1], False, ["4*N"], _ALL, None, _strides(8, 1), _UNDECIDED),
    Row("name-above-one", ALL, ["N:2..", 4], [-1], False, ["4*N:8.."], _GAP, None, _strides(8, 1), _IMPOSSIBLE),
    Row("any", ALL, [None, 4], [-1], False, [None], _RUN, None, _strides(4, 1), _view(1)),
    Row("too-few", ALL, [2, 3], [6], False, _blame("STRIDES_RANK_MISMATCH", "data.strides"), _EACH, None, _strides(1)),
    Row(
        "negative",
        ALL,
        [2, 3],
        [6],
        False,
        _blame("STRIDE_NEGATIVE", "data.strides[0]"),
        _NEGATIVE,
        None,
        _strides(-3, 1),
    ),
    Row("run-dense", ALL, [2, 3], [3, 2], False, [3, 2], _READ, None, _buffer(6), _elements(0, 1, 2, 3, 4, 5)),
    Row("run-scalar", ALL, [], [1, 1], False, [1, 1], _READ, None, _buffer(1), _elements(0)),
    Row("run-empty", ALL, [0, 3], [3, 0], False, [3, 0], _READ, None, _buffer(0), _elements()),
    Row("run-transposed", ALL, [2, 3], [6], False, [6], _READ, None, _buffer(6, [1, 2]), _elements(0, 2, 4, 1, 3, 5)),
    Row("run-copied", ALL, [2, 3], [0, 0], True, [2, 3], _READ, None, _buffer(6, [1, 2]), _elements(0, 2, 4, 1, 3, 5)),
    Row("run-gap", ALL, [2, 2], [4], False, [4], _READ, None, _buffer(5, [3, 1]), _elements(0, 1, 3, 4)),
    Row("run-broadcast", ALL, [2, 2], [4], False, [4], _READ, None, _buffer(2, [0, 1]), _elements(0, 1, 0, 1)),
    Row(
        "run-overlap",
        ALL,
        [2, 3],
        [6],
        False,
        _blame("STRIDES_OVERLAP", "data.strides"),
        _OVERLAP,
        None,
        _buffer(4, [1, 1]),
    ),
    Row(
        "run-longer",
        ALL,
        [2, 2],
        [4],
        False,
        _blame("DATA_SIZE_MISMATCH", "data.data"),
        _SPAN,
        None,
        _buffer(6, [3, 1]),
    ),
    Row("run-shorter", ALL, [2, 3], [6], False, _blame("DATA_SIZE_MISMATCH", "data.data"), _SPAN, None, _buffer(5)),
)
"""Executions tell no view: who executes need not know."""
