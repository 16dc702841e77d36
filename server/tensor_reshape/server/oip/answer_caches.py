"""The headers of answers, by all of their requests but the elements: see `service.header_cache`, of which this is one.

Here more may follow the elements: the target shape, where it is an input of its own.

Laws: as there. An answer that repeats the id of its request is not kept: no other request would be answered by it.
"""

from typing import NamedTuple

from tensor_reshape.server.service.header_cache import MAX_CACHED_HEADER_BYTES, MAX_CACHED_HEADERS


class CachedAnswer(NamedTuple):
    """How a request is answered.

    Attributes:
        request_bytes: the length of the whole request.
        start: where its elements begin.
        tail: how many bytes follow them.
        header: of the answer.
        model: the name of the one that answers.
    """

    request_bytes: int
    start: int
    tail: int
    header: bytes
    model: str


class AnswerCache:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        """Starts empty."""
        self._answers: dict[bytes, CachedAnswer] = {}
        self._guess = (0, 0)  # where the elements of the last request began, and what followed them; one store sets it

    def find(self, request: bytes) -> CachedAnswer | None:
        """Returns how `request` is answered, where its elements lie as the last one's did; else None."""
        start, tail = self._guess
        size = len(request)
        cached = self._answers.get(request[:start] + request[size - tail :] if tail else request[:start])
        # The same bytes around as many others in the same place: then it is the same request but for these.
        if cached is None or (cached.request_bytes, cached.start, cached.tail) != (size, start, tail):
            return None
        return cached

    def find_at(self, request: bytes, start: int, end: int) -> CachedAnswer | None:
        """Does the same where it is known where the elements begin and end."""
        tail = len(request) - end
        if start + tail > MAX_CACHED_HEADER_BYTES:
            return None
        self._guess = (start, tail)
        return self.find(request)

    def add(self, request: bytes, cached: CachedAnswer) -> None:
        """Keeps an answer."""
        if cached.start + cached.tail > MAX_CACHED_HEADER_BYTES:
            return
        if len(self._answers) >= MAX_CACHED_HEADERS:
            self._answers.clear()  # all of them: see `HeaderCache.add`
        self._guess = (cached.start, cached.tail)
        self._answers[request[: cached.start] + request[len(request) - cached.tail :]] = cached
