"""Where the raw contents of a ModelInferRequest lie, found without the generated class.

- The bytes of a tensor are never parsed: they stay where they were received, and the rest of the message is small.
- Whatever the fields are in between, and in whichever order they come, what is left reads as it would have.
- What is not understood (a group, a number that is too long) is parsed whole by the generated class, which knows.
- No more than `MAX_FIELDS` fields are looked at, and of a message no more is parsed than `find_header_limit` says.
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
"""How many fields a message may have: a legal one has some ten."""

_HEADER_SHARE = 64  # of the largest message: a generated class makes up to forty bytes out of one, and a call has three


class Split(NamedTuple):
    """A message in two.

    Attributes:
        size: of the message.
        model_name: as it is in the message; as for a generated class, the last one counts.
        header: the message without its raw contents.
        raw_contents: where these begin and end, in their order.
        ids: where the fields of the id begin and end: one at most, in a message that a generated class has written.
    """

    size: int
    model_name: bytes
    header: bytes
    raw_contents: list[tuple[int, int]]
    ids: list[tuple[int, int]]

    def find_spans(self) -> Spans | None:
        """Returns where what may differ lies in the request; None where that cannot be told.

        The elements are nearly always the longest of the raw contents. Where they are not, nothing is found by it.
        """
        if not self.raw_contents or len(self.ids) > 1:
            return None
        begin, end = max(self.raw_contents, key=lambda span: span[1] - span[0])
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, begin, self.size - end) if id_end <= begin else None

    def find_whole(self) -> Spans | None:
        """Returns the same where nothing but the id may differ."""
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, self.size, 0) if len(self.ids) <= 1 else None


def find_header_limit(limits: Limits) -> int:
    """Returns how many bytes a message may have besides its raw contents: elements as numbers count in full."""
    return max(MAX_HEADER_BYTES, limits.max_output_bytes // _HEADER_SHARE)


def split_message(raw: bytes, max_header_bytes: int, max_fields: int = MAX_FIELDS) -> Split | None:
    """Returns the message in two; None where that is not understood.

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
            raise _refuse_header(header, max_header_bytes, max_fields)
        position = end
    pieces.append(raw[begin:])
    return Split(len(raw), model_name, b"".join(pieces), contents, ids)


def _refuse_header(size: int, limit: int, max_fields: int) -> LimitError:
    """Returns the refusal of a message that is large, or has many fields, besides its raw contents."""
    message = (
        f"the request has {size} or more bytes besides raw_input_contents, or many fields; {limit} and {max_fields} "
        "are admitted: large tensors go through raw_input_contents"
    )
    return LimitError.of(Reason.HEADER_TOO_LARGE, message, "inputs", size=size, limit=limit)


def check_parsable(raw: bytes, limit: int) -> bytes:
    """Returns a message that is to be parsed whole, where it is short enough for that.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    if len(raw) > limit:
        text = (
            f"the message is not an inference.ModelInferRequest, or has an unusual encoding and is above {limit} bytes"
        )
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    return raw
