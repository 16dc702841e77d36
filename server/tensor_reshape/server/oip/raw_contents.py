"""Finds the raw contents (elements as bytes) in a ModelInferRequest, without the message class of protobuf.

- The elements in the raw contents are never parsed or copied. The fields of a request other than its raw contents are
  small.
- The fields of the message may have any order, and the message may have unknown fields. When the raw contents are
  removed from the message, all other fields keep their meaning.
- This module cannot split a message that contains a protobuf group or an overlong varint. A message that cannot be
  split is parsed as a whole by protobuf.
- At most `MAX_FIELDS` fields are read, and at most `find_header_limit` bytes of a message are parsed.
"""

from typing import NamedTuple

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, Limits
from tensor_reshape.server.oip.response_caches import ID_TAG, Spans
from tensor_reshape.wire.fields import read_field

RAW_TAG = 0x3A
"""The tag of `raw_input_contents`, which is field 7 (length-delimited)."""

_MODEL_TAG = 0x0A  # the tag of `model_name`, which is field 1 (length-delimited)

MAX_FIELDS = 2048
"""The maximum number of fields of a message. A valid message has about ten fields."""

# The part of a message that is parsed may be up to 1/64 as large as the largest allowed message. A message object needs
# up to 40 bytes of memory for each parsed byte, but a call reserves only three bytes for each byte of the largest
# message.
_HEADER_SHARE = 64


class Split(NamedTuple):
    """A message that is split into its raw contents and the rest.

    Attributes:
        size: the number of bytes of the message.
        model_name: the name of the model. If the message has this field several times, the last value counts, as in
            protobuf.
        header: the message without its raw contents.
        raw_contents: the start and the end of each entry of the raw contents, in their order.
        ids: the start and the end of each field with an id. A message that protobuf has written has at most one such
            field.
    """

    size: int
    model_name: bytes
    header: bytes
    raw_contents: list[tuple[int, int]]
    ids: list[tuple[int, int]]

    def find_spans(self) -> Spans | None:
        """Returns the positions of the id and the elements for the response cache, or None if they are unknown.

        This method assumes that the longest entry of the raw contents has the elements, which is nearly always true. If
        another entry of the raw contents is longer than the elements, the response is never cached.
        """
        if not self.raw_contents or len(self.ids) > 1:
            return None
        begin, end = max(self.raw_contents, key=lambda span: span[1] - span[0])
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, begin, self.size - end) if id_end <= begin else None

    def find_whole(self) -> Spans | None:
        """Returns the positions for the response cache if only the id may differ, or None if there are several ids."""
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, self.size, 0) if len(self.ids) <= 1 else None


def find_header_limit(limits: Limits) -> int:
    """Returns the number of bytes that a message may have in addition to its raw contents.

    Elements that are sent as numbers are part of these bytes.
    """
    return max(MAX_HEADER_BYTES, limits.max_output_bytes // _HEADER_SHARE)


def split_message(raw: bytes, max_header_bytes: int, max_fields: int = MAX_FIELDS) -> Split | None:
    """Returns the split message, or None if this module cannot split the message.

    Raises:
        LimitError: the reason is HEADER_TOO_LARGE.
    """
    pieces: list[bytes] = []
    contents: list[tuple[int, int]] = []
    ids: list[tuple[int, int]] = []
    position, begin, header, fields, model_name = 0, 0, 0, 0, b""
    while position < len(raw):
        field = read_field(raw, position)
        fields += 1
        if field is None or field[2] > len(raw):
            return None
        tag, start, end = field
        if tag == RAW_TAG:
            pieces.append(raw[begin:position])
            contents.append((start, end))
            begin = end
        else:
            header += end - position
            if tag == ID_TAG:
                ids.append((position, end))
            elif tag == _MODEL_TAG:
                model_name = raw[start:end]
        if header > max_header_bytes or fields > max_fields:
            raise _reject_header(header, max_header_bytes, max_fields)
        position = end
    pieces.append(raw[begin:])
    return Split(len(raw), model_name, b"".join(pieces), contents, ids)


def _reject_header(size: int, limit: int, max_fields: int) -> LimitError:
    """Returns the error for a message that has too many fields, or too many bytes without its raw contents."""
    message = (
        f"the request has at least {size} bytes in addition to raw_input_contents, or too many fields; at most {limit} "
        f"bytes and {max_fields} fields are allowed. Send large tensors in raw_input_contents"
    )
    return LimitError.of(Reason.HEADER_TOO_LARGE, message, "inputs", size=size, limit=limit)


def check_parsable(raw: bytes, limit: int) -> bytes:
    """Returns the message unchanged if the message is small enough to be parsed as a whole.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    if len(raw) > limit:
        text = (
            f"the message is not an inference.ModelInferRequest, or has an unusual encoding and more than {limit} bytes"
        )
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    return raw
