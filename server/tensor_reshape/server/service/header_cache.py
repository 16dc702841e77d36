"""A cache of response headers. The key of a response header is the header of the request.

A request consists of a header and the bytes of a tensor. The response consists of another header and the same bytes.
The response header depends only on the request header and on the number of bytes that follow. A known header is
therefore not parsed again.

- A cached response is the response of the service to a request with the same header and the same length.
- The memory is limited. The cache of a method takes at most 10 MiB, whatever clients send. It keeps at least 10,000
  headers of the usual size, which is 100 bytes or less.
- Any thread may use the cache without a lock, because each step is an atomic operation in CPython. The steps are dict
  operations and assignments of numbers. If another thread changes the guess of a header's end, the worst result is a
  cache miss.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache

MAX_CACHE_BYTES = 5 << 20
"""The maximum size of a generation of entries. The cache has two generations."""

MAX_CACHED_HEADER_BYTES = 2048
"""The maximum size of a request header and its response header together. 64 dims of any size fit into both headers."""


class CachedHeader(NamedTuple):
    """A cached response header.

    Attributes:
        request_bytes: the length of the whole request.
        start: the offset of the tensor's bytes in the request.
        header: the response header.
    """

    request_bytes: int
    start: int
    header: bytes


class Lookups:
    """The numbers of cache hits and misses. Any thread may change them.

    Threads count without a lock, because CPython switches threads only at calls and loops, but not within an addition.

    Attributes:
        hits: the number of lookups that found a response.
        misses: the number of lookups that found none.
    """

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        """Starts at zero."""
        self.hits = self.misses = 0


class HeaderCache:
    """The cached headers of one method. Any thread may use it."""

    def __init__(self) -> None:
        """Starts empty."""
        self._headers: RecentCache[bytes, CachedHeader] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES)
        # A guess of the position at which the header of the next request ends. It is the end of the last header,
        # because many requests of a client differ only in the bytes of their tensors. If the guess is right, the
        # request does not have to be searched for the end of its header.
        self._guess = 0

    def find(self, request: bytes) -> CachedHeader | None:
        """Returns the entry for `request` if its header has the same length as the last header. Otherwise None."""
        cached = self._headers[request[: self._guess]]
        return cached if cached is not None and cached.request_bytes == len(request) else None

    def find_at(self, request: bytes, start: int) -> CachedHeader | None:
        """Returns the entry for `request`, whose tensor's bytes begin at `start`, or None."""
        self._guess = min(start, MAX_CACHED_HEADER_BYTES)
        return self.find(request)

    def add(self, request: bytes, start: int, header: bytes) -> None:
        """Caches the response header of `request`, which ends with the tensor's bytes. They begin at `start`."""
        self._headers.keep(request[:start], CachedHeader(len(request), start, header), start + len(header))
