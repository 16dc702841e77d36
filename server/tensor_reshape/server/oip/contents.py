"""Converts elements between bytes and numbers. Few clients send elements as numbers (`InferTensorContents`).

A request with a number that its datatype cannot represent is rejected. A float in a response has the same bits as in
the request.
"""

import struct
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.server.oip.messages import InferTensor
from tensor_reshape.wire.tensors import TensorView


class _Form(NamedTuple):
    """The form in which the elements of a datatype are sent as numbers.

    Attributes:
        field: the field of `InferTensorContents` with the numbers.
        code: the code of the datatype for `struct`.
    """

    field: str
    code: str


_FORMS = {
    DataType.BOOLEAN: _Form("bool_contents", "?"),
    DataType.I8: _Form("int_contents", "b"),
    DataType.I16: _Form("int_contents", "h"),
    DataType.I32: _Form("int_contents", "i"),
    DataType.I64: _Form("int64_contents", "q"),
    DataType.U8: _Form("uint_contents", "B"),
    DataType.U16: _Form("uint_contents", "H"),
    DataType.U32: _Form("uint_contents", "I"),
    DataType.U64: _Form("uint64_contents", "Q"),
    DataType.F32: _Form("fp32_contents", "f"),
    DataType.F64: _Form("fp64_contents", "d"),
}

_AT_ONCE = 16384
"""The number of elements that are converted to bytes in one step.

No other thread runs during a step. A message may have millions of elements, so the conversion has many steps.
"""


def pack_contents(tensor: InferTensor, data_type: DataType, field: str) -> bytes:
    """Returns the elements of an input as dense little-endian bytes.

    Raises:
        InvalidRequestError: the reason is INPUT_INVALID.
    """
    form = _FORMS.get(data_type)
    if form is None:
        message = f"{field}.contents has no field for {tensor.datatype}; use raw_input_contents"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, f"{field}.contents", datatype=tensor.datatype)
    name = form.field
    other = next((found.name for found, _ in tensor.contents.ListFields() if found.name != name), None)
    if other is not None:
        message = f"{field}.contents.{other} is set; elements of {tensor.datatype} must be in {name}"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, f"{field}.contents.{other}", want=name)
    if data_type.kind is ElementKind.FLOAT:
        return _pack_floats(tensor.contents, data_type.count_bytes(len(getattr(tensor.contents, name))))
    return _pack(getattr(tensor.contents, name), data_type, f"{field}.contents.{name}")


def fill_contents(tensor: InferTensor, source: InferTensor | None, output: TensorView) -> None:
    """Writes the elements of a response as numbers.

    If `source` is an input, the elements of this input are copied. If `source` is None, the integers of `output` are
    written.
    """
    if source is not None:
        tensor.contents.CopyFrom(source.contents)
        # Unknown fields of the request are not returned to the client, because they may be so deeply nested that the
        # client's parser rejects them.
        tensor.contents.DiscardUnknownFields()
    else:
        form = _FORMS[output.data_type]
        numbers = struct.unpack(f"<{prod(output.dims)}{form.code}", output.payload)
        getattr(tensor.contents, form.field).extend(numbers)


def _pack_floats(contents: InferTensor, size: int) -> bytes:
    # The serialized message ends with the bytes of the floats, because it has no other fields. The floats are not
    # converted to Python numbers, because the conversion would change the bits of some NaNs.
    contents.DiscardUnknownFields()
    serialized: bytes = contents.SerializeToString()
    return serialized[len(serialized) - size :]


def _pack(numbers: Any, data_type: DataType, path: str) -> bytes:  # noqa: ANN401 - of protobuf
    begins = range(0, len(numbers), _AT_ONCE)
    return b"".join(_pack_some(numbers[at : at + _AT_ONCE], at, data_type, path) for at in begins)


def _pack_some(numbers: Sequence[Any], begin: int, data_type: DataType, path: str) -> bytes:
    code = _FORMS[data_type].code
    try:
        return struct.pack(f"<{len(numbers)}{code}", *numbers)
    except (struct.error, OverflowError):  # the error does not say which number does not fit
        index, value = next((at, number) for at, number in enumerate(numbers, begin) if not _fits(code, number))
        path = f"{path}[{index}]"
        message = f"{path} is {format_value(value)}, which does not fit into {data_type}"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, path, index=index, value=value) from None


def _fits(code: str, number: float) -> bool:
    try:
        struct.pack(f"<{code}", number)
    except (struct.error, OverflowError):
        return False
    return True
