"""A cache of response headers, by the headers of their requests.

A request is a header and a tensor's bytes, which extend to its end. Its response is another header and the same bytes.
The response header depends only on the request header and the number of bytes that follow. A known header is therefore
not parsed again.

- A cached response is what the service returned for the same header and length.
- The memory is limited: the cache of a method takes at most 10 MiB whatever clients send, and keeps at least 10,000
  headers of the usual size, which is 100 bytes or less.
- Any thread may use it without a lock, because each step is one atomic operation in CPython: a dict operation, or the
  assignment of a number. A guess that another thread has changed only misses.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache

MAX_CACHE_BYTES = 5 << 20
"""The largest memory of a generation of the cache."""

MAX_CACHED_HEADER_BYTES = 2048
"""The maximum size of a request header together with its response header. With 64 dims of any size they fit."""


class CachedHeader(NamedTuple):
    """A cached response.

    Attributes:
        request_bytes: the length of the whole request.
        start: the offset of the tensor's bytes.
        header: the response header.
    """

    request_bytes: int
    start: int
    header: bytes


class Lookups:
    """Counts of cache hits and misses; safe to use from any thread.

    Threads count without a lock, because CPython switches threads only at calls and loops, and not within an addition.

    Attributes:
        hits: lookups that found a response.
        misses: lookups that did not.
    """

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        """Starts at zero."""
        self.hits = self.misses = 0


class HeaderCache:
    """The cached headers of one method; safe to use from any thread."""

    def __init__(self) -> None:
        """Starts empty."""
        self._headers: RecentCache[bytes, CachedHeader] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES)
        # The end of the last request's header. Many requests of a client differ only in their tensor's bytes, so the
        # next header is likely to end there too and is found without a search.
        self._guess = 0

    def find(self, request: bytes) -> CachedHeader | None:
        """Returns the entry of `request` if its header ends where the last one's did; otherwise None."""
        cached = self._headers[request[: self._guess]]
        return cached if cached is not None and cached.request_bytes == len(request) else None

    def find_at(self, request: bytes, start: int) -> CachedHeader | None:
        """Does the same for a known offset of the tensor's bytes."""
        self._guess = min(start, MAX_CACHED_HEADER_BYTES)
        return self.find(request)

    def add(self, request: bytes, start: int, header: bytes) -> None:
        """Caches the response header of a request whose tensor's bytes begin at `start` and extend to its end."""
        self._headers.keep(request[:start], CachedHeader(len(request), start, header), start + len(header))
