"""A cache of response headers of the Open Inference Protocol.

The key of a header is the request without its elements and its id.

`service.header_cache` is the cache for ReshapeService. That cache cannot be used for the Open Inference Protocol for
two reasons. In this protocol, other fields may follow the elements of a request, for example the requested shape if it
is an input. In addition, many clients send a new id with each request, and the response must repeat this id.

- A cached header is used for requests that differ only in their elements and their id. Requests that use the same
  cached header must have the same number of elements.
- The response to a shape query has no elements, so the cache keeps the whole response.
- A response is only cached if the id of the request comes before the elements and has less than 128 ASCII characters.
- The cache finds the id of a request by its position. This is safe, because in an earlier request, an id was parsed at
  the same position between the same bytes. At another position, bytes that look like an id may be part of another
  field, such as a packed shape.
- The memory of this cache is limited. Any thread may use the cache without a lock, as with `service.header_cache`.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.header_cache import MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
from tensor_reshape.wire.fields import SHORT_BYTES

ID_TAG = 0x1A
"""The tag of the id in requests and in responses, which is field 3 (length-delimited)."""

_ID_HEADER_BYTES = 2  # a field with a short id begins with one byte for the tag and one byte for the length


class Spans(NamedTuple):
    """The positions of the id and the elements, in which requests with the same response header may differ.

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
        payload: the elements of the request, which follow the header in the response.
        model: the name of the model.
    """

    header: bytes
    payload: memoryview
    model: str


class ResponseCache:
    """A cache of response headers. Any thread may use this cache."""

    def __init__(self) -> None:
        """Starts empty."""
        # The key of a cache entry is a request without its id and its elements (`Spans.cut`). The value contains the
        # layout of the request (`Spans.find_layout`), the response header without an id, and the name of the model.
        self._responses: RecentCache[bytes, tuple[tuple[int, int, int, int], bytes, str]] = RecentCache(
            MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES
        )
        # `_guess` contains the positions of the parts of the last request (`Spans`). In the next request, the parts are
        # probably at the same positions. The attribute `_guess` needs no lock, because its assignment is atomic.
        self._guess = Spans(0, 0, 0, 0)

    def find(self, request: bytes, spans: Spans | None = None) -> Hit | None:
        """Returns the cached response to `request`, or None.

        By default, `spans` has the value that fits the last request.
        """
        spans = spans or self._guess
        cached = self._responses[spans.cut(request)]
        # A response is only used if the request has the same layout as the cached request, and its elements have the
        # same size.
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
