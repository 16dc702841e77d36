"""The headers of answers, by all of their requests but the elements and the id: see `service.header_cache`.

Here more may follow the elements (the target shape, where it is an input of its own), and many clients give each
request another id, which the answer repeats. The answer to a question has no elements: it is kept whole.

- A cached answer is what was answered to the same bytes around as many others: only elements and id may differ.
- An id is taken for one where it is a field of its own in front of the elements, of less than 128 ASCII characters.
  That it is one follows from its place: one was read there, between the same bytes. Elsewhere what looks like it may be
  part of another field: a packed shape does.
- Bounded, and safe to use from any thread without a lock, as the cache there.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.header_cache import MAX_CACHED_HEADER_BYTES, MAX_CACHED_HEADERS
from tensor_reshape.wire.fields import SHORT_BYTES

ID_TAG = 0x1A
"""Field 3, length-delimited: the id, of a request and of its answer alike."""

_ID_HEADER_BYTES = 2  # of a short field: its tag, and its length


class Spans(NamedTuple):
    """Where what may differ lies in a request.

    Attributes:
        id_begin: where the field of the id begins.
        id_end: where it ends; the same where there is none.
        begin: where the elements begin; the end of a request without any.
        tail: how many bytes follow them.
    """

    id_begin: int
    id_end: int
    begin: int
    tail: int

    def cut(self, request: bytes) -> bytes:
        """Returns what may not differ."""
        id_begin, id_end, begin, tail = self
        head = request[:begin] if id_begin == id_end else request[:id_begin] + request[id_end:begin]
        return head + request[len(request) - tail :] if tail else head

    def find_layout(self, request: bytes) -> tuple[int, int, int, int]:
        """Returns how many elements' bytes there are, and where what may not differ is cut."""
        id_begin, id_end, begin, tail = self
        return len(request) - begin - tail, id_begin, begin - (id_end - id_begin), tail

    def find_id(self, request: bytes) -> bytes | None:
        """Returns the field of the id, empty where there is none; None where something else is in its place."""
        if self.id_begin == self.id_end:
            return b""
        field = request[self.id_begin : self.id_end]
        content = field[_ID_HEADER_BYTES:]
        is_id = len(content) < SHORT_BYTES and field[:_ID_HEADER_BYTES] == bytes((ID_TAG, len(content)))
        return field if is_id and content.isascii() else None


class Hit(NamedTuple):
    """The answer to a request.

    Attributes:
        header: of the answer.
        payload: the elements of the request, which follow it.
        model: the name of the one that answers.
    """

    header: bytes
    payload: memoryview
    model: str


class AnswerCache:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        """Starts empty."""
        # Layout, header without an id, and model, by what may not differ.
        self._answers: RecentCache[bytes, tuple[tuple[int, int, int, int], bytes, str]] = RecentCache(
            MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES
        )
        self._guess = Spans(0, 0, 0, 0)  # of the last request; one store sets it

    def find(self, request: bytes, spans: Spans | None = None) -> Hit | None:
        """Returns the answer to `request`, where it is known; without `spans` it is taken to lie as the last one."""
        spans = spans or self._guess
        cached = self._answers[spans.cut(request)]
        # The same bytes in the same places, and as many between them.
        if cached is None or cached[0] != spans.find_layout(request):
            return None
        id_field = spans.find_id(request)
        if id_field is None:
            return None
        self._guess = spans
        return Hit(id_field + cached[1], memoryview(request)[spans.begin : len(request) - spans.tail], cached[2])

    def add(self, request: bytes, spans: Spans, header: bytes, model: str) -> None:
        """Keeps the answer to a request; `header` has no id."""
        if spans.find_id(request) is None:
            return
        key = spans.cut(request)
        if self._answers.keep(key, (spans.find_layout(request), header, model), len(key) + len(header)):
            self._guess = spans
