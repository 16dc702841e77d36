"""Items and results of batches as bytes, for the one compact form that most of them have.

A batch holds thousands of questions that ask for a shape and nothing else, made of few dims that come again and again.
The generated classes would make and throw away some twenty objects for each: this module joins and cuts bytes instead.

Laws:

- What is written here is byte for byte what the generated classes write.
- What is read here is of exactly one form, all of whose lengths take one byte; anything else is None, and is left to
  the generated classes, which read the same from whatever is of that form.
- Dims are cached by their bytes or by a text, as `runtime.caches` asks for; an entry is a pure function of its key.
"""

from collections.abc import Iterable
from functools import lru_cache

from tensor_reshape.rules.dims import ANY, AnyDim, check_partial_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import decode_dims, encode_dim
from tensor_reshape.wire.fields import SHORT_BYTES, encode_field, parse_message
from tensor_reshape.wire.methods import OPERATION_METHODS, OPERATIONS_BY_NUMBER
from tensor_reshape.wire.tensors import encode_data_type

_CACHED = 16384  # entries of a cache
_CACHED_BYTES = 64  # of a dim that is cached: so a cache stays within some ten megabytes whatever is asked
_SMALL = 1024  # integers below are encoded beforehand: most dims of models are

_DIMS: RecentCache[bytes, AnyDim] = RecentCache(_CACHED, _CACHED_BYTES)  # what a message Dim says, by its bytes
_ENCODED: RecentCache[str, bytes] = RecentCache(_CACHED, _CACHED_BYTES)  # the field of a dim, by `_identify_dim`

# The tags of fields, in the order in which the generated classes write them.
_QUESTION, _ANSWER, _SHAPE_OF_ANSWER, _DIM = b"\x0a", b"\x0a", b"\x0a", b"\x0a"
_DATA, _SHAPE_OF_DATA, _TARGET = b"\x1a", b"\x12", b"\x22"
_DIM_TAG = _DIM[0]
_LEAST_ANSWER_BYTES = 4  # two fields within each other, a tag and a length each
_PREFIX_BYTES = 4  # operation and special_zero, a tag and a byte each


def encode_dims(dims: Iterable[AnyDim]) -> bytes:
    """Returns the message Shape."""
    return b"".join([_INTEGERS[dim] if type(dim) is int and 0 <= dim < _SMALL else _encode_other(dim) for dim in dims])


def encode_compact_item(
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
    prefix, spec = _encode_prefix(operation, special_zero, data_type)
    question = prefix + encode_field(_DATA, spec if data is None else spec + encode_field(_SHAPE_OF_DATA, data))
    return encode_field(_QUESTION, question if target is None else question + encode_field(_TARGET, target))


def read_compact_item(item: bytes) -> ShapeRequest | None:
    """Reads an item that `encode_compact_item` gives where both shapes are short; None for any other form.

    Each tag is compared at the only place where it can stand: the lengths say where that is, so one that does not add
    up to the whole is another form.
    """
    if len(item) < _PREFIX_BYTES + 8 or item[:1] != _QUESTION or item[1] >= SHORT_BYTES or len(item) != item[1] + 2:
        return None
    operation = OPERATIONS_BY_NUMBER.get(item[3])
    if item[2] != 0x08 or item[4] != 0x10 or item[5] > 1 or item[6:7] != _DATA or operation is None:  # noqa: PLR2004 - tags
        return None
    end = 8 + item[7]
    if item[8:9] != _SHAPE_OF_DATA or end + 1 >= len(item) or item[9] != item[7] - 2:
        return None
    if item[end : end + 1] != _TARGET or item[end + 1] != len(item) - end - 2:
        return None
    data, target = _decode_shape(item[10:end], "data.dims"), _decode_shape(item[end + 2 :], "shape")
    return ShapeRequest(Question(operation, data, target, item[5] == 1))


def encode_compact_answer(answer: ShapeAnswer) -> bytes | None:
    """Returns the result of an item whose answer is a shape and nothing else; None for any other."""
    dims, equalities, origins, view = answer
    if dims is None or equalities or origins or view is not None:
        return None
    return encode_field(_ANSWER, encode_field(_SHAPE_OF_ANSWER, encode_dims(dims)))


def read_compact_answer(result: bytes) -> ShapeAnswer | None:
    """Reads what `encode_compact_answer` gives where the shape is short; None for any other form."""
    if (
        len(result) < _LEAST_ANSWER_BYTES
        or result[:1] != _ANSWER
        or result[2:3] != _SHAPE_OF_ANSWER
        or result[1] >= SHORT_BYTES
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
        if begin > end or raw[position] != _DIM_TAG or raw[position + 1] >= SHORT_BYTES:
            return _decode_whole(raw, path)
        position = begin + raw[position + 1]
        content = raw[begin:position]
        dim = _DIMS[content]
        if (dim is None and content) or position > end:  # a dim of which nothing is known has no content
            return _decode_whole(raw, path)
        dims.append(dim)
    return dims


def _decode_whole(raw: bytes, path: str) -> list[AnyDim]:
    """Does the same with the generated class, and caches the short dims for the next time."""
    message = parse_message(tensor_pb2.Shape, raw)
    dims = decode_dims(message.dims, path)
    for source, dim in zip(message.dims, dims, strict=True):
        content = source.SerializeToString()
        _DIMS.keep(content, dim, len(content))
    return dims


def _encode_other(dim: AnyDim) -> bytes:
    text = _identify_dim(dim)
    encoded = _ENCODED[text]
    if encoded is None:
        encoded = _encode(dim)
        _ENCODED.keep(text, encoded, len(encoded))
    return encoded


def _identify_dim(dim: AnyDim) -> str:
    """Writes the dim as a text that no other dim has: a name may hold anything, so it is last, or has a length."""
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
    return encode_field(_DIM, encode_dim(dim).SerializeToString())


# Here, since `_encode` must exist.
_INTEGERS = [_encode(dim) for dim in range(_SMALL)]


# Not by bytes or text, but nothing that a caller chooses freely: there are about a hundred keys.
@lru_cache(None)
def _encode_prefix(operation: Operation, special_zero: bool, data_type: DataType | None) -> tuple[bytes, bytes]:  # noqa: FBT001 - a key
    """Returns what stands before the data in a question, and before the shape in the data."""
    question = reshape_pb2.InferShapeRequest(operation=OPERATION_METHODS[operation].number, special_zero=special_zero)
    spec = tensor_pb2.TensorSpec()
    if data_type is not None:
        spec.data_type = encode_data_type(data_type)
    return question.SerializeToString(), spec.SerializeToString()
