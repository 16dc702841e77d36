"""Finds the raw contents in a request without parsing them, and caches response headers.

The cache key of a response header is the request without its elements and its id.

`service.header_cache` is the cache for ReshapeService. The module `header_cache` cannot be used for the Open Inference
Protocol, for two reasons. In this protocol, other fields may follow the elements of a request, for example the
requested shape if it is an input. In addition, many clients send a new id with each request, and the response must
repeat this id.

- Requests use the same cached header if they differ only in their elements and their id, and have the same number of
  elements.
- If a request is a shape query or contains elements as numbers, its response repeats no raw contents of the request, so
  the cache keeps the whole response.
- A response is cached only if the id of the request comes before the elements, is ASCII and has less than 128
  characters.
- The cache finds the id of a request by its position. This is safe, because an earlier request that differs only in its
  elements and its id was parsed. The id of that request was at the same position. At other positions, bytes that look
  like an id may be part of another field, such as a packed shape.
- The memory of this cache is limited. Any thread may use the cache without a lock, like the cache in
  `service.header_cache`.
- The elements in the raw contents are never parsed or copied. All other fields of a request are small.
- The fields of the message may have any order, and the message may have unknown fields. If the raw contents are removed
  from the message, all other fields keep their meaning.
- This module cannot split a message that contains a protobuf group or an overlong varint. Protobuf parses such a
  message as a whole.
- At most `MAX_FIELDS` fields are read, and at most `find_header_limit` bytes of a message are parsed.
"""

from typing import NamedTuple

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, Limits
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.oip.models import INFER_SHAPE
from tensor_reshape.server.service.header_cache import MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
from tensor_reshape.wire.fields import SHORT_BYTES, read_field

ID_TAG = 0x1A
"""The tag of the id in requests and in responses, which is field 3 (length-delimited)."""

_ID_HEADER_BYTES = 2  # a field with a short id begins with one byte for the tag and one byte for the length


class Spans(NamedTuple):
    """The positions of the id and of the elements of a request.

    Requests with the same response header may differ at these positions.

    Attributes:
        id_begin: the start of the field with the id.
        id_end: the end of the field with the id. Without an id, this position is equal to `id_begin`.
        begin: the start of the elements. Without elements, this position is the end of the request.
        tail: the number of bytes after the elements.
    """

    id_begin: int
    id_end: int
    begin: int
    tail: int

    def cut(self, request: bytes) -> bytes:
        """Returns the request without its id and its elements."""
        id_begin, id_end, begin, tail = self
        head = request[:begin] if id_begin == id_end else request[:id_begin] + request[id_end:begin]
        return head + request[len(request) - tail :] if tail else head

    def find_layout(self, request: bytes) -> tuple[int, int, int, int]:
        """Returns the size of the elements, and the positions at which `cut` removes bytes from the request."""
        id_begin, id_end, begin, tail = self
        return len(request) - begin - tail, id_begin, begin - (id_end - id_begin), tail

    def find_id(self, request: bytes) -> bytes | None:
        """Returns the field with the id, or "" if the request has no id.

        Returns None if the bytes at this position are not an id.
        """
        if self.id_begin == self.id_end:
            return b""
        field = request[self.id_begin : self.id_end]
        content = field[_ID_HEADER_BYTES:]
        is_id = len(content) < SHORT_BYTES and field[:_ID_HEADER_BYTES] == bytes((ID_TAG, len(content)))
        return field if is_id and content.isascii() else None


class Hit(NamedTuple):
    """A cached response to a request.

    Attributes:
        header: the bytes of the response before the elements.
        payload: the elements of the request, which the response repeats after the header.
        model: the name of the model.
    """

    header: bytes
    payload: memoryview
    model: str


class ResponseCache:
    """A cache of response headers. Any thread may use this cache."""

    def __init__(self) -> None:
        """Makes an empty cache."""
        # The key of a cache entry is a request without its id and its elements (`Spans.cut`). The value contains the
        # layout of the request (`Spans.find_layout`), the response header without an id, and the name of the model.
        self._responses: RecentCache[bytes, tuple[tuple[int, int, int, int], bytes, str]] = RecentCache(
            MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
        )
        # `_guess` contains the positions of the id and of the elements in the last request. In the next request, the
        # positions are probably the same. The attribute `_guess` needs no lock, because its assignment is atomic.
        self._guess = Spans(0, 0, 0, 0)

    def find(self, request: bytes, spans: Spans | None = None) -> Hit | None:
        """Returns the cached response to `request`, or None.

        By default, `spans` has the positions of the last request.
        """
        spans = spans or self._guess
        cached = self._responses[spans.cut(request)]
        # The cached response is used only if the request has the same layout as the cached request, including the size
        # of the elements.
        if cached is None or cached[0] != spans.find_layout(request):
            return None
        id_field = spans.find_id(request)
        if id_field is None:
            return None
        self._guess = spans
        return Hit(id_field + cached[1], memoryview(request)[spans.begin : len(request) - spans.tail], cached[2])

    def add(self, request: bytes, spans: Spans, header: bytes, model: str) -> None:
        """Adds the response header of a request. `header` does not contain the field with the id."""
        if spans.find_id(request) is None:
            return
        key = spans.cut(request)
        if self._responses.keep(key, (spans.find_layout(request), header, model), len(key) + len(header)):
            self._guess = spans


RAW_TAG = 0x3A
"""The tag of `raw_input_contents`, which is field 7 (length-delimited)."""

_QUERY_MODEL = INFER_SHAPE.encode()
_MODEL_TAG = 0x0A  # the tag of `model_name`, which is field 1 (length-delimited)

MAX_FIELDS = 2048
"""The maximum number of fields of a message. A valid message has about ten fields."""

# The parsed part of a message may be up to 1/64 as large as the largest allowed message. A message object needs up to
# 40 bytes of memory for each parsed byte, but a call reserves only three bytes for each byte of the largest message.
_HEADER_SHARE = 64


class Split(NamedTuple):
    """A message that is split into its raw contents and its other fields.

    Attributes:
        size: the number of bytes of the message.
        model_name: the name of the model. If the message has this field several times, the last value counts, as in
            protobuf.
        header: the message without its raw contents.
        raw_contents: the start and the end of each entry of the raw contents, in the order of the entries.
        ids: the start and the end of each field with an id. A message that protobuf has written has at most one field
            with an id.
    """

    size: int
    model_name: bytes
    header: bytes
    raw_contents: list[tuple[int, int]]
    ids: list[tuple[int, int]]

    def find_spans(self) -> Spans | None:
        """Returns the positions of the id and of the elements for the response cache, or None if they are unknown.

        For shape queries and messages without raw contents, the result contains no elements. In all other messages,
        this method assumes that the longest entry of the raw contents has the elements, which is nearly always true. If
        another entry is longer than the elements, the response is not cached.
        """
        if len(self.ids) > 1 or len(self.header) > MAX_CACHED_HEADER_BYTES:
            return None
        begin = end = self.size
        if self.raw_contents and self.model_name != _QUERY_MODEL:
            begin, end = max(self.raw_contents, key=lambda span: span[1] - span[0])
        id_begin, id_end = self.ids[0] if self.ids else (0, 0)
        return Spans(id_begin, id_end, begin, self.size - end) if id_end <= begin else None


def find_header_limit(limits: Limits) -> int:
    """Returns the number of bytes that a message may have in addition to its raw contents.

    Elements that are sent as numbers count towards this limit.
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
