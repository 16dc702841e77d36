"""Asks oneDNN: the output of a StaticReshape whose partition is compiled, and what it executes.

- oneDNN is loaded into this process: a signal that ends it ends this program, and the one who asks can tell.
- An expected output shape is that of the output tensor for which the partition is compiled.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Dim, Json, Question, Unknown, are_known, write_answer

_ABSENT = -1
_MAX_ITEMS = 1024  # more than it takes of any list
_UNKNOWN_DIM = -(2**63)  # DNNL_GRAPH_UNKNOWN_DIM
_LEAST, _MOST = -(2**63), 2**63 - 1
_DATA_TYPES = {"f16": 1, "bf16": 2, "f32": 3, "i32": 4, "i8": 5, "u8": 6, "boolean": 8}  # dnnl_data_type_t
_UNIMPLEMENTED = b"could not compile an unsupported partition"
_ITEM_BYTES = {1: 2, 2: 2, 3: 4, 4: 4, 5: 1, 6: 1, 8: 1}
_Items = ctypes.c_int64 * _MAX_ITEMS


class Reshape(ctypes.Structure):
    """The structure of the same name in partitions.cpp."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("data_type", "special_zero")),
        *((name, ctypes.c_int32) for name in ("rank", "length", "expected_rank", "has_strides")),
        *((name, _Items) for name in ("dims", "strides", "shape", "expected")),
        ("source", ctypes.c_void_p),
        ("output_rank", ctypes.c_int32),
        *((name, _Items) for name in ("output_dims", "output_strides")),
        ("output_size", ctypes.c_uint64),
        ("output", ctypes.c_void_p),
    )


def load_library() -> Any:
    """Returns partitions.cpp, with an engine.

    Raises:
        OSError: it is not there, or oneDNN finds no processor.
    """
    folder = Path(sys.prefix) / "lib"
    # The runtime through which oneDNN runs on a processor: without it, it finds none.
    os.putenv("OCL_ICD_FILENAMES", str(folder / "libintelocl.so"))
    library = ctypes.CDLL(str(folder / "partitions.so"))
    library.open_engine.restype = library.reshape.restype = ctypes.c_char_p
    rejection = library.open_engine()
    if rejection is not None:
        raise OSError(rejection.decode())
    return library


_library = load_library()


def answer(question: Question) -> Json:
    """Returns the output's shape, and its elements where there are bytes."""
    asked = _build(question)
    if question.payload is not None and len(question.payload) != _count_bytes(asked):
        raise Unsupported("It is not told how many bytes there are.")
    source = None if question.payload is None else ctypes.create_string_buffer(question.payload)
    asked.source = None if source is None else ctypes.addressof(source)
    rejection = _library.reshape(ctypes.byref(asked))
    if rejection == _UNIMPLEMENTED:
        raise Unsupported("This processor has no such element type.")
    if rejection is not None:
        raise Rejected(rejection.decode())
    dims = list(asked.output_dims[: asked.output_rank])
    return write_answer(dims, None if source is None else _read_output(asked))


def _build(question: Question) -> Reshape:
    if question.operation != "static_reshape":
        raise Unsupported("Of the three operations it has StaticReshape alone.")
    if question.data is None or question.shape is None or not question.is_known:
        raise Unsupported("A partition is compiled for shapes that are known.")
    if question.strides is not None and len(question.strides) != len(question.data):
        raise Unsupported("It is not told how many strides there are.")
    data_type = _DATA_TYPES.get(question.data_type or "f32")
    if data_type is None:
        raise Unsupported("It has no such element type.")
    return Reshape(
        data_type=data_type,
        special_zero=_ABSENT if question.special_zero is None else question.special_zero,
        rank=len(question.data),
        length=len(question.shape),
        expected_rank=_ABSENT if question.expected is None else len(question.expected),
        has_strides=question.strides is not None,
        dims=_fill(question.data),
        strides=_fill(question.strides or ()),
        shape=_fill(question.shape),
        expected=_fill(_read_expected(question.expected or ())),
    )


def _read_expected(dims: Sequence[Dim]) -> list[int]:
    if not are_known([dim for dim in dims if dim != Unknown()]):
        raise Unsupported("Of an output's dim it takes a number, or nothing.")
    return [dim if isinstance(dim, int) else _UNKNOWN_DIM for dim in dims]


def _fill(items: Sequence[Dim]) -> ctypes.Array[ctypes.c_int64]:
    numbers = [item for item in items if isinstance(item, int)]
    if len(numbers) > _MAX_ITEMS:
        raise Unsupported("It is not asked about more than 1024 dims.")
    if any(not _LEAST <= number <= _MOST for number in numbers):
        raise Unsupported("Its integers have 64 bits.")
    return _Items(*numbers)


def _count_bytes(asked: Reshape) -> int:
    """Returns how many bytes the data takes, by its dims and strides."""
    dims, strides = asked.dims[: asked.rank], asked.strides[: asked.rank]
    spans = sum((dim - 1) * stride for dim, stride in zip(dims, strides, strict=True))
    elements: int = prod(dims) if 0 in dims or not asked.has_strides else 1 + spans
    return elements * _ITEM_BYTES[asked.data_type]


def _read_output(asked: Reshape) -> bytes:
    """Returns the elements.

    Raises:
        Unsupported: the output is not row-major, which a destination may be.
    """
    dims, strides = asked.output_dims[: asked.output_rank], asked.output_strides[: asked.output_rank]
    stride = 1
    for dim, found in zip(reversed(dims), reversed(strides), strict=True):
        if found != stride and dim > 1:
            raise Unsupported("Its output is not row-major.")
        stride *= max(dim, 1)
    return ctypes.string_at(asked.output, asked.output_size)


if __name__ == "__main__":
    run({"onednn": answer})
