"""Calls that gRPC's core has handed over, and grpcio has not: also those whose headers it is reading.

grpcio asks the core for a call by an object that has room for it, and lets nobody see that until it has made pairs of
all headers. But the collector of garbage knows of it, and of the call in it. Where a release of grpcio has it
otherwise, there are none. Nor would there be if objects of the process were frozen (`gc.freeze`): nobody does so.

The collector is asked for what refers to the tag of all requests, never for all objects: among these are tuples that
another thread is just making, and to make one fails while anybody else has it (SystemError; an import of numpy did).

Unread are the calls whose headers a thread is reading, and those that wait for it behind them. Which are which, nothing
tells; but it takes them in the order in which they came. So once as many have been taken as were waiting at a time,
those of that time that are still unread are being read. And where all are of one connection, it does not matter.
Calls of other servers of the process may be among them. So who closes offenders looks among the connections of one
server alone.
"""

import gc
import time
from typing import Any

from grpc import _server  # its tag of requests
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

_REST_SHARE = 5.0  # times as long as a look took, until the next one: no more than a sixth of the time
_TAG, _REQUEST, _CALL = "_REQUEST_CALL_TAG", "_RequestCallTag", "Call"


def find_unread_calls() -> list[Any]:
    """Returns these calls of all servers of the process; the collector looks at all objects there are: some 5 ms."""
    names = (_server, _TAG), (cygrpc, _REQUEST), (cygrpc, _CALL)
    tag, request, call = (getattr(module, name, None) for module, name in names)
    if None in (tag, request, call):
        return []
    requests = [found for found in gc.get_referrers(tag) if type(found) is request]
    parts = [part for found in requests for part in gc.get_referents(found)]
    return [part for part in parts if type(part) is call and part.is_valid]  # else the core has no call for it yet


def name_peer(call: Any) -> str:  # noqa: ANN401 - grpcio's, without types
    """Returns the name of a call's connection; none of one that has run out of time, or was cancelled."""
    name = str(call.peer(), "utf8", "replace")
    return name if ":" in name else ""


class SenderFinder:
    """Finds who has sent the lists of headers that one thread reads, each within a pause of the one before."""

    def __init__(self) -> None:
        """Knows of none."""
        self._suspects: list[Any] = []  # calls that were unread at a time, and
        self._taken_then = 0  # how many calls have been taken when all of these have
        self._known = 0  # of how many of the lists that are being read, the first ones, the sender was told
        self._rests_until = 0.0

    def look(self, taken: int, depth: int) -> set[str]:
        """Returns the names of connections that send such lists; none as long as it is not known, or was told.

        Args:
            taken: how many calls the thread has taken, those included whose lists are being read.
            depth: how many these are.
        """
        began = time.perf_counter()
        if depth <= self._known or began < self._rests_until:
            return set()
        found = self._find(taken, depth)
        names = {name for name in map(name_peer, found) if name}
        if names and len(found) >= depth:
            self._known = depth
        now = time.perf_counter()
        self._rests_until = now + (now - began) * _REST_SHARE
        return names

    def note_end(self, depth: int) -> None:
        """Notes that a list was read to its end, and how many still are being read."""
        self._known = min(self._known, depth)
        if not depth:
            self._suspects = []  # who keeps a call keeps what it has taken

    def _find(self, taken: int, depth: int) -> list[Any]:
        unread = find_unread_calls()
        if len(set(map(name_peer, unread))) == 1:
            self._suspects = []
            return unread
        if not self._suspects:
            self._suspects, self._taken_then = unread, taken + len(unread) - depth
        if taken < self._taken_then:
            return []
        still_unread = set(unread)
        found, self._suspects = [call for call in self._suspects if call in still_unread], []
        return found
