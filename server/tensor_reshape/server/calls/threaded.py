"""Calls as grpcio serves them by itself: each holds a thread. The way that needs nothing but its public interface.

- Unary methods are registered as stream-unary, which is the same on the wire: so a call can wait until there is room
  for its message before it begins to receive it.
- A call that waits for its message holds a thread, so there are many more threads than calls that are worked on; where
  they run short all the same, connections that hold more than their part of them are given up first: see `admission`.
- Every thread is there from the start: to start one may fail, and would do so on the thread that serves every call.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

import grpc

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.router import Submit
from tensor_reshape.server.calls.statuses import choose_status, end_call
from tensor_reshape.server.calls.tickets import Ticket
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.process.pools import start_all, start_threads
from tensor_reshape.server.service.methods import Method, ReshapeService
from tensor_reshape.wire.methods import STREAM_RESHAPE

CALL_THREADS = 128
"""How many calls wait for a message, or are served, at once; more wait for a thread."""

QUESTION_THREADS = 4
"""How many questions about shapes are worked on, or wait for their turn, at once: none has a tensor's thread."""

_Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
_Behavior: TypeAlias = Callable[..., Any]


class CallThreads(ThreadPoolExecutor):
    """Threads that calls hold while they wait for a message."""

    def are_short(self) -> bool:
        """Whether calls wait for a thread."""
        return self._work_queue.qsize() > 0


class ThreadedHandlers(grpc.GenericRpcHandler):
    """Admits calls when they arrive, and has threads serve them.

    Attributes:
        routes: what serves the calls of each method.
    """

    def __init__(self, service: ReshapeService, admission: Admission, max_working: int) -> None:
        """Serves `service` within `admission`, and works on so many calls at once."""
        self._service = service
        self._admission = admission
        self._methods = {method.name: method for method in service.methods}
        self._working, self._answering = threading.Semaphore(max_working), threading.Semaphore(QUESTION_THREADS)
        self._threads = start_all(CallThreads(CALL_THREADS, "receive"), CALL_THREADS)
        self._receivers = start_threads(CALL_THREADS, "receiver")
        self._refusals = start_threads(1, "refusal")
        admission.limit_threads(CALL_THREADS, self._threads.are_short)
        self.routes: Mapping[str, Submit] = dict.fromkeys((*self._methods, STREAM_RESHAPE.path), self._threads.submit)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Handler | None":
        """Returns how one call is served; called on the thread that receives calls."""
        name = handler_call_details.method
        if name == STREAM_RESHAPE.path:
            stream = ThreadedStream(self._service, self._receivers, self._admission)
            return grpc.stream_stream_rpc_method_handler(self._admit(stream, stream.run))
        method = self._methods.get(name)
        if method is None:
            return None
        unary = ThreadedUnary(method, self._answering if method.takes_turns else self._working, self._admission)
        return grpc.stream_unary_rpc_method_handler(self._admit(unary, unary.run))

    def _admit(self, call: "ThreadedCall", run: _Behavior) -> _Behavior:
        """Returns what serves the call: `run`, or its refusal, which has a thread where no call waits for a message."""
        try:
            call.enter()
        except LimitError as error:
            refusal = partial(_refuse, error, call.name)
            refusal.experimental_thread_pool = self._refusals  # type: ignore[attr-defined] # where grpcio looks for it
            return refusal
        return run


class ThreadedCall:
    """What both kinds of calls have: a ticket, and a way to end early."""

    def __init__(self, name: str, admission: Admission) -> None:
        """Enters with `enter`."""
        self.name = name
        self._admission = admission
        self._ready = threading.Event()
        self._refusal: LimitError | None = None
        self._context: grpc.ServicerContext | None = None
        self._ticket = Ticket(self._ready.set, self._evict)

    def enter(self) -> None:
        """Takes the call's place; until `begin` it waits for a thread.

        Raises:
            LimitError: SERVER_BUSY.
        """
        self._ticket.waiting = True
        self._admission.enter(self._ticket)

    def begin(self, context: grpc.ServicerContext) -> None:
        """Notes that the call has a thread, and whose it is.

        Raises:
            LimitError: SERVER_BUSY.
        """
        self._context = context
        self._ticket.waiting = False
        if not context.add_callback(self.leave):  # not before the answer has been sent
            self.leave()
        self._admission.identify(self._ticket, context.peer())

    def receive(self, requests: Iterator[bytes]) -> bytes | None:
        """Returns the next message, None at the end of the client's side.

        Raises:
            LimitError: SERVER_BUSY.
        """
        self._await(lambda: self._admission.read(self._ticket))
        return next(requests, None)

    def await_room(self, size: int, raw: bytes) -> None:
        """Waits until there is room for the `size` bytes that come of `raw`.

        Raises:
            LimitError: SERVER_BUSY.
        """
        self._admission.arrive(self._ticket, len(raw))
        self._await(lambda: self._admission.work(self._ticket, size, self._ready.set))

    def leave(self) -> None:
        """Gives all back, and ends a wait for room: nobody else would."""
        self._refusal = self._refusal or LimitError("the call is over", reason=Reason.STALLED)
        self._ready.set()
        self._admission.leave(self._ticket)

    def _await(self, claim: Callable[[], None]) -> None:
        self._ready.clear()
        if self._refusal is None:  # looked at after the event is cleared, since an end sets it
            claim()
            self._ready.wait()
        if self._refusal is not None:
            raise self._refusal

    def _evict(self, refusal: LimitError) -> None:
        self._refusal = self._refusal or refusal
        if self._context is None:
            self.leave()  # it may never have a thread, where something wraps the handlers
        elif self._ready.is_set() and self._context is not None:
            self._context.cancel()  # nothing else ends a read of grpcio; the caller sees CANCELLED
        self._ready.set()


class ThreadedUnary(ThreadedCall):
    """One call of a unary method."""

    def __init__(self, method: Method, working: threading.Semaphore, admission: Admission) -> None:
        """Enters with `enter`; `working` bounds how many calls are worked on at once."""
        super().__init__(method.name, admission)
        self._method = method
        self._working = working

    def run(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Serves the call."""
        try:
            self.begin(context)
            raw = self._receive_one(requests)
            response = self._method.answer_light(raw)
            if response is None:
                response = self._work(raw)
        except grpc.RpcError:
            raise  # the call is over
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            end_call(context, choose_status(error, self.name))
        self._admission.receive(self._ticket, COST_FACTOR * max(len(raw), len(response)))
        return response

    def _receive_one(self, requests: Iterator[bytes]) -> bytes:
        raw = self.receive(requests)
        if raw is None:
            raise refuse_empty_call()
        return raw

    def _work(self, raw: bytes) -> bytes:
        self.await_room(self._admission.work_cost, raw)
        with self._working:
            self._ticket.working = True
            try:
                return self._method.answer(raw, lambda: self._refusal is not None)
            finally:
                self._ticket.advance(None)  # it has not stalled meanwhile
                self._ticket.working = False


class ThreadedStream(ThreadedCall):
    """One call of StreamReshape: a second thread receives the next message while the last one is answered.

    So a stream can also end with a refusal while nothing arrives.
    """

    def __init__(self, service: ReshapeService, receivers: ThreadPoolExecutor, admission: Admission) -> None:
        """Enters with `enter`; there is a thread of `receivers` for each call that has one to answer."""
        super().__init__(STREAM_RESHAPE.path, admission)
        self._session = service.open_stream(partial(admission.hold, self._ticket))
        self._receivers = receivers
        self._inbox: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        self._room = threading.Semaphore(1)  # for one message that nobody has taken yet
        self._sending = False
        self._unsent_bytes = 0
        self._lock = threading.Lock()

    def run(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serves the call."""
        try:
            self.begin(context)
            self._receivers.submit(self._receive_all, requests)
            while (raw := self._inbox.get()) is not None:
                if isinstance(raw, Exception):
                    raise raw  # noqa: TRY301 - it comes from the other thread
                yield from self._answer(raw)
            self._session.finish()
        except grpc.RpcError:
            raise  # the call is over
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            end_call(context, choose_status(error, self.name))
        finally:
            self.leave()

    def leave(self) -> None:
        """Gives all back, and ends both threads."""
        super().leave()
        self._inbox.put(None)
        self._room.release()

    def _answer(self, raw: bytes) -> Iterator[bytes]:
        self._sending = True
        for answer in self._session.receive(raw):
            yield answer
            self._ticket.advance(len(answer))
        self._sending = False
        self._admission.keep(self._ticket, self._count(-len(raw)))
        self._room.release()

    def _count(self, size: int) -> int:
        """Returns what the messages take that are not answered yet, `size` bytes more of them or less."""
        with self._lock:
            self._unsent_bytes += size
            return 0 if self._ticket.held else COST_FACTOR * self._unsent_bytes

    def _receive_all(self, requests: Iterator[bytes]) -> None:
        raw: bytes | Exception | None = b""
        while isinstance(raw, bytes):
            try:
                raw = self._receive_one(requests)
            except Exception as error:  # noqa: BLE001 - the thread that answers raises it
                raw = error
            self._inbox.put(raw)
            self._room.acquire()

    def _receive_one(self, requests: Iterator[bytes]) -> bytes | None:
        raw = self.receive(requests)
        size = len(raw or b"")
        if raw is not None and not self._admission.covers(COST_FACTOR * (self._unsent_bytes + size)):
            self.await_room(COST_FACTOR * size, raw)
        moved = None if self._session.is_between_tensors else size
        self._admission.receive(self._ticket, self._count(size), moved)
        return raw

    def _evict(self, refusal: LimitError) -> None:
        self._inbox.put(refusal)
        if self._sending:  # the caller does not take what is sent, so it would not get the refusal either
            super()._evict(refusal)


def refuse_empty_call() -> InvalidRequestError:
    """Returns the refusal of a unary call without a message."""
    return InvalidRequestError.of(Reason.MESSAGE_MALFORMED, "the call has no message")


def _refuse(error: LimitError, method: str, requests: object, context: grpc.ServicerContext) -> bytes:
    del requests
    end_call(context, choose_status(error, method))
