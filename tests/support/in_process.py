"""Servers inside this process: the real one, calls of it with their events and ends, and stock ones that misbehave."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc

from http2 import SERVICE_PATH, Connection, grpc_message
from plain_requests import SIX, STRIDED, begin, build_reshape, chunk
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.rules.operations import Operation
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import Journal
from tensor_reshape.server.process.pools import FairLock
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.methods import LIGHT_BYTES, Backend, ReshapeService
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.tensors import TensorView

ANY_PORT = "127.0.0.1:0"
WAIT_SECONDS = 60.0

Behavior = Callable[[bytes, grpc.ServicerContext], bytes]
Metadata = Sequence[tuple[str, str | bytes]]
StreamBehavior = Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]


class BlockedBackend:
    """A backend whose calls wait until they are released."""

    def __init__(self) -> None:
        self.entered = threading.Event()  # set when a call has reached the backend
        self.released = threading.Event()  # set it to release all calls

    def __call__(self, data: TensorView, dims: tuple[int, ...], limits: object) -> TensorView:
        del limits
        self.entered.set()
        self.released.wait(WAIT_SECONDS)
        return TensorView(data.data_type, dims, None, data.payload)


class ThreadService(ReshapeService):
    """Processes every tensor on a worker thread, because a blocking backend must not block the receiving thread."""

    def execute_light(self, operation: Operation, request: bytes) -> bytes | None:
        del operation, request
        return None


def hurry_stop(runner: Runner) -> int:
    """Stops a server at once, and returns how many calls it has cancelled."""
    hurry = threading.Event()
    hurry.set()
    return runner.stop(hurry)


class RecordingGate:
    """A gate that keeps the infos of calls, and admits them unless it has a rejection."""

    def __init__(self, rejection: ReshapeError | None = None) -> None:
        self.rejection = rejection
        self.infos = list[CallInfo]()
        self.left = threading.Semaphore(0)

    def admit(self, info: CallInfo) -> None:
        self.infos.append(info)
        if self.rejection is not None:
            raise self.rejection

    def leave(self, info: CallInfo) -> None:
        del info
        self.left.release()


@contextmanager
def run_runner(
    config: Config | None = None,
    backend: Backend = reshape,
    *,
    service: ReshapeService | None = None,
    journals: Sequence[Journal] = (),
    gates: Sequence[Gate] = (),
    **settings: Any,
) -> Iterator[Runner]:
    """Runs the real server with these settings, and with another backend or another service if one is given."""
    config = config or Config(**{"listen": (ANY_PORT,), "drain_seconds": 0, "shutdown_grace_seconds": 0, **settings})
    if service is None and backend is not reshape:
        service = ThreadService(config.limits, backend=backend, make_turns=FairLock)
    runner = Runner(config, service, gates=gates)
    runner._engine.journals += tuple(journals)
    runner.start()
    try:
        yield runner
    finally:
        hurry_stop(runner)


@contextmanager
def run_blocked(config: Config | None = None) -> Iterator[tuple[Runner, BlockedBackend]]:
    """Runs the real server with a backend whose calls wait. They are released at the end."""
    backend = BlockedBackend()
    with run_runner(config, backend) as runner:
        try:
            yield runner, backend
        finally:
            backend.released.set()


def lose_once(response: bytes, received: list[Metadata]) -> Behavior:
    """Returns a method that loses its first call and responds to all others. It adds their metadata to `received`."""

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        received.append(context.invocation_metadata())
        if len(received) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        return response

    return answer


@contextmanager
def run_stock(
    methods: Mapping[str, Behavior],
    *,
    streams: Mapping[str, StreamBehavior] = MappingProxyType({}),
    service: str = SERVICE,
    interceptors: list[grpc.ServerInterceptor] | None = None,
    options: Sequence[tuple[str, int]] = (),
    host: str = "127.0.0.1",
) -> Iterator[str]:
    """Runs a plain grpcio server that sends the bytes that the methods return. Yields its address."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4), interceptors=interceptors, options=options)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.unary_unary_rpc_method_handler(behavior) for name, behavior in methods.items()
    }
    handlers |= {name: grpc.stream_stream_rpc_method_handler(behavior) for name, behavior in streams.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port(f"{host}:0")
    server.start()
    try:
        yield f"{host}:{port}"
    finally:
        server.stop(None).wait(WAIT_SECONDS)


STALL_SECONDS = 0.5
RESHAPE, STREAM = f"{SERVICE_PATH}Reshape", f"{SERVICE_PATH}StreamReshape"
GOOD, LONG = build_reshape(24), build_reshape(2 * LIGHT_BYTES)
BEGINS = "ENTER REQUEST READ ARRIVE"
QUEUES = "QUEUE GRANT BEGIN_WORK"
ACCEPTS = f"{BEGINS} RESPOND REQUEST READ"


def pack(*messages: bytes) -> bytes:
    return b"".join(map(grpc_message, messages))


class Case(NamedTuple):
    """A call and its end."""

    path: str  # the path of the method
    data: bytes  # the bytes that the client sends
    events: str  # the recorded events, without SENT, whose time depends on the transport
    code: str = "OK"
    reason: str = ""  # the status code and the reason of the end
    field: str = ""  # the field at fault
    ends: bool = True  # whether the client half-closes the call


_STALLED = ("RESOURCE_EXHAUSTED", Reason.STALLED, "", False)
_MALFORMED = ("INVALID_ARGUMENT", Reason.MESSAGE_MALFORMED)
_MISMATCH = ("INVALID_ARGUMENT", Reason.VOLUME_MISMATCH, "shape")

CASES = {
    "a small call": Case(RESHAPE, pack(GOOD), f"{BEGINS} END OVER"),
    "a large call": Case(RESHAPE, pack(LONG), f"{BEGINS} {QUEUES} END OVER"),
    "a rejection": Case(RESHAPE, pack(build_reshape(24, 7)), f"{BEGINS} END OVER", *_MISMATCH),
    "a large rejection": Case(
        RESHAPE, pack(build_reshape(2 * LIGHT_BYTES, 7)), f"{BEGINS} {QUEUES} END OVER", *_MISMATCH
    ),
    "no message": Case(RESHAPE, b"", "ENTER REQUEST READ HALF_CLOSE END OVER", *_MALFORMED),
    "half a message": Case(RESHAPE, pack(bytes(100))[:50], "ENTER REQUEST READ HALF_CLOSE END OVER", *_MALFORMED),
    "a silent call": Case(RESHAPE, b"", "ENTER REQUEST READ ABORT OVER", *_STALLED),
    "a stream": Case(
        STREAM, pack(begin(), chunk(0, SIX)), f"{ACCEPTS} ARRIVE RESPOND REQUEST READ HALF_CLOSE END OVER"
    ),
    "a stream of strides": Case(
        STREAM,
        pack(STRIDED, chunk(0, SIX)),
        f"{ACCEPTS} ARRIVE QUEUE BEGIN_WORK RESPOND REQUEST READ HALF_CLOSE END OVER",
    ),
    "a rejected stream": Case(
        STREAM,
        pack(begin(), chunk(3, SIX)),
        f"{ACCEPTS} ARRIVE END OVER",
        "INVALID_ARGUMENT",
        Reason.CHUNK_OUT_OF_ORDER,
        "offset",
    ),
    "half a tensor": Case(
        STREAM,
        pack(begin()),
        f"{ACCEPTS} HALF_CLOSE END OVER",
        "INVALID_ARGUMENT",
        Reason.DATA_SIZE_MISMATCH,
        "data.data",
    ),
    "a stream that stands still": Case(STREAM, pack(begin()), f"{ACCEPTS} ABORT OVER", *_STALLED),
}


@contextmanager
def serve(
    backend: Backend = reshape, *, journals: Sequence[Journal] = (), gates: Sequence[Gate] = (), **settings: Any
) -> Iterator[Runner]:
    """Like `run_runner`, but the receiving thread processes small calls with any backend."""
    service = ReshapeService(Config(**settings).limits, backend=backend, make_turns=FairLock)
    with run_runner(service=service, journals=journals, gates=gates, **settings) as runner:
        yield runner


def end_call(
    address: str, path: str, data: bytes, *, ends: bool = True, headers: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    with Connection(address) as connection:
        stream = connection.open(path, end=ends and not data, headers=headers)
        if data:
            connection.send_data(stream, data, end=ends)
        connection.await_end(stream)
        return connection.headers[stream]
