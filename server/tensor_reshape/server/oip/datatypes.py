"""The element types of the Open Inference Protocol, and the conversion of numbers into bytes.

The Open Inference Protocol has no names for some element types of this server. A request with one of these types is
rejected, and the error names the method of ReshapeService that accepts this type.

If a datatype cannot represent a number in a request, the request is rejected. A float in a response has the same bits
as in the request.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from math import isfinite
from typing import Any

from tensor_reshape.rules.dtypes import DataType, ElementKind, format_data_types
from tensor_reshape.rules.errors import InvalidRequestError, Reason, clip_text
from tensor_reshape.server.oip.messages import InferTensor
from tensor_reshape.wire.json_messages import shorten
from tensor_reshape.wire.tensors import TensorView

# Each row has the name in the protocol, the data type, the field of `InferTensorContents` that contains the elements,
# and the format character of the module `struct`. If the field is empty, elements of the data type cannot be sent as
# numbers.
_ROWS = (
    ("BOOL", DataType.BOOLEAN, "bool_contents", "?"),
    ("UINT8", DataType.U8, "uint_contents", "B"),
    ("UINT16", DataType.U16, "uint_contents", "H"),
    ("UINT32", DataType.U32, "uint_contents", "I"),
    ("UINT64", DataType.U64, "uint64_contents", "Q"),
    ("INT8", DataType.I8, "int_contents", "b"),
    ("INT16", DataType.I16, "int_contents", "h"),
    ("INT32", DataType.I32, "int_contents", "i"),
    ("INT64", DataType.I64, "int64_contents", "q"),
    ("FP16", DataType.F16, "", ""),
    ("BF16", DataType.BF16, "", ""),
    ("FP32", DataType.F32, "fp32_contents", "f"),
    ("FP64", DataType.F64, "fp64_contents", "d"),
)
DATATYPES = {name: data_type for name, data_type, *_ in _ROWS}
"""The data type for each name in the Open Inference Protocol, in the order of the protocol's table."""

NAMES = {data_type: name for name, data_type in DATATYPES.items()}
"""The protocol's name of each data type. Data types without a name in the protocol are omitted."""

BINARY_ONLY = frozenset(data_type for _, data_type, field, _ in _ROWS if not field)
"""The data types of the protocol whose elements cannot be sent as numbers."""

_FORMS = {data_type: (field, code) for _, data_type, field, code in _ROWS}
_SHOWN_CHARACTERS = 64
_NAMELESS = format_data_types(frozenset(DataType) - frozenset(NAMES))


def decode_datatype(name: str, field: str) -> DataType:
    """Returns the data type for a name in the Open Inference Protocol.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED.
    """
    data_type = DATATYPES.get(name)
    if data_type is None:
        message = f"{field} is {clip_name(name)!r}; use one of {', '.join(DATATYPES)}. {_explain(name)}"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, field, value=name)
    return data_type


def clip_name(name: str) -> str:
    """Returns a name from a client, shortened so that it fits into an error message."""
    return clip_text(name, _SHOWN_CHARACTERS)


def format_names(data_types: frozenset[DataType]) -> str:
    """Returns the names of data types in the order of the protocol's table, for example "FP16, BF16, FP32"."""
    return ", ".join(name for name, data_type in DATATYPES.items() if data_type in data_types)


def _explain(name: str) -> str:
    if name == "BYTES":
        return "Tensors of BYTES cannot be reshaped, because their elements have no fixed size"
    return f"For {_NAMELESS}, which have no name in this protocol, call tensor_reshape.v1.ReshapeService/Reshape"


_INTEGERS = (frozenset({int}), "a whole number")
# for each kind of element, the accepted Python types and their description in errors
_ELEMENTS = {
    ElementKind.BOOLEAN: (frozenset({bool}), "true or false"),
    ElementKind.SIGNED: _INTEGERS,
    ElementKind.UNSIGNED: _INTEGERS,
    ElementKind.FLOAT: (frozenset({int, float}), "a number"),
}
# The number of elements that are converted in one step. A step takes less than a millisecond, and no other Python
# thread runs during a step. A message may have millions of elements, so the conversion has many steps.
_AT_ONCE = 2048


def pack_numbers(numbers: Sequence[Any], data_type: DataType, field: str) -> bytes:
    """Returns elements as dense little-endian bytes.

    Raises:
        InvalidRequestError: INPUT_INVALID, if an element has another type, is not finite, or does not fit into the data
            type.
    """
    pieces = list[bytes]()
    for begin in range(0, len(numbers), _AT_ONCE):
        piece = numbers[begin : begin + _AT_ONCE]
        packed = _try_to_pack(piece, data_type)
        if packed is None:
            at = next(at for at, number in enumerate(piece) if _try_to_pack([number], data_type) is None)
            raise _reject_number(piece[at], data_type, field, begin + at)
        pieces.append(packed)
    return b"".join(pieces)


def _try_to_pack(numbers: Sequence[Any], data_type: DataType) -> bytes | None:
    if {*map(type, numbers)} <= _ELEMENTS[data_type.kind][0]:
        with suppress(struct.error, OverflowError):  # `isfinite` also raises OverflowError
            if data_type.kind is not ElementKind.FLOAT or all(map(isfinite, numbers)):
                return struct.pack(f"<{len(numbers)}{_FORMS[data_type][1]}", *numbers)
    return None


def _reject_number(number: object, data_type: DataType, field: str, index: int) -> InvalidRequestError:
    types, wanted = _ELEMENTS[data_type.kind]
    field = f"{field}[{index}]"
    if type(number) not in types:
        return InvalidRequestError.of(Reason.INPUT_INVALID, f"{field} is {shorten(number)}, not {wanted}", field)
    message = f"{field} is {shorten(number)}, which does not fit into {NAMES[data_type]}"
    return InvalidRequestError.of(Reason.INPUT_INVALID, message, field, index=index, value=number)


def unpack_numbers(output: TensorView) -> Iterator[tuple[Any, ...]]:
    """Yields the elements of a dense tensor as tuples of up to `_AT_ONCE` numbers."""
    size = output.data_type.count_bytes(_AT_ONCE)
    for at in range(0, len(output.payload), size):
        piece = output.payload[at : at + size]
        yield struct.unpack(f"<{len(piece) * _AT_ONCE // size}{_FORMS[output.data_type][1]}", piece)


def pack_contents(tensor: InferTensor, data_type: DataType, field: str) -> bytes:
    """Returns the elements of an input as dense little-endian bytes.

    Raises:
        InvalidRequestError: the reason is INPUT_INVALID.
    """
    if data_type in BINARY_ONLY:
        message = f"{field}.contents has no field for {tensor.datatype}; use raw_input_contents"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, f"{field}.contents", datatype=tensor.datatype)
    name, _ = _FORMS[data_type]
    other = next((found.name for found, _ in tensor.contents.ListFields() if found.name != name), None)
    if other is not None:
        message = f"{field}.contents.{other} is set; elements of {tensor.datatype} must be in {name}"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, f"{field}.contents.{other}", want=name)
    if data_type.kind is ElementKind.FLOAT:
        return _pack_floats(tensor.contents, data_type.count_bytes(len(getattr(tensor.contents, name))))
    return pack_numbers(getattr(tensor.contents, name), data_type, f"{field}.contents.{name}")


def fill_contents(tensor: InferTensor, source: InferTensor | None, output: TensorView) -> None:
    """Writes the elements of a response as numbers to `tensor`.

    If `source` is an input, its elements are copied. If `source` is None, the elements of `output` are written, which
    are integers.
    """
    if source is not None:
        tensor.contents.CopyFrom(source.contents)
        # Unknown fields of the request are not returned to the client, because they may be so deeply nested that the
        # client's parser rejects them.
        tensor.contents.DiscardUnknownFields()
    else:
        getattr(tensor.contents, _FORMS[output.data_type][0]).extend(chain(*unpack_numbers(output)))


def _pack_floats(contents: InferTensor, size: int) -> bytes:
    # The serialized `contents` end with the bytes of the floats, because no other field is set. The floats are not
    # converted to Python numbers, because the conversion would change the bits of some NaNs.
    contents.DiscardUnknownFields()
    serialized: bytes = contents.SerializeToString()
    return serialized[len(serialized) - size :]
