"""Parsing messages, and shapes of dims that need not be known."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tensor_reshape.core.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.core.limits import MAX_HEAD_BYTES
from tensor_reshape.v1 import tensor_pb2

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


def decode_known_dims(message: Message, field: str, path: str) -> tuple[int, ...]:
    """Reads the dims of a message's field; `path` is what a refusal calls them.

    Raises:
        InvalidRequestError: FIELD_MISSING or DIM_UNKNOWN.
    """
    if not message.HasField(field):
        missing = path.removesuffix(".dims")
        text = f"{missing} is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, missing)
    dims = decode_dims(getattr(message, field).dims, path)
    for index, dim in enumerate(dims):
        if dim is None:
            text = f"{path}[{index}] has no value; every dim must be known"
            raise InvalidRequestError.of(Reason.DIM_UNKNOWN, text, f"{path}[{index}]", index=index)
    return tuple(dim for dim in dims if dim is not None)


def decode_dims(dims: Iterable[tensor_pb2.Dim], path: str) -> list[int | None]:
    """Reads dims, None where nothing is known of one.

    Raises:
        InvalidRequestError: DIM_UNKNOWN, for a kind of dim that this version does not know.
    """
    return [_decode_dim(dim, f"{path}[{index}]") for index, dim in enumerate(dims)]


def decode_expected(message: Message) -> list[int | None] | None:
    """Reads the expected shape of a request; None where it declares none.

    Raises:
        InvalidRequestError: DIM_UNKNOWN, for a kind of dim that this version does not know.
    """
    if not message.HasField("expected_shape"):
        return None
    return decode_dims(message.expected_shape.dims, "expected_shape.dims")  # type: ignore[attr-defined] # of every request


def _decode_dim(dim: tensor_pb2.Dim, path: str) -> int | None:
    if dim.HasField("value"):
        return dim.value
    if dim.ByteSize():  # it says something that this version cannot read: to drop it would be to check less than asked
        text = f"{path} is of a kind that this server does not know"
        raise InvalidRequestError.of(Reason.DIM_UNKNOWN, text, path)
    return None


def encode_shape(dims: Sequence[int | None]) -> tensor_pb2.Shape:
    """Returns the message of dims, None for one of which nothing is known."""
    return tensor_pb2.Shape(dims=[tensor_pb2.Dim() if dim is None else tensor_pb2.Dim(value=dim) for dim in dims])
