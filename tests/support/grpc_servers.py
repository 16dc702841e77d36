"""Servers with methods of a test: on gRPC's core, whose calls a test controls step by step, and on the engine."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.observers import CallLog
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.calls.sources import Source, Sources
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import Event, Lifecycle, State
from tensor_reshape.server.grpc.calls import CoreCall, NewCall
from tensor_reshape.server.grpc.servers import Route, Server
from tensor_reshape.server.grpc.services import Service
from tensor_reshape.server.service.method_tables import Estimate, MethodTable, StreamMethod, UnaryMethod, Work

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


UNARY, STREAM = "/a.Service/Unary", "/a.Service/Stream"
LONG, REJECTED, BROKEN, HUGE, UNFINISHED = b"long", b"rejected", b"broken", b"huge", b"unfinished"


class Watcher:
    """A journal that makes it possible to wait for events of calls, in any order."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.seen: list[tuple[Event, State]] = []
        self.results: list[tuple[CallInfo | None, str]] = []  # with the status code

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        del before, size
        with self.news:
            self.seen.append((event, life.state))
            self.results += [(life.info, result.code)] if result else []
            self.news.notify_all()

    def await_event(self, event: Event, count: int = 1) -> None:
        with self.news:
            assert self.news.wait_for(lambda: [one for one, _ in self.seen].count(event) >= count, SECONDS), self.seen


def answer(raw: bytes) -> bytes:
    """Responds by the end of the message: with its text in capitals, or with a rejection, a MemoryError or a bug."""
    if raw.endswith(REJECTED):
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "this is rejected", "a.field")
    if raw.endswith(HUGE):
        raise MemoryError
    if raw.endswith(BROKEN):
        message = "a secret"
        raise ValueError(message)
    return raw.upper()


class Echo:
    """A stream that responds to each message, except an empty one. Its end after UNFINISHED is an error."""

    is_between_tensors = True

    def __init__(self, reserve: Callable[[int], None]) -> None:
        self.reserve = reserve
        self.last = b""

    def receive(self, raw: bytes) -> Iterator[bytes]:
        self.last = raw
        if raw:
            yield answer(raw)

    def estimate(self, raw: bytes) -> Estimate:
        return Estimate(raw.startswith(LONG), len(raw))

    def finish(self) -> None:
        if self.last == UNFINISHED:
            answer(REJECTED)


METHODS = MethodTable(
    (UnaryMethod(UNARY, lambda raw, _: answer(raw), lambda raw: None if raw.startswith(LONG) else answer(raw)),),
    (StreamMethod(STREAM, Echo),),
)


@dataclass
class EngineServer:
    server: Server
    address: str
    engine: Engine
    service: Service
    watcher: Watcher = field(default_factory=Watcher)

    def check_nothing_is_held(self) -> None:
        """Waits until all entered calls are over, and checks that the engine has all memory back."""
        with self.watcher.news:
            seen = self.watcher.seen
            is_over = lambda: sum(state is State.DONE for _, state in seen) >= sum(e is Event.ENTER for e, _ in seen)  # noqa: E731
            assert self.watcher.news.wait_for(is_over, SECONDS), seen
        self.engine.list_calls()  # waits for the lock: DONE is recorded before the memory is returned
        assert (self.engine.used_bytes, self.engine.is_idle) == (0, True)


@contextmanager
def serve_engine(
    config: Config | None = None,
    *,
    methods: MethodTable = METHODS,
    pools: Mapping[Work, ThreadPoolExecutor] | None = None,
    others: Sequence[Service] = (),
    options: Sequence[tuple[str, int]] = (),
    clock: Callable[[], float] | None = None,
    observers: Sequence[CallLog] = (),
    on_unknown: Callable[[str], None] = lambda _method: None,
) -> Iterator[EngineServer]:
    config, watcher = config or Config(), Watcher()
    engine = Engine(config, (watcher,), clock=clock or time.monotonic, observers=observers)
    own = {work: ThreadPoolExecutor(2, work.name) for work in Work} if pools is None else {}
    service = Service(engine, methods, pools or own)
    server = Server((service, *others), Sources(config.trusted_proxy), options, on_unknown)
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0', None)}"
    server.start()
    try:
        yield EngineServer(server, address, engine, service, watcher)
    finally:
        server.stop()
        server.cancel_calls()
        assert server.wait(SECONDS)
        for pool in own.values():
            pool.shutdown()
