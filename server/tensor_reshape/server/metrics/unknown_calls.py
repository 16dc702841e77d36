"""Calls of methods that nobody serves."""

from collections.abc import Callable

import grpc

from tensor_reshape.server.calls.heartbeats import METHOD


class UnknownCalls(grpc.GenericRpcHandler):
    """Counts them; it has to be the last handler of its server, which asks it for no other call."""

    def __init__(self, count: Callable[[], None]) -> None:
        """Counts by `count`, on the thread that receives calls."""
        self._count = count

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        """Counts a call, which is refused then; a worker's own heartbeats are nobody's calls."""
        if handler_call_details.method != METHOD:
            self._count()
