"""Triton's system shared memory extension: inputs and outputs in named regions.

Invariant: a request that names a region runs on a thread, with memory reserved for the largest message. The bytes of a
region do not arrive with the request, so no other budget counts them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits

REGION, OFFSET, BYTE_SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"
"""The parameters that locate a tensor in a region."""


class Place(NamedTuple):
    """The location of a tensor.

    Attributes:
        region: the name of the region.
        offset: in bytes, within the region.
        byte_size: the size of the tensor; for an output, the available size.
    """

    region: str
    offset: int
    byte_size: int


def find_place(parameters: Mapping[str, Any], field: str, limits: Limits) -> Place | None:
    """Returns the location of a tensor from its parameters; None if it is in the message.

    Raises:
        InvalidRequestError: PARAMETER_INVALID.
        LimitError: TENSOR_TOO_LARGE.
    """
    if REGION not in parameters:  # not `get`, because a map of messages would create the entry
        return None
    if parameters[REGION].WhichOneof("parameter_choice") != "string_param":
        message = f"{field}.parameters[{REGION}] must be a string"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"{field}.parameters", key=REGION)
    byte_size = _read_number(parameters, BYTE_SIZE, field)
    if byte_size > limits.max_output_bytes:
        message = f"{field} has {byte_size} bytes of shared memory; this server allows up to {limits.max_output_bytes}"
        raise LimitError.of(Reason.TENSOR_TOO_LARGE, message, field, size=byte_size, limit=limits.max_output_bytes)
    offset = _read_number(parameters, OFFSET, field) if OFFSET in parameters else 0
    return Place(parameters[REGION].string_param, offset, byte_size)


def _read_number(parameters: Mapping[str, Any], key: str, field: str) -> int:
    # Asked for, not looked at: one that is absent reads as one without a value.
    choice = parameters[key].WhichOneof("parameter_choice")
    number = getattr(parameters[key], choice) if choice in {"int64_param", "uint64_param"} else -1
    if number < 0:
        message = f"{field}.parameters[{key}] must be a number of bytes"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"{field}.parameters", key=key)
    return int(number)
