"""Finds the raw contents in a ModelInferRequest without the generated class.

- The bytes of a tensor are never parsed and stay where they were received. The rest of the message is small.
- The fields may have any order, and unknown fields may lie between them. The remaining message has the same meaning as
  the original.
- A message with a group or an overlong number is left to the parser of the generated class.
- At most `MAX_FIELDS` fields are read, and at most `find_header_limit` bytes of a message are parsed.
"""

from typing import NamedTuple

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, Limits
from tensor_reshape.server.oip.answer_caches import ID_TAG, Spans
from tensor_reshape.wire.fields import read_field

RAW_TAG = 0x3A
"""Field 7, length-delimited: `raw_input_contents`."""

_MODEL_TAG = 0x0A  # field 1, length-delimited

MAX_FIELDS = 2048
"""The maximum number of fields of a message. A valid message has about ten."""

# of the largest message; a generated class needs up to forty bytes for one byte, and a call has reserved three
_HEADER_SHARE = 64


class Split(NamedTuple):
    """A message, split into raw contents and the rest.

    Attributes:
        size: the number of bytes of the message.
        model_name: the name in the message. If the field is repeated, the last one counts, as in protobuf.
        header: the message without its raw contents.
        raw_contents: the positions of the raw contents, in their order.
        ids: the begin and the end of each id field. A generated class writes at most one.
    """

    size: int
    model_name: bytes
    header: bytes
    raw_contents: list[tuple[int, int]]
    ids: list[tuple[int, int]]

    def find_spans(self) -> Spans | None:
        """Returns the positions of the parts that may differ; None if they are unknown.

        It assumes that the elements are the longest of the raw contents, which is nearly always true. If it is not, the
        cache has no entry.
        """
        if not self.raw_contents or len(self.ids) > 1:
            return None
        begin, end = max(self.raw_contents, key=lambda span: span[1] - span[0])
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, begin, self.size - end) if id_end <= begin else None

    def find_whole(self) -> Spans | None:
        """Returns the positions if only the id may differ."""
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, self.size, 0) if len(self.ids) <= 1 else None


def find_header_limit(limits: Limits) -> int:
    """Returns how many bytes a message may have in addition to its raw contents.

    Elements that are sent as numbers count fully.
    """
    return max(MAX_HEADER_BYTES, limits.max_output_bytes // _HEADER_SHARE)


def split_message(raw: bytes, max_header_bytes: int, max_fields: int = MAX_FIELDS) -> Split | None:
    """Returns the message, split; None if this reader does not understand it.

    Raises:
        LimitError: HEADER_TOO_LARGE.
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
    """Returns the error for a message that is too large, or has too many fields, without its raw contents."""
    message = (
        f"the request has {size} or more bytes besides raw_input_contents, or many fields; {limit} and {max_fields} "
        "are admitted: large tensors go through raw_input_contents"
    )
    return LimitError.of(Reason.HEADER_TOO_LARGE, message, "inputs", size=size, limit=limit)


def check_parsable(raw: bytes, limit: int) -> bytes:
    """Returns the message if it is small enough to be parsed as a whole.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    if len(raw) > limit:
        text = (
            f"the message is not an inference.ModelInferRequest, or has an unusual encoding and is above {limit} bytes"
        )
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    return raw
