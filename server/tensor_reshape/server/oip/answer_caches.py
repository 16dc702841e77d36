"""A cache of the headers of responses. The key is the whole request without its elements and its id.

See `service.header_cache` for the native methods. In this protocol, more fields may follow the elements, such as a
requested shape that is an input of its own. Many clients also send another id with each request, which the response
repeats. The response to a shape query has no elements, so the cache keeps the whole response.

- A cached response belongs to a request with the same bytes around the elements and the same number of elements. Only
  the elements and the id may differ.
- The id must be a separate field in front of the elements, with less than 128 ASCII characters.
- The place of the field shows that it is an id, because an id was parsed there, between the same bytes. In other
  places, the same bytes may be part of another field, such as a packed shape.
- The cache is bounded. Any thread may use it without a lock, like `service.header_cache`.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.header_cache import MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
from tensor_reshape.wire.fields import SHORT_BYTES

ID_TAG = 0x1A
"""Field 3, length-delimited: the id, in requests and in responses."""

_ID_HEADER_BYTES = 2  # of a short field: its tag and its length


class Spans(NamedTuple):
    """The positions of the parts of a request that may differ.

    Attributes:
        id_begin: the begin of the field with the id.
        id_end: the end of this field; equal to `id_begin` without an id.
        begin: the begin of the elements; the end of the request if it has no elements.
        tail: the number of bytes after the elements.
    """

    id_begin: int
    id_end: int
    begin: int
    tail: int

    def cut(self, request: bytes) -> bytes:
        """Returns the part of a request that may not differ."""
        id_begin, id_end, begin, tail = self
        head = request[:begin] if id_begin == id_end else request[:id_begin] + request[id_end:begin]
        return head + request[len(request) - tail :] if tail else head

    def find_layout(self, request: bytes) -> tuple[int, int, int, int]:
        """Returns the number of bytes of elements, and the positions at which the request is cut."""
        id_begin, id_end, begin, tail = self
        return len(request) - begin - tail, id_begin, begin - (id_end - id_begin), tail

    def find_id(self, request: bytes) -> bytes | None:
        """Returns the field with the id, which is empty without an id; None if another field is in its place."""
        if self.id_begin == self.id_end:
            return b""
        field = request[self.id_begin : self.id_end]
        content = field[_ID_HEADER_BYTES:]
        is_id = len(content) < SHORT_BYTES and field[:_ID_HEADER_BYTES] == bytes((ID_TAG, len(content)))
        return field if is_id and content.isascii() else None


class Hit(NamedTuple):
    """The response to a request.

    Attributes:
        header: the bytes of the response before the elements.
        payload: the elements of the request, which follow the header.
        model: the name of the model.
    """

    header: bytes
    payload: memoryview
    model: str


class AnswerCache:
    """A cache of responses. Any thread may use it."""

    def __init__(self) -> None:
        """Starts empty."""
        # Layout, header without an id, and model, by the part of the request that may not differ.
        self._answers: RecentCache[bytes, tuple[tuple[int, int, int, int], bytes, str]] = RecentCache(
            MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
        )
        self._guess = Spans(0, 0, 0, 0)  # the spans of the last request; one store sets it

    def find(self, request: bytes, spans: Spans | None = None) -> Hit | None:
        """Returns the cached response to `request`, or None. Without `spans`, it uses those of the last request."""
        spans = spans or self._guess
        cached = self._answers[spans.cut(request)]
        # The same bytes at the same positions, and the same number of elements.
        if cached is None or cached[0] != spans.find_layout(request):
            return None
        id_field = spans.find_id(request)
        if id_field is None:
            return None
        self._guess = spans
        return Hit(id_field + cached[1], memoryview(request)[spans.begin : len(request) - spans.tail], cached[2])

    def add(self, request: bytes, spans: Spans, header: bytes, model: str) -> None:
        """Adds the response to a request. `header` has no id."""
        if spans.find_id(request) is None:
            return
        key = spans.cut(request)
        if self._answers.keep(key, (spans.find_layout(request), header, model), len(key) + len(header)):
            self._guess = spans
