"""A cache of the headers of responses. The key of a header is the request without its elements and its id.

`service.header_cache` is the cache of the native methods. It cannot be used for this protocol for two reasons. In this
protocol, other fields may follow the elements, for example the requested shape if it is an input. In addition, many
clients send a new id with each request, which the response must repeat.

- A cached header is used for requests that differ only in the elements and in the id. The number of elements must be
  the same.
- The response to a shape query has no elements, so the cache keeps the whole response.
- The id must be a field before the elements, with less than 128 ASCII characters.
- The cache identifies the id by its position. At the same position, between the same bytes, an id was parsed in an
  earlier request. In other positions, the same bytes may be part of another field, such as a packed shape.
- The memory of the cache is limited. Any thread may use the cache without a lock, like `service.header_cache`.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.header_cache import MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
from tensor_reshape.wire.fields import SHORT_BYTES

ID_TAG = 0x1A
"""The tag of field 3 (length-delimited), which is the id in requests and in responses."""

_ID_HEADER_BYTES = 2  # the tag and the length of a field with a short id


class Spans(NamedTuple):
    """The positions of the two parts in which requests with the same response header may differ.

    Attributes:
        id_begin: the start of the field with the id.
        id_end: the end of this field. Without an id it is equal to `id_begin`.
        begin: the start of the elements. Without elements it is the end of the request.
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
        """Returns the size of the elements and the positions at which `cut` cuts the request."""
        id_begin, id_end, begin, tail = self
        return len(request) - begin - tail, id_begin, begin - (id_end - id_begin), tail

    def find_id(self, request: bytes) -> bytes | None:
        """Returns the field with the id, or "" without an id. Returns None if other bytes are at this position."""
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
        payload: the elements of the request, which follow the header in the response.
        model: the name of the model.
    """

    header: bytes
    payload: memoryview
    model: str


class ResponseCache:
    """A cache of response headers. Any thread may use it."""

    def __init__(self) -> None:
        """Starts empty."""
        # The key of an entry is the request without its id and its elements (`Spans.cut`). The entry has the layout of
        # the request (`Spans.find_layout`), the response header without an id, and the name of the model.
        self._responses: RecentCache[bytes, tuple[tuple[int, int, int, int], bytes, str]] = RecentCache(
            MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
        )
        # The spans of the last request, which are probably those of the next one. This assignment is atomic.
        self._guess = Spans(0, 0, 0, 0)

    def find(self, request: bytes, spans: Spans | None = None) -> Hit | None:
        """Returns the cached response to `request`, or None. Default of `spans`: the spans of the last request."""
        spans = spans or self._guess
        cached = self._responses[spans.cut(request)]
        # The other bytes must be at the same positions, and the number of elements must be the same.
        if cached is None or cached[0] != spans.find_layout(request):
            return None
        id_field = spans.find_id(request)
        if id_field is None:
            return None
        self._guess = spans
        return Hit(id_field + cached[1], memoryview(request)[spans.begin : len(request) - spans.tail], cached[2])

    def add(self, request: bytes, spans: Spans, header: bytes, model: str) -> None:
        """Adds the response header of a request, without the field with the id."""
        if spans.find_id(request) is None:
            return
        key = spans.cut(request)
        if self._responses.keep(key, (spans.find_layout(request), header, model), len(key) + len(header)):
            self._guess = spans
