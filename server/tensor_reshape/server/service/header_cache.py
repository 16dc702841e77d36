"""The heads of answers, by the heads of their requests.

A request is a head and a tensor's bytes that reach to its end; its answer is another head and the same bytes. The
answer's head depends on the request's head, and on how many bytes follow, alone. So for a head that has been answered
once, nothing is parsed any more.
"""

from typing import NamedTuple

MAX_HEADS = 1024
"""How many are kept."""

MAX_KNOWN_HEAD_BYTES = 512
"""Larger heads are not kept: nothing but a hostile request has many of them."""


class Known(NamedTuple):
    """How a request is answered.

    Attributes:
        request_bytes: the length of the whole request.
        start: where its tensor's bytes begin.
        head: of the answer.
    """

    request_bytes: int
    start: int
    head: bytes


class Heads:
    """What is known of the requests of one method; safe to use from any thread."""

    def __init__(self) -> None:
        """Starts without any."""
        self._known: dict[bytes, Known] = {}
        self._guess = 0  # where the head of the last request ended

    def find(self, request: bytes) -> Known | None:
        """Returns how `request` is answered, where its head ends as the last one's did; else None."""
        known = self._known.get(request[: self._guess])
        return known if known is not None and known.request_bytes == len(request) else None

    def find_at(self, request: bytes, start: int) -> Known | None:
        """Does the same where it is known that the tensor's bytes begin at `start`."""
        self._guess = min(start, MAX_KNOWN_HEAD_BYTES)
        return self.find(request)

    def add(self, request: bytes, start: int, head: bytes) -> None:
        """Notes the answer's head of a request whose tensor's bytes begin at `start`, and reach to the end."""
        if start > MAX_KNOWN_HEAD_BYTES:
            return
        if len(self._known) >= MAX_HEADS:
            self._known.clear()  # in one step, whatever other threads do
        self._known[request[:start]] = Known(len(request), start, head)
