"""Calls on gRPC's core that a test controls step by step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.grpc.calls import CoreCall
from tensor_reshape.server.grpc.servers import Route, Server

ANY_PORT = "127.0.0.1:0"
METHOD = "/a.Service/Method"
SECONDS = 60.0


class ManualCall(CoreCall):
    """A call that starts no operation by itself, and records its events."""

    def __init__(self, method: str, new: Any) -> None:  # noqa: ANN401 - an object of grpcio without types
        super().__init__(method, new)
        self.messages = SimpleQueue[bytes | None]()  # the received messages
        self.sizes = SimpleQueue[int]()  # the sizes of the sent messages
        self.overs = SimpleQueue[bool]()  # for each `on_over`, whether the client was gone

    def begin(self) -> None:
        pass

    def on_message(self, raw: bytes | None) -> None:
        self.messages.put(raw)

    def on_sent(self, size: int) -> None:
        self.sizes.put(size)

    def on_over(self) -> None:
        self.overs.put(self.is_gone)

    def send_now(self, message: bytes) -> None:
        with self.lock:
            self.send(message)


def open_unknown(new: Any) -> CoreCall:  # noqa: ANN401 - an object of grpcio without types
    call = ManualCall(new.method.decode(), new)
    call.finish()
    return call


def find_source(peer: str, metadata: Any) -> Source:  # noqa: ANN401 - metadata of a test are pairs of text
    """Returns the address in the metadata of a call, because a test has only one real address."""
    return Source(dict(metadata).get("address", ""), peer)


class CoreServer:
    """A server of such calls."""

    def __init__(self, kind: Callable[[str, Any], CoreCall], options: Sequence[tuple[str, int]]) -> None:
        self.calls = SimpleQueue[CoreCall]()  # a queue of the calls that have begun
        self.begun: list[CoreCall] = []  # all calls that have begun
        self.make: Callable[[Any], CoreCall] = lambda new: kind(METHOD, new)  # makes a call; a test may replace it
        # the server
        self.server = Server({METHOD: Route.without_limit(self.open)}, open_unknown, find_source, options)
        self.address = f"127.0.0.1:{self.server.add_port(ANY_PORT, None)}"  # its address

    def open(self, new: Any) -> CoreCall:  # noqa: ANN401 - an object of grpcio without types
        call = self.make(new)
        self.begun.append(call)
        self.calls.put(call)
        return call


@contextmanager
def run_core(
    kind: Callable[[str, Any], CoreCall] = ManualCall, options: Sequence[tuple[str, int]] = ()
) -> Iterator[CoreServer]:
    served = CoreServer(kind, options)
    served.server.start()
    try:
        yield served
    finally:
        served.server.stop()
        for call in served.begun:
            call.watch()  # a call without an operation is never over
        served.server.cancel_calls()
        assert served.server.wait(SECONDS)
