"""Lists of headers that take more than they may, and that gRPC's core hands over all the same.

- The core keeps a caller to `grpc.max_metadata_size` from when he has acknowledged the server's settings. Until then it
  takes the 16 MiB that it starts with, and no option says less: half a million headers, of which each may be one byte
  on the wire (HPACK names it by its place in a table). What it refuses it hands over as well, as far as it was read.
- Here such a call is refused before anything keeps it: what waits for its turn holds no more than it may. The caller is
  told RESOURCE_EXHAUSTED, as by the core, and the call counts as one that was reset.
- Several times the bound is sent by hardly anybody who means well: the connection is an offender because of one call.
- grpcio makes two texts and a pair of each header, in 1 µs, before anybody here sees the call; meanwhile no other call
  is served, and no thread of Python's runs. Of a value that is no text it logs a line besides, in 8 µs. Above the bound
  no pairs are made, but one stands for all, and nothing is logged: that takes 0.1 µs, or 1.6. It is so in threads in
  which `HeaderBound.begin` was called: whatever else the process does with gRPC has all its pairs and lines.
"""

import math
import threading
from typing import Any

from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.heads import Metadata
from tensor_reshape.server.calls.resets import ResetBuckets

OFFENCE = 4
"""Times the bound that a list of headers may take until its connection has to go."""

LEAST_OFFENCE_BYTES = 1 << 16
"""What is no offence, however low the bound: a first call may come before its caller can know the bound."""

_PAIR_BYTES = 32  # that HTTP/2 counts for a header besides its name and value (RFC 9113, section 6.5.2)
# What grpcio makes pairs with, and tells its log by: it looks both up in its module each time.
_PAIR_MAKER, _LOG = "_Metadatum", "_LOGGER"
_UNMADE = ("", "")
_LARGE_BYTES = 256


class _Left(threading.local):
    """How many bytes of headers are still admitted in a thread; below 0, those of one call were too many."""

    size: float = math.inf


_left = _Left()
_make: Any = getattr(cygrpc, _PAIR_MAKER, None)
_log: Any = getattr(cygrpc, _LOG, None)


def _make_pair(key: str, value: str | bytes) -> object:
    left = _left.size
    if left >= 0:
        _left.size = left = left - _PAIR_BYTES - len(key) - len(value)
        if left >= 0:
            return _make(key, value)
    elif len(value) > _LARGE_BYTES:  # of others it is enough to know how many there are: this is done for each of them
        _left.size = left - len(value)
    return _UNMADE


class _Log:
    """grpcio's log, but for what is said of headers above the bound."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the log has
        return getattr(_log, name)

    def exception(self, *what: object) -> None:
        if _left.size >= 0:
            _log.exception(*what)


class HeaderBound:
    """What the headers of a call may take."""

    def __init__(self, max_bytes: int, resets: ResetBuckets) -> None:
        """Refuses what takes more.

        Args:
            max_bytes: of names, values and 32 bytes for each pair; `:path` and the like are not among them.
            resets: is told of each call that is refused, and of offenders.
        """
        self._max_bytes = max_bytes
        self._offence_bytes = max(OFFENCE * max_bytes, LEAST_OFFENCE_BYTES)
        self._resets = resets
        self._text = f"the metadata takes more than {max_bytes} bytes"

    def begin(self) -> None:
        """Bounds the headers that are read in this thread; to be called before it receives its first call."""
        if _make is not None:
            setattr(cygrpc, _PAIR_MAKER, _make_pair)
        if _log is not None:
            setattr(cygrpc, _LOG, _Log())
        self.renew()

    def renew(self) -> None:
        """Admits as much again; to be called before each call is received, and whatever else comes with headers."""
        _left.size = self._max_bytes

    def refuse(self, event: Any) -> bool:  # noqa: ANN401 - grpcio's, without types
        """Refuses the call that was received last in this thread, if it has to be.

        Args:
            event: of grpcio.

        Returns:
            Whether the call is refused, and over.
        """
        metadata = event.invocation_metadata
        left = _left.size if _make is not None else self._max_bytes - count_bytes(metadata)
        if left >= 0:
            return False
        least_bytes = max(self._max_bytes - left, _PAIR_BYTES * len(metadata))
        peer = str(event.call.peer(), "utf8", "replace")  # of a call that is cancelled it is not known
        if least_bytes > self._offence_bytes:
            self._resets.accuse(peer)
        else:
            self._resets.note_reset(peer, math.inf)
        event.call.cancel(cygrpc.StatusCode.resource_exhausted, self._text)
        return True


def count_bytes(metadata: Metadata) -> int:
    """Returns what headers take, as HTTP/2 counts it."""
    return sum(_PAIR_BYTES + len(key) + len(value) for key, value in metadata)
