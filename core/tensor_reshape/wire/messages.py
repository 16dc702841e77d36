"""Parsing messages."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES, MAX_RANK
from tensor_reshape.rules.operations import Operation, check_rank
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.dims import decode_dims

AnyMessage = TypeVar("AnyMessage", bound=Message)


def parse(kind: type[AnyMessage], raw: bytes) -> AnyMessage:
    """Returns the message that `raw` is.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    try:
        return kind.FromString(raw)
    except DecodeError:
        text = f"the message is not a {kind.DESCRIPTOR.full_name}"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text) from None


def check_head_size(size: int) -> None:
    """Raises LimitError HEAD_TOO_LARGE where a message has too much besides its tensor's bytes."""
    if size > MAX_HEADER_BYTES:
        text = f"the message has {size} or more bytes besides its tensor's; {MAX_HEADER_BYTES} are admitted"
        raise LimitError.of(Reason.HEAD_TOO_LARGE, text, size=size, limit=MAX_HEADER_BYTES)


def decode_shape(operation: Operation, shape: tensor_pb2.Shape, path: str) -> list[AnyDim]:
    """Reads a shape of a request; one of a rank that no operation takes is refused unread, as reading takes long.

    Raises:
        InvalidRequestError: RANK_UNSUPPORTED, or DIM_UNKNOWN for a kind of dim that this version does not know.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    if len(shape.dims) > MAX_RANK:
        check_rank(operation, len(shape.dims), path, DEFAULT_LIMITS)
    return decode_dims(shape.dims, path)


def decode_expected(operation: Operation, message: Message) -> list[AnyDim] | None:
    """Reads the expected shape of a request; None where it declares none.

    Raises:
        ReshapeError: as `decode_shape`.
    """
    if not message.HasField("expected_shape"):
        return None
    return decode_shape(operation, message.expected_shape, "expected_shape.dims")  # type: ignore[attr-defined] # of every request
