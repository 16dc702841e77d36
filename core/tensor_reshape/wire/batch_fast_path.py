"""A fast encoder and decoder for the compact form, which most items and results of batches have.

A batch has thousands of small queries, in which the same few dims occur again and again. The generated classes would
create about twenty objects for each query. This module joins and splits bytes without creating these objects.

Invariants:

- The encoders write the same bytes as the generated classes.
- The decoders read only the form in which each length has one byte. For any other form, they return None, and the
  caller uses the generated classes.
- The caches of dims have keys of bytes or text, as `runtime.caches` requires. Each cached value depends only on its
  key.
"""

from collections.abc import Iterable
from functools import lru_cache

from google.protobuf.message import DecodeError

from tensor_reshape.rules.conditions import Condition
from tensor_reshape.rules.dims import ANY, AnyDim, check_partial_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import decode_dims, encode_dim
from tensor_reshape.wire.fields import SHORT_BYTES, encode_field, parse_message
from tensor_reshape.wire.inference import decode_condition, encode_condition
from tensor_reshape.wire.methods import OPERATION_NUMBERS, OPERATIONS_BY_NUMBER
from tensor_reshape.wire.tensors import encode_data_type

_CACHE_BYTES = 4 << 20  # the memory of a cache generation in bytes, which is enough for about ten thousand dims
_CACHED_BYTES = 64  # a longer encoded dim is not cached
_CACHED_CONDITION_BYTES = 256  # a condition is not cached if it and its key are longer than this
_SMALL = 1024  # dims below this number are encoded at import, because most dims of models are small

# this cache contains decoded dims, and its keys are their encoded bytes
_DIMS: RecentCache[bytes, AnyDim] = RecentCache(_CACHE_BYTES, _CACHED_BYTES)
# this cache contains encoded dims, and its keys are the results of `_identify_dim`
_ENCODED: RecentCache[str, bytes] = RecentCache(_CACHE_BYTES, _CACHED_BYTES)

# its keys are encoded conditions
_CONDITIONS: RecentCache[bytes, Condition] = RecentCache(_CACHE_BYTES, _CACHED_CONDITION_BYTES)
_ENCODED_CONDITIONS: RecentCache[str, bytes] = RecentCache(_CACHE_BYTES, _CACHED_CONDITION_BYTES)

# These are the tags of message fields, in the order in which protobuf's generated classes write the fields.
_QUESTION, _ANSWER, _SHAPE_OF_ANSWER, _DIM = b"\x0a", b"\x0a", b"\x0a", b"\x0a"
_DATA, _SHAPE_OF_DATA, _TARGET = b"\x1a", b"\x12", b"\x22"
_CONDITION = b"\x1a"
_COMPLETE = b"\x20\x01"  # this is the encoded field conditions_complete with the value true
_ENDS = (b"", _COMPLETE)  # these bytes follow the shape of a result
_DIM_TAG = _DIM[0]
_LEAST_ANSWER_BYTES = 4  # the shortest answer has two nested fields, and each of them has a tag and a length
_PREFIX_BYTES = 4  # each of the fields `operation` and `special_zero` has a tag and one byte


def encode_dims(dims: Iterable[AnyDim]) -> bytes:
    """Returns the encoded message Shape with these dims."""
    return b"".join([_INTEGERS[dim] if type(dim) is int and 0 <= dim < _SMALL else _encode_other(dim) for dim in dims])


def encode_compact_item(
    operation: Operation, data: bytes | None, target: bytes | None, *, special_zero: bool, data_type: DataType | None
) -> bytes:
    """Returns an encoded item of a batch that has no optional fields.

    Args:
        operation: the operation of the query.
        data: the encoded input shape; None if the rank is unknown.
        target: the encoded requested shape; None if nothing is known about it.
        special_zero: whether a 0 copies a dim.
        data_type: the type of the data. None: the type is not checked.
    """
    prefix, spec = _encode_prefix(operation, special_zero, data_type)
    question = prefix + encode_field(_DATA, spec if data is None else spec + encode_field(_SHAPE_OF_DATA, data))
    return encode_field(_QUESTION, question if target is None else question + encode_field(_TARGET, target))


def read_compact_item(item: bytes) -> ShapeRequest | None:
    """Reads an item in the form that `encode_compact_item` writes for two short shapes; None for any other form.

    The lengths determine the position of each tag. If a tag is not at its position, the item has another form.
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
    """Encodes a result that contains only a shape and conditions. Returns None for any other result."""
    dims, conditions, origins, complete, groups = answer
    if dims is None or origins or groups:
        return None
    fields = encode_field(_SHAPE_OF_ANSWER, encode_dims(dims))
    for condition in conditions:
        fields += _encode_condition(condition)
    return encode_field(_ANSWER, fields + _COMPLETE if complete else fields)


def read_compact_answer(result: bytes) -> ShapeAnswer | None:
    """Reads a result in the form that `encode_compact_answer` writes for a short result; None for any other form."""
    if (
        len(result) < _LEAST_ANSWER_BYTES
        or result[:1] != _ANSWER
        or result[2:3] != _SHAPE_OF_ANSWER
        or result[1] >= SHORT_BYTES
    ):
        return None
    end = position = 4 + result[3]
    if not end <= len(result) == result[1] + 2:
        return None
    conditions: list[Condition] = []
    while result[position : position + 1] == _CONDITION:
        begin = position + 2
        if begin > len(result) or result[position + 1] >= SHORT_BYTES:
            return None
        position = begin + result[position + 1]
        condition = _read_condition(result[begin:position])
        if condition is None:
            return None
        conditions.append(condition)
    if position > len(result) or result[position:] not in _ENDS:
        return None
    dims = _decode_shape(result[4:end], "shape.dims")
    check_partial_dims(dims, "shape.dims")
    return ShapeAnswer(tuple(dims), tuple(conditions), conditions_complete=position < len(result))


def _decode_shape(raw: bytes, path: str) -> list[AnyDim]:
    """Reads the dims of an encoded message Shape."""
    dims, position, end = list[AnyDim](), 0, len(raw)
    while position < end:
        begin = position + 2
        if begin > end or raw[position] != _DIM_TAG or raw[position + 1] >= SHORT_BYTES:
            return _decode_whole(raw, path)
        position = begin + raw[position + 1]
        content = raw[begin:position]
        dim = _DIMS[content]
        if (dim is None and content) or position > end:  # only the message of an unknown dim is empty
            return _decode_whole(raw, path)
        dims.append(dim)
    return dims


def _decode_whole(raw: bytes, path: str) -> list[AnyDim]:
    """Reads the message Shape with the generated class, and caches its short dims."""
    message = parse_message(tensor_pb2.Shape, raw)
    dims = decode_dims(message.dims, path)
    for source, dim in zip(message.dims, dims, strict=True):
        content = source.SerializeToString()
        _DIMS.keep(content, dim, len(content))
    return dims


def _encode_condition(condition: Condition) -> bytes:
    text = _identify_condition(condition)
    encoded = _ENCODED_CONDITIONS[text]
    if encoded is None:
        encoded = encode_field(_CONDITION, encode_condition(condition).SerializeToString())
        _ENCODED_CONDITIONS.keep(text, encoded, len(text) + len(encoded))
    return encoded


def _identify_condition(condition: Condition) -> str:
    """Returns a unique text for a condition. The length of a text precedes each text that is not a number."""
    kind, left, right, low, high, unless_zero, rule, item = condition
    pieces = [f"{kind.value},{low},{high},{rule},{len(item)}:{item}"]
    for product in (left, right, unless_zero):
        if product is None:
            pieces.append("")
            continue
        coefficient, factors, divisor, divisors = product
        pieces.append(f"{coefficient}/{divisor},{len(factors)},{len(divisors)}")
        for name, own in (*factors, *divisors) if divisors else factors:
            pieces.append(f"{len(name)}:{name}{own[0]}..{own[1]}")
    return ",".join(pieces)


def _read_condition(raw: bytes) -> Condition | None:
    """Reads an encoded condition; None if the generated class must report an error or an unknown kind."""
    condition = _CONDITIONS[raw]
    if condition is None:
        try:
            condition = decode_condition(reshape_pb2.Condition.FromString(raw))
        except DecodeError:
            return None
        if condition is not None:
            _CONDITIONS.keep(raw, condition, len(raw))
    return condition


def _encode_other(dim: AnyDim) -> bytes:
    text = _identify_dim(dim)
    encoded = _ENCODED[text]
    if encoded is None:
        encoded = _encode(dim)
        _ENCODED.keep(text, encoded, len(encoded))
    return encoded


def _identify_dim(dim: AnyDim) -> str:
    """Returns a unique text for a dim.

    A name may contain any character. To keep the text unique, a name is at the end of the text, or the length of the
    name precedes the name.
    """
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


# This list is defined after the function `_encode`, because it calls the function.
_INTEGERS = [_encode(dim) for dim in range(_SMALL)]


# The cache needs no limit, because there are only about a hundred possible keys. For the same reason, a client cannot
# choose keys with equal hashes.
@lru_cache(None)
def _encode_prefix(operation: Operation, special_zero: bool, data_type: DataType | None) -> tuple[bytes, bytes]:  # noqa: FBT001 - a key
    """Returns the encoded operation and `special_zero` of a query, and the encoded type of its data."""
    question = reshape_pb2.InferShapeRequest(operation=OPERATION_NUMBERS[operation], special_zero=special_zero)
    spec = tensor_pb2.TensorSpec()
    if data_type is not None:
        spec.data_type = encode_data_type(data_type)
    return question.SerializeToString(), spec.SerializeToString()
