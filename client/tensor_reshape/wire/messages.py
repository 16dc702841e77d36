"""Parsing messages."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tensor_reshape.core.dims import AnyDim
from tensor_reshape.core.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.core.limits import MAX_HEAD_BYTES
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
    if size > MAX_HEAD_BYTES:
        text = f"the message has {size} or more bytes besides its tensor's; {MAX_HEAD_BYTES} are admitted"
        raise LimitError.of(Reason.HEAD_TOO_LARGE, text, size=size, limit=MAX_HEAD_BYTES)


def decode_expected(message: Message) -> list[AnyDim] | None:
    """Reads the expected shape of a request; None where it declares none.

    Raises:
        InvalidRequestError: DIM_UNKNOWN, for a kind of dim that this version does not know.
    """
    if not message.HasField("expected_shape"):
        return None
    return decode_dims(message.expected_shape.dims, "expected_shape.dims")  # type: ignore[attr-defined] # of every request
