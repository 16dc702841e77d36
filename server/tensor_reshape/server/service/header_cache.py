"""A cache of the response headers of ReshapeService. The key of a response header is the header of its request.

A Reshape request consists of a header and the bytes of a tensor. The response consists of another header and the same
bytes. The response header depends only on the request header and on the number of bytes that follow. A known request
header is therefore not parsed again.

- A cached response header is used if an earlier request had the same header and the same length.
- The memory of the cache is limited. The cache of each method takes at most 10 MiB, whatever clients send. If headers
  have the usual size, which is 100 bytes or less, each of these caches keeps at least 10,000 headers.
- Any thread may use the cache without a lock, because each step is an atomic operation in CPython. The steps are dict
  operations and assignments of numbers. The cache guesses at which position the header of a request ends. If another
  thread changes the guess at the same time, the worst result is a cache miss.
"""

from typing import NamedTuple

from tensor_reshape.runtime.caches import RecentCache

MAX_CACHE_BYTES = 5 << 20
"""The maximum size of each of the two parts of a cache, in bytes."""

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
    """Counts cache hits and misses. Any thread may change the counts.

    Threads count without a lock, because CPython switches threads only at calls and loops, and not within an addition.

    Attributes:
        hits: the number of lookups that found a response.
        misses: the number of lookups that found no response.
    """

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        """Sets both counts to zero."""
        self.hits = self.misses = 0


class HeaderCache:
    """The cached response headers of one method. Any thread may use this object."""

    def __init__(self) -> None:
        """Makes an empty cache."""
        self._headers: RecentCache[bytes, CachedHeader] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES)
        # This attribute is a guess of the position at which the header of the next request ends. Many requests of a
        # client have equal headers, so the guess is the position at which the last header ended. If the guess is right,
        # the cache does not have to search for the end of the header.
        self._guess = 0

    def find(self, request: bytes) -> CachedHeader | None:
        """Returns the cache entry for `request`, or None.

        An entry is found only if its request header has the guessed length.
        """
        cached = self._headers[request[: self._guess]]
        return cached if cached is not None and cached.request_bytes == len(request) else None

    def find_at(self, request: bytes, start: int) -> CachedHeader | None:
        """Returns the cache entry for `request`, or None. The bytes of the tensor in `request` begin at `start`."""
        self._guess = min(start, MAX_CACHED_HEADER_BYTES)
        return self.find(request)

    def add(self, request: bytes, start: int, header: bytes) -> None:
        """Caches the response header of `request`.

        The bytes of the tensor begin at `start` and end with the request.
        """
        self._headers.keep(request[:start], CachedHeader(len(request), start, header), start + len(header))
