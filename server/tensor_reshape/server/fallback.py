"""The fallback server, which uses only the public API of grpcio.

The fallback server is used if the server cannot use gRPC's core directly (see `grpc_core.probes`).

The fallback server lacks some guarantees, because grpcio's own server does not offer them.

- grpcio receives a message before the engine admits the call. Each of 128 threads may receive up to
  `--max-message-bytes`, and the memory budget counts a message only after its arrival.
- A call occupies a thread until the call ends. Clients that send nothing or read slowly can therefore occupy all
  threads, which also blocks health checks. grpcio does not distribute the threads fairly among clients.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from queue import SimpleQueue
from typing import NoReturn

import grpc

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.engine.call_info import CallInfo, record_response
from tensor_reshape.server.engine.call_logs import log_failure
from tensor_reshape.server.engine.lifecycle import CallResult, Lifecycle, State
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.statuses import OK, Failure, build_failure, reject_empty_call
from tensor_reshape.server.service.method_tables import Method, StreamMethod, WatchMethod

_THREADS = 128
_FOREVER = 1e9


class FallbackCall:
    """A call of the fallback server. The thread of the call waits for the decisions of the engine."""

    def __init__(self, method: str, service: Service, context: grpc.ServicerContext) -> None:
        """Creates a call that has not yet entered the engine."""
        self._engine, self._perform, self._context = service.engine, service.perform, context
        self._info = _build_info(method, context)
        self.life = Lifecycle(self, method)
        self.life.info = self._info
        self._source = service.sources.find(self._info.peer, self._info.metadata)
        # If the queue contains None, the call may continue.
        self._signals: SimpleQueue[LimitError | None] = SimpleQueue()

    def enter(self) -> None:
        """Adds the call to the engine and waits for a memory reservation. The message of the call has already arrived.

        Raises:
            ReshapeError: a gate or the engine rejects the call.
        """
        if not self._context.add_callback(self._on_over):
            self._on_over()
        self._engine.prepare(self.life, self._info.metadata, lambda: self._info)
        self._perform(self._engine.enter(self.life, self._source))
        self.wait()
        if self._info.trailing:
            self._context.set_trailing_metadata(self._info.trailing)

    def wait(self) -> None:
        """Waits until the engine lets the call continue.

        Raises:
            LimitError: the call is aborted or has ended.
        """
        rejection = self._signals.get()
        if rejection is not None:
            raise rejection

    def respond_unary(self, method: Method, raw: bytes) -> bytes:
        """Returns the response of a unary call.

        Raises:
            ReshapeError: the call ends with this error.
        """
        self.enter()
        self.report_message(raw)
        response = method.respond_light(raw)
        if response is None:
            self._perform(self._engine.request_work(self.life))
            self.wait()
            if not self._engine.begin_work(self.life):
                self.wait()
            response = method.respond(raw, lambda: self.life.is_over)
        record_response(self._info, response)
        self._perform(self._engine.end(self.life, OK, len(response)).effects)
        return response

    def respond_stream(self, stream: StreamMethod, requests: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the responses to the messages of a stream.

        Raises:
            ReshapeError: the call ends with this error.
        """
        session = stream.open(lambda size: self._perform(self._engine.reserve(self.life, size)))
        self.enter()
        for raw in requests:
            self.report_message(raw)
            responses = list(session.receive(raw))
            record_response(self._info, *responses[:1])
            moved = None if session.is_between_tensors else len(raw)
            self._perform(self._engine.respond(self.life, responses, moved))
            while self.life.outbox:
                message = self.life.outbox.popleft()
                yield message
                self._perform(self._engine.sent(self.life, len(message)))
            self.wait()  # the call waits until there is memory for its next message
        self._engine.message_received(self.life, None)
        session.finish()
        self._perform(self._engine.end(self.life, OK).effects)

    def serve_watch(self, method: WatchMethod, raw: bytes | None) -> Iterator[bytes]:
        """Yields the messages of a watch until it ends or the client disconnects.

        Raises:
            ReshapeError: the call ends with this error.
        """
        self.enter()
        if raw is None:
            self._engine.message_received(self.life, None)
            raise reject_empty_call()
        # The engine gets an empty message, because the received message needs no reserved memory.
        self.report_message(b"")
        changed = threading.Event()
        with closing(method.open(raw)) as watch:
            watch.begin(changed.set, self._source)
            # A request for 0 bytes releases the memory that was reserved for the request message.
            self._perform(self._engine.request_work(self.life, 0))
            self.wait()
            if not self._engine.begin_work(self.life):
                self.wait()
            self._context.add_callback(changed.set)
            try:
                while True:
                    # The event is cleared before the check, so that a status change during the check sets the event
                    # again.
                    changed.clear()
                    latest = watch.find_update() if self._context.is_active() else None
                    if latest is not None:
                        yield latest
                    elif watch.is_over or not self._context.is_active():
                        break
                    else:
                        changed.wait()
            finally:  # this block also runs if the client disconnects, because grpcio then closes the generator
                self._perform(self._engine.end(self.life, OK).effects)

    def report_message(self, raw: bytes) -> None:
        """Reports an arrived message to the engine.

        Raises:
            LimitError: the call is aborted or has ended.
        """
        if not self._engine.message_received(self.life, len(raw)):
            self.wait()

    @contextmanager
    def ended_by_failures(self) -> Iterator[None]:
        """Ends the call with the error that the `with` block raises."""
        try:
            yield
        except grpc.RpcError:
            raise  # grpcio raises RpcError if the call has ended
        except Exception as error:  # noqa: BLE001 - the client gets only a status
            self.reject(error)

    def reject(self, error: Exception) -> NoReturn:
        """Ends the call with the status of `error`."""
        failure = build_failure(error, self._info)
        ended = self._engine.end(self.life, failure.result)
        self._perform(ended.effects)
        if ended.is_first:
            log_failure(self._info, failure.result, self.life.began, failure.field, failure.detail)
        _abort(self._context, failure)

    def start_read(self) -> None:
        """Wakes the thread of the call (see `ServedCall`)."""
        self._signals.put(None)

    # the thread of a call first waits for memory, and later for its turn to process the message
    start_work = start_read

    def start_send(self) -> None:
        """Does nothing, because the thread of the call sends the messages (see `ServedCall`)."""

    def abort(self, rejection: LimitError, state: State) -> None:
        """Ends the call with an error (see `ServedCall`)."""
        result = CallResult(rejection.code_name, str(rejection.reason))
        log_failure(self._info, result, self.life.began, detail=rejection.message)
        self._signals.put(rejection)
        if state is State.RECEIVING:
            # While grpcio waits for a message of the client, only a cancellation can end this wait. The client then
            # gets CANCELLED instead of the error.
            self._context.cancel()

    def drop(self, rejection: LimitError | None) -> None:
        """Ends the call at once, without a status from the server (see `ServedCall`)."""
        if rejection is not None:
            result = CallResult("CANCELLED", str(rejection.reason))
            log_failure(self._info, result, self.life.began, detail=rejection.message)
        self._context.cancel()

    def _on_over(self) -> None:
        self._perform(self._engine.release(self.life))
        self._signals.put(LimitError("the call is over", reason=Reason.STALLED))


class FallbackServer(grpc.GenericRpcHandler):
    """A server with the interface `transports.Server`.

    Attributes:
        has_stopped_receiving: this is always False, because grpcio gives no information about the thread that receives
            calls.
        turns: this is always None, because grpcio gives no information about the thread that receives calls.
        on_unknown: the function that is called with the name of each unknown method that a client calls.
    """

    has_stopped_receiving = False
    turns = None

    def __init__(self, services: Sequence[Service], options: Sequence[tuple[str, int]]) -> None:
        """Creates a server without addresses (see `transports.build_server`)."""
        self.on_unknown: Callable[[str], None] = lambda _name: None
        self._handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        for service in services:
            for unary in service.methods.unary:
                serve = partial(_serve_unary, service, unary)
                self._handlers[unary.name] = grpc.stream_unary_rpc_method_handler(serve)
            for stream in service.methods.streams:
                serve_stream = partial(_serve_stream, service, stream)
                self._handlers[stream.name] = grpc.stream_stream_rpc_method_handler(serve_stream)
            for watch in service.methods.watches:
                serve_watch = partial(_serve_watch, service, watch)
                self._handlers[watch.name] = grpc.stream_stream_rpc_method_handler(serve_watch)
        self._stopped: threading.Event | None = None
        most = sum(service.engine.max_calls for service in services) or None
        # The code passes only keyword arguments to `grpc.server`, because instrumentation libraries add further
        # arguments.
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS), handlers=[self], options=options, maximum_concurrent_rpcs=most
        )

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Returns the handler of a method, or None if the method is unknown."""
        method = handler_call_details.method
        if method not in self._handlers:
            self.on_unknown(method)
        return self._handlers.get(method)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Binds an address and returns its port.

        Raises:
            RuntimeError: the address cannot be bound.
        """
        if credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, credentials)

    def start(self) -> None:
        """Starts to accept calls."""
        self._server.start()

    def stop(self) -> None:
        """Stops listening and rejects new calls. Running calls continue. Stopping again has no effect."""
        if self._stopped is None:
            self._stopped = self._server.stop(_FOREVER)

    def cancel_calls(self) -> None:
        """Cancels the running calls."""
        self._server.stop(0)  # a grace period of 0 is passed, because `stop(None)` would wait without a time limit

    def wait(self, seconds: float) -> bool:
        """Waits up to `seconds` for all calls of a stopping server to end. Returns whether all calls have ended."""
        return self._stopped is not None and self._stopped.wait(seconds)


def _serve_unary(service: Service, method: Method, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
    call = FallbackCall(method.name, service, context)
    with call.ended_by_failures():
        raw = next(requests, None)
        if raw is None:
            # the engine also gets a call without a message, because gates and observers must see every call
            call.enter()
            service.engine.message_received(call.life, None)
            raise reject_empty_call()
        return call.respond_unary(method, raw)


def _serve_stream(
    service: Service, stream: StreamMethod, requests: Iterator[bytes], context: grpc.ServicerContext
) -> Iterator[bytes]:
    call = FallbackCall(stream.name, service, context)
    with call.ended_by_failures():
        yield from call.respond_stream(stream, requests)


def _serve_watch(
    service: Service, method: WatchMethod, requests: Iterator[bytes], context: grpc.ServicerContext
) -> Iterator[bytes]:
    call = FallbackCall(method.name, service, context)
    with call.ended_by_failures():
        yield from call.serve_watch(method, next(requests, None))


def _build_info(method: str, context: grpc.ServicerContext) -> CallInfo:
    return CallInfo(method, context.invocation_metadata(), context.peer(), context.auth_context)  # type: ignore[arg-type] # lists, not bytes


def _abort(context: grpc.ServicerContext, failure: Failure) -> NoReturn:
    """Ends a call with a failure. The method `abort` of grpcio raises an exception, which ends the handler."""
    context.set_trailing_metadata(failure.status.trailing_metadata)
    context.abort(failure.status.code, failure.status.details)
