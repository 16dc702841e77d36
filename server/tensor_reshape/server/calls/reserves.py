"""Threads for calls, of which some are kept for connections that hold none.

Calls wait for a thread in the order in which they come. So who begins many and says nothing, on a few connections, has
all others wait behind what is his, for as long as it takes to give those up. Here the first call of a connection that
holds no thread goes to a reserve, while that has a free one. A connection has one call there at most, so it takes as
many connections as there are threads in the reserve to fill it; then calls wait as they would without.
"""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any


class ReservedThreads:
    """Chooses which threads serve a call."""

    def __init__(self, threads: ThreadPoolExecutor, reserve: ThreadPoolExecutor, reserved: int) -> None:
        """Hands calls to `threads`, or to `reserve`, which has `reserved` of them."""
        self._threads = threads
        self._reserve = reserve
        self._lock = threading.Lock()  # guards what follows; nothing is done under it
        self._free = reserved
        self._calls: Counter[str] = Counter()  # by connection; of those that have or await a thread

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Has a thread serve a call; as `ThreadPoolExecutor.submit`, with what grpcio submits."""
        peer = _find_peer(args)
        with self._lock:
            is_reserved = self._free > 0 and not self._calls[peer]
            self._free -= is_reserved
            self._calls[peer] += 1
        try:
            future = (self._reserve if is_reserved else self._threads).submit(function, *args, **kwargs)
        except RuntimeError:  # the threads have been shut down
            self._note_end(peer, is_reserved, None)
            raise
        future.add_done_callback(partial(self._note_end, peer, is_reserved))
        return future

    def _note_end(self, peer: str, was_reserved: bool, _: "Future[Any] | None") -> None:  # noqa: FBT001 - a callback's
        with self._lock:
            self._free += was_reserved
            self._calls[peer] -= 1
            if not self._calls[peer]:
                del self._calls[peer]


def _find_peer(args: tuple[Any, ...]) -> str:
    """Returns the name of the connection; empty, for all, where this grpcio does not hand over its event there."""
    ask = getattr(getattr(args[1], "call", None), "peer", None) if len(args) > 1 else None
    return str(ask(), "utf8", "replace") if ask is not None else ""
