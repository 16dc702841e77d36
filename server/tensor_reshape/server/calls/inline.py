"""Calls without a thread: small ones are answered on the thread that received them, streams whenever a message arrives.

This is the one module that needs parts of grpcio that are not public. grpcio hands a call to a thread pool; the pool
here takes the call apart instead, and goes on in grpcio's own completion callbacks. Everything else stays grpcio's:
interceptors, deadlines, cancellation, and what `stop` waits for. `is_supported` says whether the installed grpcio is
one of those that this was written for; a call that looks different all the same is served by `threaded`.
"""

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from grpc import _common, _server  # the parts in question
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.statuses import choose_status, end_call
from tensor_reshape.server.calls.threaded import CallThreads, ThreadedStream, ThreadedUnary, refuse_empty_call
from tensor_reshape.server.calls.tickets import Ticket
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.service.methods import Method, ReshapeService
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)
_OPERATIONS = (
    "ReceiveMessageOperation",
    "SendInitialMetadataOperation",
    "SendMessageOperation",
    "SendStatusFromServerOperation",
)
_SUBMITTED = {
    "_unary_response_in_pool": ["rpc_event", "state", "behavior", "argument_thunk"],
    "_stream_response_in_pool": ["rpc_event", "state", "behavior", "argument_thunk"],
    "_possibly_finish_call": ["state", "token"],
    "_is_rpc_state_active": ["state"],
}
_STATE = ("callbacks", "client", "condition", "due", "initial_metadata_allowed", "statused")
_MAX_OUTBOX = 2
"""Answers that wait for their turn; with more, nothing is received."""


def is_supported() -> bool:
    """Whether the installed grpcio has all that this module needs, in the form that it needs."""
    if not all(callable(getattr(_server, name, None)) for name in (*_SUBMITTED, "_RPCState")):
        return False
    known = all(
        list(inspect.signature(getattr(_server, name)).parameters)[: len(parameters)] == parameters
        for name, parameters in _SUBMITTED.items()
    )
    state = _server._RPCState()  # type: ignore[no-untyped-call]
    return known and all(hasattr(state, name) for name in _STATE) and all(hasattr(cygrpc, name) for name in _OPERATIONS)


class InlinePool(CallThreads):
    """What grpcio takes for a pool of threads, and hands its calls to, on the thread that received them."""

    _has_warned = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Begins the call that grpcio wants `function` to serve; with a lock of grpcio's held."""
        _, rpc_event, state, plan = args[:4]
        try:
            if not isinstance(plan, Plan):
                self._warn_once()
                return super().submit(function, *args, **kwargs)
            plan.open(plan, rpc_event, state).begin()
        except Exception:  # also where no thread can be started
            _LOGGER.exception("bug")
            rpc_event.call.cancel()
        return _DONE

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOGGER.warning("interceptors wrap the methods, as those of an instrumentation do: threads serve all calls")


@dataclass(frozen=True, slots=True)
class Plan:
    """How the calls of one method are served."""

    admission: Admission
    threads: ThreadPoolExecutor
    name: str
    open: "Callable[[Plan, Any, Any], _Call]"
    fall_back: Callable[[Admission], ThreadedUnary | ThreadedStream]

    def __call__(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> object:
        """Serves a call that has reached a thread all the same."""
        call = self.fall_back(self.admission)
        try:
            call.enter()
        except LimitError as error:
            end_call(context, choose_status(error, self.name))
        return call.run(requests, context)


class _Call:
    """One call: it is read from when there is room, and leaves when grpcio is done with it and it with its work."""

    def __init__(self, plan: Plan, rpc_event: Any, state: Any) -> None:
        self._plan = plan
        self._call = rpc_event.call
        self._state = state
        self._ticket = Ticket(self._start_read, self._evict)
        self._works = 0  # pieces of work that threads have, or will have
        self._over = self._writing = False

    def begin(self) -> None:
        self._state.callbacks.append(self._leave)
        try:
            self._plan.admission.enter(self._ticket, self._find_peer())
        except LimitError as error:
            self._end(choose_status(error, self._plan.name))
        else:
            self._plan.admission.read(self._ticket)

    def _take(self, raw: bytes | None) -> None:
        raise NotImplementedError

    def _start_read(self) -> None:
        with self._state.condition:
            if _server._is_rpc_state_active(self._state):
                self._start((cygrpc.ReceiveMessageOperation(0),), self._on_read)

    def _on_read(self, event: Any) -> None:
        self._take(event.batch_operations[0].message())

    def _await_room(self, size: int, raw: bytes, work: Callable[[], object]) -> None:
        """Has a thread do what takes long, when there is room for the `size` bytes that come of `raw`."""
        self._plan.admission.arrive(self._ticket, len(raw))
        self._plan.admission.work(self._ticket, size, lambda: self._work(work))

    def _work(self, work: Callable[[], object]) -> None:
        """Has a thread do what takes long; the call keeps its memory until that is over, too."""

        def run() -> None:
            self._ticket.waiting, self._ticket.working = False, True
            try:
                if not self._over:
                    work()
            except Exception as error:  # noqa: BLE001 - nobody else would hear of it
                self._fail(error)
            self._ticket.advance(None)  # it has not stalled meanwhile
            self._ticket.working = False
            with self._state.condition:  # the next piece may begin before this one has ended
                self._works -= 1
                leaves = self._over and not self._works
            if leaves:
                self._plan.admission.leave(self._ticket)

        with self._state.condition:
            self._works += 1
        self._ticket.waiting = True
        self._plan.threads.submit(run)

    def _end(self, status: Status | None = None, response: bytes | None = None) -> None:
        with self._state.condition:
            if not _server._is_rpc_state_active(self._state):
                return
            operations = [_build_status(status), *self._build_initial_metadata()]
            if response is not None:
                operations.append(cygrpc.SendMessageOperation(response, 0))
            self._start(operations)
            self._state.statused = True

    def _build_initial_metadata(self) -> list[Any]:
        if not self._state.initial_metadata_allowed:
            return []
        self._state.initial_metadata_allowed = False
        return [cygrpc.SendInitialMetadataOperation(None, 0)]

    def _start(self, operations: Sequence[Any], react: Callable[[Any], None] | None = None) -> None:
        """Has grpcio do `operations`, and `react` when they are done; until then the call cannot be over."""
        token: Any = object()

        def done(event: Any) -> Any:
            try:
                if react:
                    react(event)
            except Exception as error:  # noqa: BLE001 - it would end the thread that serves every call
                self._fail(error)
            with self._state.condition:
                return _server._possibly_finish_call(self._state, token)

        self._call.start_server_batch(operations, done)
        self._state.due.add(token)

    def _evict(self, refusal: LimitError) -> None:
        if self._state.statused or self._writing:  # the caller does not take what was sent, nor would it a refusal
            self._call.cancel()
        else:
            self._end(choose_status(refusal, self._plan.name))

    def _leave(self) -> None:
        with self._state.condition:
            self._over = True
            leaves = not self._works
        if leaves:
            self._plan.admission.leave(self._ticket)

    def _find_peer(self) -> str:
        return _common.decode(self._call.peer())

    def _fail(self, error: Exception) -> None:
        _LOGGER.error("bug", exc_info=error, extra={"method": self._plan.name})
        self._call.cancel()


class UnaryCall(_Call):
    """One call of a unary method."""

    def __init__(self, method: Method, plan: Plan, rpc_event: Any, state: Any) -> None:
        """Begins with `begin`."""
        super().__init__(plan, rpc_event, state)
        self._method = method

    def _take(self, raw: bytes | None) -> None:
        if raw is None:
            self._end(choose_status(refuse_empty_call(), self._plan.name))
        elif not self._answer(self._method.answer_light, raw):
            self._await_room(self._plan.admission.work_cost, raw, lambda: self._answer(self._answer_heavy, raw))

    def _answer_heavy(self, raw: bytes) -> bytes:
        return self._method.answer(raw, lambda: self._over)

    def _answer(self, answer: Callable[[bytes], bytes | None], raw: bytes) -> bool:
        """Ends the call, unless `answer` has none."""
        try:
            response = answer(raw)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._end(choose_status(error, self._plan.name))
            return True
        if response is not None:
            self._plan.admission.receive(self._ticket, COST_FACTOR * max(len(raw), len(response)))
            self._end(response=response)
        return response is not None


class StreamCall(_Call):
    """One call of StreamReshape."""

    def __init__(self, service: ReshapeService, plan: Plan, rpc_event: Any, state: Any) -> None:
        """Begins with `begin`."""
        super().__init__(plan, rpc_event, state)
        self._session = service.open_stream(partial(plan.admission.hold, self._ticket))
        self._outbox: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._reading = True
        self._last: Status | bool = False  # what ends the call when all has been sent; True: well

    def _take(self, raw: bytes | None) -> None:
        if raw is None:
            self._answer(raw)
        elif self._session.takes_long(raw):  # what it collects is held already
            self._work(lambda: self._answer(raw))
        elif self._plan.admission.covers(COST_FACTOR * (self._unsent_bytes + len(raw))):
            self._answer(raw)
        else:
            self._await_room(COST_FACTOR * len(raw), raw, lambda: self._answer(raw))

    def _answer(self, raw: bytes | None) -> None:
        try:
            if raw is None:
                self._session.finish()
                self._last = True
            else:
                self._put(list(self._session.receive(raw)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._last = choose_status(error, self._plan.name)
        moved = None if self._session.is_between_tensors else len(raw or b"")
        self._plan.admission.receive(self._ticket, self._cost, moved)
        self._reading = False  # not before: one message at a time
        self._advance()

    def _put(self, answers: list[bytes]) -> None:
        with self._state.condition:
            self._outbox.extend(answers)
            self._unsent_bytes += sum(map(len, answers))

    @property
    def _cost(self) -> int:
        """What the answers take; of data with strides they are in what the session holds."""
        return 0 if self._ticket.held else COST_FACTOR * self._unsent_bytes

    def _advance(self) -> None:
        with self._state.condition:
            if not self._writing and _server._is_rpc_state_active(self._state):
                if self._outbox:
                    self._write(self._outbox.popleft())
                elif self._last:
                    self._end(self._last if isinstance(self._last, Status) else None)
            reads = not (self._reading or self._last or len(self._outbox) >= _MAX_OUTBOX)
            self._reading = self._reading or reads
        if reads:
            self._plan.admission.read(self._ticket)

    def _write(self, response: bytes) -> None:
        self._writing = True
        operations = (*self._build_initial_metadata(), cygrpc.SendMessageOperation(response, 0))
        self._start(operations, partial(self._on_write, len(response)))

    def _on_write(self, size: int, event: Any) -> None:
        del event
        with self._state.condition:
            self._unsent_bytes -= size
        self._writing = False
        self._plan.admission.keep(self._ticket, self._cost)
        self._ticket.advance(size)  # also where what is sent is in what the session holds
        self._advance()


def _build_status(status: Status | None) -> Any:
    if status is None:
        return cygrpc.SendStatusFromServerOperation(None, cygrpc.StatusCode.ok, b"", 0)
    code = _common.STATUS_CODE_TO_CYGRPC_STATUS_CODE[status.code]
    return cygrpc.SendStatusFromServerOperation(status.trailing_metadata, code, status.details.encode(), 0)


_DONE: "Future[Any]" = Future()
_DONE.set_result(None)
