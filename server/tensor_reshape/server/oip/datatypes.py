"""The names of element types in the Open Inference Protocol.

The Open Inference Protocol has no names for some element types. A request with a type that has no name in the protocol
is rejected, and the error names the method of ReshapeService that accepts the type.
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
"""The data type for each name in the Open Inference Protocol, in the order of the protocol's table."""

NAMES = {data_type: name for name, data_type in DATATYPES.items()}
"""The protocol's name of each data type. Data types without a name in the protocol are omitted."""

BINARY_ONLY = frozenset({DataType.F16, DataType.BF16})
"""The data types of the protocol whose elements cannot be sent as numbers."""

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
