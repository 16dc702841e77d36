"""The headers of answers, by the headers of their requests.

A request is a header and a tensor's bytes that reach to its end; its answer is another header and the same bytes. The
answer's header depends on the request's header, and on how many bytes follow, alone. So for a header that has been
answered once, nothing is parsed any more.

- A cached answer is what the service gave for the same header and length: it never differs from an answer read anew.
- The cache is bounded, in headers and in the bytes of each: it takes less than 2 MiB whatever strangers send.
- Safe to use from any thread without a lock: each step is one operation of a dict, or stores one number, which CPython
  does not divide. A guess that another thread has changed is only a guess that fails.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache

MAX_CACHED_HEADERS = 1024
"""How many are kept."""

MAX_CACHED_HEADER_BYTES = 1024
"""The most that the headers of a request and of its answer take to be kept: only hostile requests have longer ones."""


class CachedHeader(NamedTuple):
    """How a request is answered.

    Attributes:
        request_bytes: the length of the whole request.
        start: where its tensor's bytes begin.
        header: of the answer.
    """

    request_bytes: int
    start: int
    header: bytes


class Lookups:
    """How often the answer to a request was known by its header; safe to use from any thread.

    Where threads count at once, CPython divides no addition: it switches threads at calls and loops alone.

    Attributes:
        hits: it was known.
        misses: it was worked out.
    """

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        """Starts with none."""
        self.hits = self.misses = 0


class HeaderCache:
    """The headers of one method; safe to use from any thread."""

    def __init__(self) -> None:
        """Starts empty."""
        self._headers: RecentCache[bytes, CachedHeader] = RecentCache(MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES)
        # Where the header of the last request ended: clients send many that differ in their bytes alone, so the next
        # one is likely to end there, too, and is found without looking for its end.
        self._guess = 0

    def find(self, request: bytes) -> CachedHeader | None:
        """Returns how `request` is answered, where its header ends as the last one's did; else None."""
        cached = self._headers[request[: self._guess]]
        return cached if cached is not None and cached.request_bytes == len(request) else None

    def find_at(self, request: bytes, start: int) -> CachedHeader | None:
        """Does the same where it is known that the tensor's bytes begin at `start`."""
        self._guess = min(start, MAX_CACHED_HEADER_BYTES)
        return self.find(request)

    def add(self, request: bytes, start: int, header: bytes) -> None:
        """Keeps the answer's header of a request whose tensor's bytes begin at `start`, and reach to the end."""
        self._headers.keep(request[:start], CachedHeader(len(request), start, header), start + len(header))
