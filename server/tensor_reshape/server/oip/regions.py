"""Inputs and outputs in named regions of shared memory, as in Triton's system shared memory extension.

A request that names a region is processed on a worker thread, with memory reserved for the largest message. The bytes
of the region do not arrive with the request, so the memory that is reserved for receiving the request does not include
these bytes.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits

REGION, OFFSET, BYTE_SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"
"""The names of the parameters that give the location of a tensor in a region."""


class Location(NamedTuple):
    """The location of a tensor in a region.

    Attributes:
        region: the name of the region.
        offset: the position in the region, in bytes.
        byte_size: the size of an input tensor, or the size that is available for an output tensor.
    """

    region: str
    offset: int
    byte_size: int


def find_location(parameters: Mapping[str, Any], field: str, limits: Limits) -> Location | None:
    """Returns the location of a tensor from its parameters, or None if the tensor is in the message.

    Raises:
        InvalidRequestError: the reason is PARAMETER_INVALID.
        LimitError: the reason is TENSOR_TOO_LARGE.
    """
    if REGION not in parameters:  # `in` is used, because reading a missing key of this map would create an entry
        return None
    if parameters[REGION].WhichOneof("parameter_choice") != "string_param":
        message = f"{field}.parameters[{REGION}] must be a string"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"{field}.parameters", key=REGION)
    byte_size = _read_number(parameters, BYTE_SIZE, field)
    if byte_size > limits.max_output_bytes:
        message = f"{field} uses {byte_size} bytes of shared memory; this server allows up to {limits.max_output_bytes}"
        raise LimitError.of(Reason.TENSOR_TOO_LARGE, message, field, size=byte_size, limit=limits.max_output_bytes)
    offset = _read_number(parameters, OFFSET, field) if OFFSET in parameters else 0
    return Location(parameters[REGION].string_param, offset, byte_size)


def _read_number(parameters: Mapping[str, Any], key: str, field: str) -> int:
    # If the key is missing, reading it gives a parameter without a value, which is rejected below.
    choice = parameters[key].WhichOneof("parameter_choice")
    number = getattr(parameters[key], choice) if choice in {"int64_param", "uint64_param"} else -1
    if number < 0:
        message = f"{field}.parameters[{key}] must be a number of bytes"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"{field}.parameters", key=key)
    return int(number)
