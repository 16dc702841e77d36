"""Bounds the requests that are served at the same time, and the memory that they use."""

import asyncio
from collections import Counter
from typing import Any

from tensor_reshape.rules.errors import LimitError, Reason

RETRY_SECONDS = 1.0
"""The delay after which a rejected client may retry."""


class Admission:
    """The running requests of a process, and the bytes that are reserved for them.

    A host may have half of the requests and half of the bytes. The only request of a host may have three quarters of
    the bytes (`largest_bytes`), so that other hosts find memory.

    Attributes:
        max_requests: the maximum number of running requests.
        max_bytes: the maximum number of reserved bytes.
        used_bytes: the number of reserved bytes.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        """Starts without requests."""
        self.max_requests, self.max_bytes = max_requests, max_bytes
        self.used_bytes = 0
        self._requests: Counter[str] = Counter()  # by host
        self._bytes: Counter[str] = Counter()  # by host

    @property
    def largest_bytes(self) -> int:
        """The maximum number of bytes of one request."""
        return max(1, self.max_bytes * 3 // 4)

    def __len__(self) -> int:
        """Returns the number of running requests."""
        return self._requests.total()

    def enter(self, host: str, size: int) -> "Place":
        """Reserves a place and `size` bytes for a request of a host.

        Raises:
            LimitError: SERVER_BUSY, if too many requests are running or memory is short.
        """
        if len(self) >= self.max_requests or self._requests[host] >= max(1, self.max_requests // 2):
            raise _reject("the server serves too many requests")
        place = Place(self, host)
        self._requests[host] += 1
        try:
            place.grow(size)
        except LimitError:
            self.leave(host)
            raise
        return place

    def change(self, host: str, size: int) -> None:
        """Reserves more bytes for a host, or frees bytes if `size` is negative.

        Raises:
            LimitError: SERVER_BUSY, if there is not enough memory.
        """
        most = self.largest_bytes if self._requests[host] == 1 else self.max_bytes // 2
        if size > 0 and (self.used_bytes + size > self.max_bytes or self._bytes[host] + size > most):
            raise _reject("the server has no free memory")
        self.used_bytes += size
        self._bytes[host] += size

    def leave(self, host: str) -> None:
        """Frees the place of a request, whose bytes are free."""
        self._requests[host] -= 1
        if not self._requests[host]:
            del self._requests[host], self._bytes[host]


class Place:
    """The place of one request.

    Attributes:
        host: the host of the client.
        work: the work of the request on a thread, or None.
        size: the number of reserved bytes.
    """

    def __init__(self, admission: Admission, host: str) -> None:
        """Makes a place without memory."""
        self._admission, self.host = admission, host
        self.work: asyncio.Future[Any] | None = None
        self.size = 0

    def grow(self, size: int) -> None:
        """Reserves more bytes, so that the request has `size` bytes.

        Raises:
            LimitError: SERVER_BUSY, if there is not enough memory.
        """
        self._admission.change(self.host, size - self.size)
        self.size = size

    def leave(self) -> None:
        """Frees the place and the bytes, when no thread works for the request any more."""
        if self.work is not None and not self.work.done():
            self.work.add_done_callback(lambda _: self._free())
        else:
            self._free()

    def _free(self) -> None:
        self._admission.change(self.host, -self.size)
        self._admission.leave(self.host)


def _reject(text: str) -> LimitError:
    error = LimitError.of(Reason.SERVER_BUSY, text)
    error.retry_seconds = RETRY_SECONDS
    return error
