"""Calls on gRPC's core that a test controls step by step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue

from tensor_reshape.server.calls.call_info import Metadata
from tensor_reshape.server.calls.sources import Source, Sources
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.grpc.calls import CoreCall, NewCall
from tensor_reshape.server.grpc.servers import Route, Server
from tensor_reshape.server.grpc.services import Service
from tensor_reshape.server.service.method_tables import MethodTable, UnaryMethod

ANY_PORT = "127.0.0.1:0"
METHOD = "/a.Service/Method"
SECONDS = 60.0


class ManualCall(CoreCall):
    """A call that starts no operation by itself, and records its events."""

    def __init__(self, method: str, new: NewCall) -> None:
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


class NamedSources(Sources):
    """Returns the address in the metadata of a call, because a test has only one real address."""

    def find(self, peer: str, metadata: Metadata) -> Source:
        return Source(str(dict(metadata).get("address", "")), peer)


class CoreServer:
    """A server of such calls."""

    def __init__(self, kind: Callable[[str, NewCall], CoreCall], options: Sequence[tuple[str, int]] = ()) -> None:
        self.calls = SimpleQueue[CoreCall]()  # a queue of the calls that have begun
        self.begun: list[CoreCall] = []  # all calls that have begun
        self.make: Callable[[NewCall], CoreCall] = lambda new: kind(METHOD, new)  # a test may replace it
        self.service = Service(Engine(Config()), MethodTable((), ()), {})
        self.server = Server([self.service], NamedSources(["192.0.2.1"]), options)
        self.server._routes[METHOD.encode()] = Route(self.open, self.service, UnaryMethod(METHOD, lambda raw, _: raw))
        self.address = f"127.0.0.1:{self.server.add_port(ANY_PORT, None)}"  # its address

    def open(self, service: Service, method: UnaryMethod, new: NewCall) -> CoreCall:
        del service, method
        call = self.make(new)
        self.begun.append(call)
        self.calls.put(call)
        return call


@contextmanager
def run_core(
    kind: Callable[[str, NewCall], CoreCall] = ManualCall, options: Sequence[tuple[str, int]] = ()
) -> Iterator[CoreServer]:
    served = CoreServer(kind, options)
    served.server.start()
    try:
        yield served
    finally:
        served.server.stop()
        for call in served.begun:
            call.detect_disconnect()  # a call without an operation is never over
        served.server.cancel_calls()
        assert served.server.wait(SECONDS)
