"""Lists of headers that take more than they may, and that gRPC's core hands over all the same.

- The core keeps a caller to `grpc.max_metadata_size` from when he has acknowledged the server's settings. Until then it
  takes the 16 MiB that it starts with, and no option says less: half a million headers, of which each may be one byte
  on the wire (HPACK names it by its place in a table). What it refuses it hands over as well, as far as it was read.
- Here such a call is refused before anything keeps it: what waits for its turn holds no more than it may. The caller is
  told RESOURCE_EXHAUSTED, as by the core, and the call counts as one that was reset.
- Several times the bound is sent by hardly anybody who means well: the connection is an offender because of one call.
- grpcio makes two texts and a pair of each header, in 1 µs, before anybody here sees the call. Of a value that is no
  text it logs a line besides, in 8 µs. Above the bound no pairs are made, but one stands for all, and nothing is
  logged: that takes 0.2 µs, or 1.7, and together up to 0.8 s of the thread that serves all.
- So from an offence on others come first: after each millisecond in which such a list was read, those that wait are
  served, within the making of a pair. And its sender is silenced while it is read: of the 128 calls that a connection
  may have, the core reads only a few more, which take up to 34 MiB each. Lists that come while one is read are read
  first, and in the same way.
- All of this is so in threads in which `HeaderBound.begin` was called: whatever else the process does with gRPC has all
  its pairs and lines.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.heads import Metadata
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.calls.unread_calls import SenderFinder, name_peer

OFFENCE = 4
"""Times the bound that a list of headers may take until its connection has to go."""

LEAST_OFFENCE_BYTES = 1 << 16
"""What is no offence, however low the bound: a first call may come before its caller can know the bound."""

FIRST_READ_SECONDS = 0.002
"""How long a list is read that is an offence until others are served: many are at their end by then."""

READ_SECONDS = 0.001
"""How long it is read from then on until others are served again."""

MOST_DEPTH = 64
"""How many lists are begun to be read while others are read that came before. One more than that has no pauses."""

_PAUSE_BYTES = 1 << 14  # of headers, after which it is seen whether it is time for a pause
_PAIR_BYTES = 32  # that HTTP/2 counts for a header besides its name and value (RFC 9113, section 6.5.2)
# What grpcio makes pairs with, and tells its log by: it looks both up in its module each time.
_PAIR_MAKER, _LOG = "_Metadatum", "_LOGGER"
_UNMADE = ("", "")


class _Here(threading.local):
    """The bound of a thread; None: nothing is bounded there."""

    bound: "HeaderBound | None" = None


_here = _Here()
_make: Any = getattr(cygrpc, _PAIR_MAKER, None)
_log: Any = getattr(cygrpc, _LOG, None)


def _make_pair(key: str, value: str | bytes) -> object:
    bound = _here.bound
    if bound is None:
        return _make(key, value)
    bound.left = left = bound.left - _PAIR_BYTES - len(key) - len(value)
    if left >= 0:
        return _make(key, value)
    if left < bound.pauses_below:
        bound.pause()
    return _UNMADE


class _Log:
    """grpcio's log, but for what is said of headers above the bound."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the log has
        return getattr(_log, name)

    def exception(self, *what: object) -> None:
        bound = _here.bound
        if bound is None or bound.left >= 0:
            _log.exception(*what)


class HeaderBound:
    """What the headers of a call may take, in one thread that receives calls.

    Attributes:
        left: how many bytes are still admitted of the call whose headers are being read; below 0, they are too many.
        pauses_below: of these, where others are to be served before more is read.
    """

    def __init__(self, max_bytes: int, resets: ResetBuckets) -> None:
        """Refuses what takes more.

        Args:
            max_bytes: of names, values and 32 bytes for each pair; `:path` and the like are not among them.
            resets: is told of each call that is refused, and of offenders.
        """
        self._max_bytes = max_bytes
        self._least_left = max_bytes - max(OFFENCE * max_bytes, LEAST_OFFENCE_BYTES)
        self._resets = resets
        self._text = f"the metadata takes more than {max_bytes} bytes"
        self._serve_others: Callable[[], None] = lambda: None
        self._senders = SenderFinder()
        self._received = 0  # calls
        self._depth = 0  # how many lists are being read, each within a pause of the one before
        self._pauses_at = 0.0  # when it is time for the next pause
        self.renew()

    def begin(self, serve_others: Callable[[], None]) -> None:
        """Bounds the headers that are read in this thread; to be called before it receives its first call.

        Args:
            serve_others: serves those that wait, for a moment.
        """
        self._serve_others = serve_others
        _here.bound = self
        if _make is not None:
            setattr(cygrpc, _PAIR_MAKER, _make_pair)
        if _log is not None:
            setattr(cygrpc, _LOG, _Log())

    def renew(self) -> None:
        """Admits as much again; to be called before each call is received, and whatever else comes with headers."""
        self.left, self.pauses_below = self._max_bytes, self._least_left

    def pause(self) -> None:
        """Serves others, while a list is read that is an offence already, and has its sender silenced."""
        left = self.left
        if self.pauses_below == self._least_left:
            self._pauses_at = time.perf_counter() + FIRST_READ_SECONDS
        elif self._depth < MOST_DEPTH and time.perf_counter() >= self._pauses_at:
            self._depth += 1
            self._resets.accuse(self._senders.look(self._received + self._depth, self._depth))
            self._serve_others()
            self._depth -= 1
            self._pauses_at = time.perf_counter() + READ_SECONDS
        self.left, self.pauses_below = left, left - _PAUSE_BYTES

    def refuse(self, event: Any) -> bool:  # noqa: ANN401 - grpcio's, without types
        """Refuses the call that was received last in this thread, if it has to be.

        Args:
            event: of grpcio.

        Returns:
            Whether the call is refused, and over.
        """
        left = self.left if _make is not None else self._max_bytes - count_bytes(event.invocation_metadata)
        self._received += 1
        if left >= 0:
            return False
        peer = name_peer(event.call)
        self._senders.note_end(self._depth)
        if left < self._least_left:
            self._resets.accuse({peer})
        else:
            self._resets.note_reset(peer, math.inf)
        event.call.cancel(cygrpc.StatusCode.resource_exhausted, self._text)
        return True


def count_bytes(metadata: Metadata) -> int:
    """Returns what headers take, as HTTP/2 counts it."""
    return sum(_PAIR_BYTES + len(key) + len(value) for key, value in metadata)
