"""Lists of headers that take more than they may, and that gRPC's core hands over all the same.

- The core keeps a caller to `grpc.max_metadata_size` from when he has acknowledged the server's settings. Until then it
  takes the 16 MiB that it starts with, and no option says less: half a million headers, of which each may be one byte
  on the wire (HPACK names it by its place in a table). What it refuses it hands over as well, as far as it was read.
- Here such a call is refused before anything keeps it: what waits for its turn holds no more than it may. The caller is
  told RESOURCE_EXHAUSTED, as by the core, and the call counts as one that was reset.
- Several times the bound is sent by nobody who means well, and may cost 50 ms: the connection is an offender at once.
- grpcio makes two texts and a pair of each header, in 1 µs, before anybody here sees the call; meanwhile no other call
  is served, and no thread of Python's runs. So pairs above the bound are not made, but one stands for all: that takes
  an eighth of the time. It is so in threads in which `HeaderBound.begin` was called: whatever else the process does
  with gRPC has all its pairs.
"""

import math
import threading
from typing import Any

from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.server.calls.resets import ResetBuckets

OFFENCE = 4
"""Times the bound that a list of headers may take until its connection has to go."""

_PAIR_BYTES = 32  # that HTTP/2 counts for a header besides its name and value (RFC 9113, section 6.5.2)
_PAIR_MAKER = "_Metadatum"  # what grpcio makes pairs with: it looks that up in its module each time
_UNMADE = ("", "")


class _Left(threading.local):
    """How many more bytes of pairs are made in a thread, until that is said anew; below 0: none."""

    size: float = math.inf


_left = _Left()
_make: Any = getattr(cygrpc, _PAIR_MAKER, None)


def _make_pair(key: str, value: str | bytes) -> object:
    if _left.size < 0:
        return _UNMADE
    _left.size -= _PAIR_BYTES + len(key) + len(value)
    return _make(key, value)


class HeaderBound:
    """What the headers of a call may take."""

    def __init__(self, max_bytes: int, resets: ResetBuckets) -> None:
        """Refuses what takes more.

        Args:
            max_bytes: of names, values and 32 bytes for each pair; `:path` and the like are not among them.
            resets: is told of each call that is refused, and of offenders.
        """
        self._max_bytes = max_bytes
        self._max_pairs = max_bytes // _PAIR_BYTES
        self._resets = resets
        self._text = f"the metadata takes more than {max_bytes} bytes"

    def begin(self) -> None:
        """Bounds the pairs that are made in this thread; to be called before it receives its first call."""
        if _make is not None:
            setattr(cygrpc, _PAIR_MAKER, _make_pair)
        self._renew()

    def refuse(self, event: Any) -> bool:  # noqa: ANN401 - grpcio's, without types
        """Refuses a call that was received just now, if it has to be.

        Args:
            event: of grpcio.

        Returns:
            Whether the call is refused, and over.
        """
        self._renew()
        metadata = event.invocation_metadata
        size = _PAIR_BYTES * len(metadata)
        for key, value in metadata[: self._max_pairs]:  # where there are more, these alone are too many
            size += len(key) + len(value)
        if size <= self._max_bytes:
            return False
        peer = str(event.call.peer(), "utf8", "replace")  # of a call that is cancelled it is not known
        if size > OFFENCE * self._max_bytes:
            self._resets.accuse(peer)
        else:
            self._resets.note_reset(peer, math.inf)
        event.call.cancel(cygrpc.StatusCode.resource_exhausted, self._text)
        return True

    def _renew(self) -> None:
        _left.size = self._max_bytes
