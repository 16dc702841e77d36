"""Shapes, questions and answers as bytes, for batches: most have one plain form, whose few pieces come again and again.

What is not of that form is left to the generated classes, which give the same for everything that is.

What is kept is kept by bytes or text, whose hashes are keyed. Those of integers and of tuples are not: a caller who
chose dims of one hash would make each look-up as slow as all that is kept.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import cast

from tensor_reshape.rules.dims import ANY, AnyDim, check_partial_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import decode_dims, encode_dim
from tensor_reshape.wire.fields import encode_length
from tensor_reshape.wire.inference import OPERATION_NUMBERS, OPERATIONS
from tensor_reshape.wire.messages import parse
from tensor_reshape.wire.tensors import encode_data_type

_KEPT = 16384
_KEPT_BYTES = 64  # of a dim that is kept
_SMALL = 1024
_SHORT = 128  # lengths below take one byte
_LENGTHS = [encode_length(length) for length in range(_SHORT)]

_DIMS: dict[bytes, AnyDim] = {}  # by the bytes of their messages; whatever several threads do to it, it stays right
_ENCODED: dict[str, bytes] = {}  # by what `_write` gives
_MISSING = object()

# The tags of fields, in the order in which the generated classes write them.
_QUESTION, _ANSWER, _SHAPE_OF_ANSWER, _DIM = b"\x0a", b"\x0a", b"\x0a", b"\x0a"
_DATA, _SHAPE_OF_DATA, _TARGET = b"\x1a", b"\x12", b"\x22"
_DIM_TAG = _DIM[0]
_LEAST_ANSWER_BYTES = 4  # two fields within each other, a tag and a length each
_HEAD_BYTES = 4  # operation and special_zero, a tag and a byte each


def frame(tag: bytes, content: bytes) -> bytes:
    """Returns a field of bytes."""
    length = len(content)
    return b"".join((tag, _LENGTHS[length] if length < _SHORT else encode_length(length), content))


def encode_dims(dims: Iterable[AnyDim]) -> bytes:
    """Returns the message Shape."""
    return b"".join([_INTEGERS[dim] if type(dim) is int and 0 <= dim < _SMALL else _encode_other(dim) for dim in dims])


def encode_plain_item(
    operation: Operation, data: bytes | None, target: bytes | None, *, special_zero: bool, data_type: DataType | None
) -> bytes:
    """Returns an item of a batch that asks for a shape and nothing else.

    Args:
        operation: whose rules answer.
        data: the message of the data's shape; None: its rank is unknown.
        target: the message of the target; None: nothing is known of it.
        special_zero: whether a 0 copies.
        data_type: of the data, where it is to be checked.
    """
    head, spec = _encode_head(operation, special_zero, data_type)
    question = head + frame(_DATA, spec if data is None else spec + frame(_SHAPE_OF_DATA, data))
    return frame(_QUESTION, question if target is None else question + frame(_TARGET, target))


def read_plain_item(item: bytes) -> ShapeRequest | None:
    """Reads an item that `encode_plain_item` gives where both shapes are short; None for any other form."""
    if len(item) < _HEAD_BYTES + 8 or item[:1] != _QUESTION or item[1] >= _SHORT or len(item) != item[1] + 2:
        return None
    operation = OPERATIONS.get(item[3])
    if item[2] != 0x08 or item[4] != 0x10 or item[5] > 1 or item[6:7] != _DATA or operation is None:  # noqa: PLR2004 - tags
        return None
    end = 8 + item[7]
    if item[8:9] != _SHAPE_OF_DATA or end + 1 >= len(item) or item[9] != item[7] - 2:
        return None
    if item[end : end + 1] != _TARGET or item[end + 1] != len(item) - end - 2:
        return None
    data, target = _decode_shape(item[10:end], "data.dims"), _decode_shape(item[end + 2 :], "shape")
    return ShapeRequest(Question(operation, data, target, item[5] == 1))


def encode_plain_answer(answer: ShapeAnswer) -> bytes | None:
    """Returns the result of an item whose answer is a shape and nothing else; None for any other."""
    dims, equalities, origins, view = answer
    if dims is None or equalities or origins or view is not None:
        return None
    return frame(_ANSWER, frame(_SHAPE_OF_ANSWER, encode_dims(dims)))


def read_plain_answer(result: bytes) -> ShapeAnswer | None:
    """Reads what `encode_plain_answer` gives where the shape is short; None for any other form."""
    if (
        len(result) < _LEAST_ANSWER_BYTES
        or result[:1] != _ANSWER
        or result[2:3] != _SHAPE_OF_ANSWER
        or result[1] >= _SHORT
    ):
        return None
    if len(result) != result[1] + 2 or result[3] != result[1] - 2:
        return None
    dims = _decode_shape(result[4:], "shape.dims")
    check_partial_dims(dims, "shape.dims")
    return ShapeAnswer(tuple(dims))


def _decode_shape(raw: bytes, path: str) -> list[AnyDim]:
    """Reads the message Shape."""
    dims, position, end = list[AnyDim](), 0, len(raw)
    while position < end:
        begin = position + 2
        if begin > end or raw[position] != _DIM_TAG or raw[position + 1] >= _SHORT:
            return _decode_whole(raw, path)
        position = begin + raw[position + 1]
        dim = _DIMS.get(raw[begin:position], _MISSING)
        if dim is _MISSING or position > end:
            return _decode_whole(raw, path)
        dims.append(cast("AnyDim", dim))
    return dims


def _decode_whole(raw: bytes, path: str) -> list[AnyDim]:
    """Does the same with the generated class, and keeps the short dims for the next time."""
    message = parse(tensor_pb2.Shape, raw)
    dims = decode_dims(message.dims, path)
    if len(_DIMS) >= _KEPT:
        _DIMS.clear()
    for source, dim in zip(message.dims, dims, strict=True):
        content = source.SerializeToString()
        if len(content) <= _KEPT_BYTES:
            _DIMS[content] = dim
    return dims


def _encode_other(dim: AnyDim) -> bytes:
    text = _write(dim)
    encoded = _ENCODED.get(text)
    if encoded is None:
        encoded = _encode(dim)
        if len(encoded) <= _KEPT_BYTES:
            if len(_ENCODED) >= _KEPT:
                _ENCODED.clear()
            _ENCODED[text] = encoded
    return encoded


def _write(dim: AnyDim) -> str:
    """Returns the dim as a text that no other dim has: a name may hold anything, so it is last, or has a length."""
    if dim is None or isinstance(dim, int):
        return str(dim)
    bounds, expression = dim
    if expression is None:
        return f"{bounds[0]}..{bounds[1]}"
    coefficient, factors, divisor, divisors = expression
    if len(factors) == 1 and coefficient == divisor == 1 and not divisors and factors[0][1] == bounds:
        return f"{bounds[0]}..{bounds[1]} {factors[0][0]}"
    pieces = [f"{bounds[0]}..{bounds[1]},{coefficient}/{divisor},{len(factors)}"]
    for name, own in (*factors, *divisors) if divisors else factors:
        pieces.append(f"{len(name)}:{name}" if own is ANY else f"{len(name)}:{name}{own[0]}..{own[1]}")
    return ",".join(pieces)


def _encode(dim: AnyDim) -> bytes:
    return frame(_DIM, encode_dim(dim).SerializeToString())


_INTEGERS = [_encode(dim) for dim in range(_SMALL)]


@lru_cache(_KEPT)
def _encode_head(operation: Operation, special_zero: bool, data_type: DataType | None) -> tuple[bytes, bytes]:  # noqa: FBT001 - a key
    """Returns what stands before the data in a question, and before the shape in the data."""
    question = reshape_pb2.InferShapeRequest(operation=OPERATION_NUMBERS[operation], special_zero=special_zero)
    spec = tensor_pb2.TensorSpec()
    if data_type is not None:
        spec.data_type = encode_data_type(data_type)
    return question.SerializeToString(), spec.SerializeToString()
