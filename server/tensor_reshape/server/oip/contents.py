"""Elements as numbers (`InferTensorContents`), which few clients send: to bytes, and copied to an answer.

Laws: a number that the datatype does not hold is refused; a float that comes back is the very one that was sent.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.oip.messages import InferTensor
from tensor_reshape.wire.arrays import DTYPES, build_array
from tensor_reshape.wire.tensors import TensorView

_FIELDS = {
    DataType.BOOLEAN: "bool_contents",
    DataType.I8: "int_contents",
    DataType.I16: "int_contents",
    DataType.I32: "int_contents",
    DataType.I64: "int64_contents",
    DataType.U8: "uint_contents",
    DataType.U16: "uint_contents",
    DataType.U32: "uint_contents",
    DataType.U64: "uint64_contents",
    DataType.F32: "fp32_contents",
    DataType.F64: "fp64_contents",
}

_WIDE = {"int_contents": np.dtype(np.int32), "uint_contents": np.dtype(np.uint32)}
"""What the numbers of a field are read as, where they are wider than some of its datatypes."""

_AT_ONCE = 16384
"""How many numbers numpy takes at once: meanwhile no other thread runs, and a message may have millions."""


def pack_contents(tensor: InferTensor, data_type: DataType, field: str) -> bytes:
    """Returns the elements of an input as dense little-endian bytes.

    Raises:
        InvalidRequestError: INPUT_INVALID.
    """
    name = _FIELDS.get(data_type)
    if name is None:
        message = f"{field}.contents has no field for {tensor.datatype}: it goes through raw_input_contents"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, f"{field}.contents", datatype=tensor.datatype)
    other = next((found.name for found, _ in tensor.contents.ListFields() if found.name != name), None)
    if other is not None:
        message = f"{field}.contents.{other} is set; of {tensor.datatype} the elements are in {name}"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, f"{field}.contents.{other}", want=name)
    if data_type.kind is ElementKind.FLOAT:
        return _pack_floats(tensor.contents, data_type.count_bytes(len(getattr(tensor.contents, name))))
    return _pack_integers(getattr(tensor.contents, name), name, data_type, field)


def fill_contents(tensor: InferTensor, source: InferTensor | None, output: TensorView) -> None:
    """Writes the elements of an answer: those of the input that they are, else integers."""
    if source is not None:
        tensor.contents.CopyFrom(source.contents)
        tensor.contents.DiscardUnknownFields()  # which may be groups in as many others as readers take
    else:
        getattr(tensor.contents, _FIELDS[output.data_type]).extend(build_array(output).tolist())


def _pack_floats(contents: InferTensor, size: int) -> bytes:
    # They end the message that has nothing else, as they lie in memory: as numbers of Python, some NaNs would change.
    contents.DiscardUnknownFields()
    serialized: bytes = contents.SerializeToString()
    return serialized[len(serialized) - size :]


def _pack_integers(numbers: Any, name: str, data_type: DataType, field: str) -> bytes:  # noqa: ANN401 - of protobuf
    begins = range(0, len(numbers), _AT_ONCE)
    return b"".join(_narrow(numbers[at : at + _AT_ONCE], at, name, data_type, field) for at in begins)


def _narrow(numbers: Sequence[int], begin: int, name: str, data_type: DataType, field: str) -> bytes:
    dtype = DTYPES[data_type]
    wide = np.array(numbers, _WIDE.get(name, dtype))
    narrow = wide.astype(dtype)
    wrong = np.flatnonzero(narrow != wide)
    if len(wrong):
        value, index = int(wide[wrong[0]]), begin + int(wrong[0])
        path = f"{field}.contents.{name}[{index}]"
        message = f"{path} is {value}, which no {data_type} holds"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, path, index=index, value=value)
    return narrow.tobytes()
