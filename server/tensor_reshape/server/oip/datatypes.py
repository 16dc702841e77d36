"""The protocol's names of the element types.

Invariant: a type without a name here is rejected, and the message names the call that accepts it.
"""

from tensor_reshape.rules.dtypes import DataType, format_data_types
from tensor_reshape.rules.errors import InvalidRequestError, Reason, clip_text

DATATYPES = {
    "BOOL": DataType.BOOLEAN,
    "UINT8": DataType.U8,
    "UINT16": DataType.U16,
    "UINT32": DataType.U32,
    "UINT64": DataType.U64,
    "INT8": DataType.I8,
    "INT16": DataType.I16,
    "INT32": DataType.I32,
    "INT64": DataType.I64,
    "FP16": DataType.F16,
    "BF16": DataType.BF16,
    "FP32": DataType.F32,
    "FP64": DataType.F64,
}
"""The data type of each name, in the order of the protocol's table."""

NAMES = {data_type: name for name, data_type in DATATYPES.items()}
"""The name of each data type that has one."""

_SHOWN_CHARACTERS = 64
_NAMELESS = format_data_types(frozenset(DataType) - frozenset(NAMES))


def decode_datatype(name: str, field: str) -> DataType:
    """Returns the data type with a name.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED.
    """
    data_type = DATATYPES.get(name)
    if data_type is None:
        message = f"{field} is {clip_name(name)!r}; use one of {', '.join(DATATYPES)}. {_explain(name)}"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, field, value=name)
    return data_type


def clip_name(name: str) -> str:
    """Returns a name from a client, shortened for a message so that the rest of the message is not cut off."""
    return clip_text(name, _SHOWN_CHARACTERS)


def format_names(data_types: frozenset[DataType]) -> str:
    """Returns the names of the types in the protocol's order, for example "FP16, BF16, FP32"."""
    return ", ".join(name for name, data_type in DATATYPES.items() if data_type in data_types)


def _explain(name: str) -> str:
    if name == "BYTES":
        return "Elements of BYTES have no fixed size: there is nothing to reshape without knowing them"
    return f"The types {_NAMELESS} have no name in this protocol: tensor_reshape.v1.ReshapeService/Reshape takes them"
