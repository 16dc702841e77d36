"""Calls without a thread: small ones are answered on the thread that received them, streams whenever a message arrives.

- What takes long is left to a thread for such work, so that the thread that receives calls never works for long.
- A call is moved by the methods of the admission alone; what follows from a move is done by those of `ServedCall`.
  No lock of a call is held while the admission is called, but when a stream begins: grpcio holds its condition then.
- Unary calls are begun by `serving_loops`, before grpcio makes anything of them; streams are handed over by grpcio. A
  call that comes in another way is served by `threaded`: a unary one behind interceptors, or a wrapped stream.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.call_logs import log_bad_end
from tensor_reshape.server.calls.core_calls import DONE, CoreCall, ServerCall
from tensor_reshape.server.calls.direct_calls import DirectCall
from tensor_reshape.server.calls.heads import note_answer
from tensor_reshape.server.calls.lifecycle import GONE, Ending, IllegalEventError, Lifecycle, State
from tensor_reshape.server.calls.statuses import OK, End, choose_end, find_good_status, refuse_empty_call
from tensor_reshape.server.calls.threaded import CallThreads, ThreadedStream, ThreadedUnary
from tensor_reshape.server.service.methods import FindWork, Method, StreamMethod, Work
from tensor_reshape.wire.status import Status

_LOGGER = logging.getLogger(__name__)
# Every small call asks for them: to look up a member of an Enum takes its time.
_RECEIVING, _TENSORS = State.RECEIVING, Work.TENSORS
_BUG = Ending("CANCELLED", "INTERNAL_ERROR")  # of what talks to the core: there is nothing left to answer with


class InlinePool(CallThreads):
    """What grpcio takes for a pool of threads, and hands its calls to, on the thread that received them."""

    _has_warned = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Begins the call that grpcio wants `function` to serve; with locks of the call's and of the server's held."""
        _, rpc_event, state, plan = args[:4]
        try:
            if not isinstance(plan, StreamPlan):
                self._warn_once()
                return super().submit(function, *args, **kwargs)
            StreamCall(plan, rpc_event, state).begin()
        except Exception:  # also where no thread can be started
            _LOGGER.exception("bug")
            rpc_event.call.cancel()
        return DONE

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOGGER.warning("the server has interceptors, as those of an instrumentation: threads serve its calls")


@dataclass(frozen=True, slots=True)
class Plan:
    """How the calls of one method are served; for grpcio it is what serves those that reach a thread all the same.

    Attributes:
        admission: what admits them.
        pools: threads for what takes long.
        fall_back: makes a call that a thread serves.
    """

    admission: Admission
    pools: Mapping[Work, ThreadPoolExecutor]
    fall_back: Callable[[Admission], ThreadedUnary | ThreadedStream]

    def __call__(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> object:
        """Serves a call on the thread that it has reached."""
        call = self.fall_back(self.admission)
        try:
            call.enter(context.invocation_metadata())
        except ReshapeError as error:
            call.refuse_entrance(error, context)
        return call.run(requests, context)


@dataclass(frozen=True, slots=True)
class UnaryPlan(Plan):
    """That of a unary method.

    Attributes:
        method: what its calls are answered with.
    """

    method: Method

    def open(self, rpc_event: Any) -> "UnaryCall | None":
        """Begins a call, unless there is no memory for it; for `serving_loops`."""
        try:
            call = UnaryCall(self, rpc_event)
        except Exception:
            _LOGGER.exception("bug")
            rpc_event.call.cancel()
            return None
        call.begin()
        return call


@dataclass(frozen=True, slots=True)
class StreamPlan(Plan):
    """That of a stream.

    Attributes:
        stream: what its calls are answered with.
    """

    stream: StreamMethod


class InlineCall(ServerCall):
    """What both kinds of calls have: a life, and a thread for what takes long."""

    # The work that this message makes: of the class, since most calls have none.
    _work = _TENSORS
    _good: Status | None = None  # what a good end is told with; likewise

    def _join(self, plan: Plan) -> None:
        """Makes the life, once `_method` is known; idle until `begin`."""
        self._admission = plan.admission
        self._pools = plan.pools
        self._life = Lifecycle(self, self._method)
        # The message that waits for a thread.
        self._message: bytes | None = None

    def _enter(self) -> None:
        """Enters the call, and has it receive its message when there is room.

        Raises:
            ReshapeError: a gate's refusal, or SERVER_BUSY.
        """
        if self._admission.wants_heads:
            self._life.head = self.head
        self._admission.enter(self._life, self.peer, asks=True)
        if self._life.head is not None:
            self._good = find_good_status(self._life.head)

    def start_read(self) -> None:
        """Receives a message; see `ServedCall`."""
        self.receive()

    def start_send(self) -> None:
        """Does nothing: the answer of a unary call goes with its end; see `ServedCall`."""

    def start_work(self) -> None:
        """Has a thread answer what was received; see `ServedCall`."""
        try:
            # Not the call: its life lets go of one that is over, although this stays in the queue of the pool until a
            # thread comes by. So the queue holds nothing that no budget counts.
            self._pools[self._work].submit(_work_on, self._life)
        except RuntimeError as error:  # the pool has been shut down, or no thread can be had
            self._fail(error)

    def give_up(self, refusal: LimitError, state: State) -> None:
        """Ends the call with a refusal, which can be sent whatever it receives; see `ServedCall`."""
        del state
        end = choose_end(refusal, self.head)
        self._log(end)
        self.finish(end.status)

    def drop(self, refusal: LimitError) -> None:
        """Ends the call at once; see `ServedCall`."""
        log_bad_end(self.head, Ending(GONE.code, str(refusal.reason)), self._life.began)
        self.cancel()

    def work(self) -> None:
        """Answers the message that waits for a thread, unless the call is over; on that thread."""
        raw, self._message = self._message, None
        try:
            if self._admission.take_up(self._life) and raw is not None:
                self._answer_long(raw)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._fail(error)

    def _keep(self, raw: bytes | None, find_work: FindWork) -> None:
        """Has the message wait for a thread."""
        self._message = raw
        if raw is not None:
            self._work = find_work(raw)

    @abstractmethod
    def _answer_long(self, raw: bytes) -> None:
        """Answers on a thread."""

    def _on_over(self) -> None:
        gone = self.is_gone
        if not (gone and self._life.state is State.GIVEN_UP):
            self._tell_end(self._admission.resets, self._life.peer)
        # In this order: a thread that takes the call up just before has its message, and tells when it is done with it.
        self._admission.release(self._life, gone=gone)
        self._message = None

    def _refuse(self, error: Exception) -> None:
        """Ends the call with what `error` says, unless its end is decided already."""
        end = choose_end(error, self.head)
        if self._admission.end(self._life, end.ending):
            self._log(end)
            self._conclude(end.status)

    def _log(self, end: End) -> None:
        log_bad_end(self.head, end.ending, self._life.began, end.field)

    def _conclude(self, status: Status | None) -> None:
        """Ends the call after what has been answered."""
        self.finish(status)

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        with suppress(IllegalEventError):  # which may be what has failed
            self._admission.end(self._life, _BUG)


def _work_on(life: Lifecycle) -> None:
    """Has a call answer its message; nothing where it is over, and its life has let go of it."""
    call = life.served
    if isinstance(call, InlineCall):
        call.work()


class UnaryCall(InlineCall, DirectCall):
    """One call of a unary method."""

    def __init__(self, plan: UnaryPlan, rpc_event: Any) -> None:
        """Idle until `begin`."""
        DirectCall.__init__(self, plan.method.name, rpc_event)
        self._join(plan)
        self._served = plan.method

    def begin(self) -> None:
        """Enters the call, and has it receive its message when there is room; raises nothing."""
        try:
            try:
                self._enter()
                if self._life.state is not _RECEIVING:
                    self.watch()  # it waits for room: nothing else would tell that its caller goes
            except ReshapeError as error:
                self._refuse(error)
        except Exception as error:  # noqa: BLE001 - it would end the thread that serves every call
            self._fail(error)

    def _on_read(self, raw: bytes | None) -> None:
        size = None if raw is None else len(raw)
        try:
            response = self._answer_light(raw)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            if self._admission.message_received(self._life, size):
                self._refuse(error)
            return
        if size is not None and response is not None:
            note_answer(self._life.head, response)
            # The life ends first: a call that was given up meanwhile has its refusal on the way, and gets no answer.
            if self._admission.answer_at_once(self._life, size, len(response)):
                self.finish(self._good, response)
        elif self._admission.message_received(self._life, size):
            self._keep(raw, self._served.find_work)
            self.watch()  # no message is awaited any more, so nothing else would tell that the caller goes
            self._admission.request_work(self._life)

    def _answer_light(self, raw: bytes | None) -> bytes | None:
        """Answers on the thread that received the message; None where that would take long."""
        if raw is None:
            raise refuse_empty_call()
        return self._served.answer_light(raw)

    def _answer_long(self, raw: bytes) -> None:
        try:
            response = self._served.answer(raw, lambda: self._life.is_over)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
        else:
            note_answer(self._life.head, response)
            if self._admission.end(self._life, OK, len(response)):
                self.finish(self._good, response)


class StreamCall(InlineCall, CoreCall):
    """One call of a stream."""

    def __init__(self, plan: StreamPlan, rpc_event: Any, state: Any) -> None:
        """Idle until `begin`."""
        CoreCall.__init__(self, plan.stream.name, rpc_event, state)
        self._join(plan)
        self._find_work = plan.stream.find_work
        self._session = plan.stream.open(partial(plan.admission.reserve, self._life))
        self._last: tuple[Status | None] | None = None  # what ends the call when all answers have gone; set once

    def begin(self) -> None:
        """Enters the call, and has it receive a message when there is room."""
        self.watch_end()
        try:
            self._enter()
        except ReshapeError as error:
            self._refuse(error)

    def _on_read(self, raw: bytes | None) -> None:
        size = None if raw is None else len(raw)
        if not self._admission.message_received(self._life, size):
            return
        if raw is None or size is None:
            self._finish_session()
        elif not self._session.takes_long(raw) and self._admission.fits(self._life, size):
            self._answer_long(raw)
        else:
            self._keep(raw, self._find_work)
            self._admission.request_work(self._life, self._session.count_room(raw))

    def _answer_long(self, raw: bytes) -> None:
        try:
            # All at once: what the session gathers, and the messages that it makes of that, are reserved.
            answers = list(self._session.receive(raw))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
            return
        note_answer(self._life.head, *answers[:1])
        moved = None if self._session.is_between_tensors else len(raw)
        self._admission.answer(self._life, answers, moved)

    def start_send(self) -> None:
        """Sends the first of the answers that are left, or the end after the last one; see `ServedCall`."""
        with self._state.condition:
            if self._is_sending or not self._is_active():
                return  # `_on_sent` follows, and begins again here
            if self._life.outbox:
                self.send(self._life.outbox.popleft())
            elif self._last:
                self.finish(*self._last)

    def _on_sent(self, size: int) -> None:
        self._has_answered = True
        self._admission.sent(self._life, size)
        self.start_send()

    def _finish_session(self) -> None:
        try:
            self._session.finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
        else:
            if self._admission.end(self._life, OK):
                self._conclude(self._good)

    def _conclude(self, status: Status | None) -> None:
        self._last = (status,)
        self.start_send()
