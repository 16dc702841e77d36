"""Calls as grpcio serves them by itself: each holds a thread.

- Nothing private of grpcio is needed. Where it has `experimental_thread_pool`, refusals have a thread of their own, and
  where it submits its event as it does today, the connection of a call is known; how many calls wait for a thread is
  read from a private queue of CPython's `ThreadPoolExecutor`. Where `serving_loops` is supported, it has connections
  take turns before their calls come here.
- Unary methods are registered as stream-unary, which is the same on the wire: so a call can wait until there is room
  for its message before it begins to receive it.
- A call that waits for its message holds a thread, so there are many more threads than calls that are worked on; some
  are kept for connections that hold none (`reserves`). Where the others run short, calls of connections that hold more
  than their part are given up first: see `admission`.
- Every thread is there from the start: to start one may fail, and would do so on the thread that serves every call.
"""

import logging
import math
import threading
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import MappingProxyType
from typing import NoReturn, TypeAlias, cast

import grpc

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.call_logs import log_bad_end
from tensor_reshape.server.calls.heads import CallHead, Metadata, note_answer
from tensor_reshape.server.calls.lifecycle import GONE, Ending, Lifecycle, State
from tensor_reshape.server.calls.statuses import OK, choose_end, end_call, find_good_status, refuse_empty_call
from tensor_reshape.server.service.methods import Method, StreamMethod, Work
from tensor_reshape.wire.status import Status

CALL_THREADS = 128
"""How many calls wait for a message, or are served, at once; more wait for a thread."""

QUESTION_THREADS = 8
"""How many questions are worked on, or wait for their turn, at once: more than one connection has room for by default,
so that the next one's find a thread.

Batches have as many: none keeps a single question waiting, and neither a tensor. `--threads` does not count them.
"""

WORK_THREADS: Mapping[Work, int] = MappingProxyType(
    {Work.QUESTIONS: QUESTION_THREADS, Work.BATCHES: QUESTION_THREADS, Work.NUMBERS: 1}
)
"""How many calls with each kind of work are worked on at once, in both ways of serving; with tensors, `--threads`."""

Permissions: TypeAlias = Mapping[Work, threading.Semaphore]
"""How many calls are worked on at once."""

_LOGGER = logging.getLogger(__name__)
_HEAD = "_made_head"
_LOOK_SECONDS = 0.1


def build_permissions(max_working: int) -> Permissions:
    """Returns those of a server that works on so many tensors at once."""
    counts = {Work.TENSORS: max_working, **WORK_THREADS}
    return {work: threading.Semaphore(count) for work, count in counts.items()}


class CallThreads(ThreadPoolExecutor):
    """Threads that calls hold while they wait for a message."""

    def are_short(self) -> bool:
        """Whether calls wait for a thread."""
        return self._work_queue.qsize() > 0


class ThreadedCall:
    """What both kinds of calls have: a life, and a thread that waits for what the admission and the caller bring.

    That thread calls all that is not said to be called from elsewhere.
    """

    def __init__(self, method: str, admission: Admission) -> None:
        """Idle until `enter`."""
        self._method = method
        self._admission = admission
        self._life = Lifecycle(self, method)
        # What the thread waits for: None for room, or the refusal that ends all waiting. A queue, not an event: room
        # may come before the thread asks for it, and the refusal after that.
        self._signals: SimpleQueue[LimitError | None] = SimpleQueue()
        self._metadata: Metadata = ()  # that the caller has sent
        self._context: grpc.ServicerContext | None = None  # None until the call has a thread
        self._has_answered = False  # of a stream: from then on it is no reset that the caller goes

    def enter(self, metadata: Metadata) -> None:
        """Enters the call, which waits for a thread until `begin`; its caller has sent `metadata`.

        Called on the thread that receives calls; on the call's own where an interceptor wraps inline handlers.

        Raises:
            ReshapeError: SERVER_BUSY; `refuse_entrance` follows.
        """
        self._metadata = metadata
        if self._admission.wants_heads:
            self._life.head = self._head
        self._admission.enter(self._life)

    def refuse_entrance(self, error: ReshapeError, context: grpc.ServicerContext) -> NoReturn:
        """Ends a call that could not be entered; a gate may refuse it for a reason of its own."""
        self._watch_end(context)
        name_caller(self._head, context)
        try:
            self._identify(context)
        except ReshapeError as refusal:
            error = refusal
        end_call(context, self._end(error))

    def begin(self, context: grpc.ServicerContext) -> None:
        """Notes that the call has a thread, and whose it is.

        Raises:
            ReshapeError: a gate's refusal, or SERVER_BUSY.
        """
        # In this order: whoever gives the call up from now on can cancel it, and its end is heard of.
        self._context = context
        self._watch_end(context)
        self._identify(context)

    def receive(self, requests: Iterator[bytes]) -> bytes | None:
        """Returns the next message when there is room for it, None at the end of the caller's side.

        Raises:
            LimitError: the call is given up, or over.
        """
        self._await_signal()
        raw = next(requests, None)
        # grpcio says that the caller's side has ended just before it says that it is gone: a thread that is as fast as
        # that takes the one for the other. Then the call ends with a refusal that nobody gets.
        if raw is None and self._context is not None and not self._context.is_active():
            self._await_signal()
        if not self._admission.message_received(self._life, None if raw is None else len(raw)):
            self._await_signal()  # which is the refusal: nothing else can have moved the call
        return raw

    def start_read(self) -> None:
        """Wakes the thread that waits for room; see `ServedCall`."""
        self._signals.put(None)

    start_work = start_read  # there is one thread, and it knows what it waits for

    def start_send(self) -> None:
        """Does nothing: the answer of a unary call goes with its end; see `ServedCall`."""

    def give_up(self, refusal: LimitError, state: State) -> None:
        """Ends the call with a refusal, where its thread can be woken; see `ServedCall`."""
        self._log(Ending(refusal.code_name, str(refusal.reason)))
        self._signals.put(refusal)
        if self._context is None:
            self._admission.release(self._life)  # it may never have a thread, where something wraps the handlers
        elif state is State.RECEIVING:
            self._context.cancel()  # nothing else ends a read of grpcio; the caller sees CANCELLED

    def drop(self, refusal: LimitError) -> None:
        """Ends the call at once; see `ServedCall`."""
        self._log(Ending(GONE.code, str(refusal.reason)))
        if self._context is not None:
            self._context.cancel()

    def _identify(self, context: grpc.ServicerContext) -> None:
        if self._life.head is not None:
            name_caller(self._life.head, context)
        self._admission.identify(self._life, context.peer())
        good = find_good_status(self._life.head)
        if good is not None:  # what is told with a good end: a bad one sets its own
            context.set_trailing_metadata(good.trailing_metadata)

    @property
    def _head(self) -> CallHead:
        """What is known of the call at its beginning: made when it is asked for, and the same to all who ask."""
        made = self.__dict__.get(_HEAD)
        if made is None:
            head = CallHead(self._method, self._metadata)
            if self._context is not None:
                name_caller(head, self._context)
            made = self.__dict__.setdefault(_HEAD, head)  # in one step: two threads may ask first
        return cast("CallHead", made)

    def _watch_end(self, context: grpc.ServicerContext) -> None:
        if not context.add_callback(self._on_over):  # not before the answer has been sent
            self._on_over()

    def _on_over(self) -> None:
        """Gives all back, and ends every wait: nobody else would.

        Called on the thread that receives calls; on the call's own where the call is over before that begins.
        """
        self._note_end()
        self._admission.release(self._life)
        self._signals.put(LimitError("the call is over", reason=Reason.STALLED))

    def _note_end(self) -> None:
        # grpcio does not say whether the caller was gone before it took the end; so what is decided counts.
        if self._context is None:
            return  # it was refused at once, or never had a thread
        peer = self._life.peer or self._context.peer()  # of a call that is over when it begins
        if self._life.is_ended:
            self._admission.resets.note_answer(peer)
        elif not self._has_answered:
            left = self._context.time_remaining()
            self._admission.resets.note_reset(peer, math.inf if left is None else left)

    def _await_room(self, size: int | None) -> None:
        """Waits until there is room for what comes of the message that has been received; None: of the largest one.

        Raises:
            LimitError: the call is given up, or over.
        """
        self._admission.request_work(self._life, size)
        self._await_signal()

    def _await_signal(self) -> None:
        refusal = self._signals.get()
        if refusal is not None:
            raise refusal

    def _take_up(self) -> None:
        """Notes that the thread begins to work.

        Raises:
            LimitError: the call is given up, or over.
        """
        if not self._admission.take_up(self._life):
            self._await_signal()

    def _end(self, error: Exception) -> Status:
        """Notes that the call ends with what `error` says, and returns the status."""
        end = choose_end(error, self._head)
        try:
            if self._admission.end(self._life, end.ending):  # else it has been given up, for `error`, or is over
                self._log(end.ending, end.field)
        except Exception:
            _LOGGER.exception("bug")  # grpcio would tell the caller its text
        return end.status

    def _log(self, ending: Ending, field: str = "") -> None:
        log_bad_end(self._head, ending, self._life.began, field)


def name_caller(head: CallHead, context: grpc.ServicerContext) -> None:
    """Notes whose call it is, as grpcio tells those whom it serves by itself."""
    head.name_caller(context.peer(), context.auth_context)  # type: ignore[arg-type] # a list for each name, not bytes


class ThreadedUnary(ThreadedCall):
    """One call of a unary method."""

    def __init__(self, method: Method, permissions: Permissions, admission: Admission) -> None:
        """Idle until `enter`; `permissions` bound how many calls are worked on at once."""
        super().__init__(method.name, admission)
        self._served = method
        self._permissions = permissions

    def run(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Serves the call."""
        try:
            self.begin(context)
            self._admission.request_read(self._life)
            raw = self.receive(requests)
            if raw is None:
                raise refuse_empty_call()  # noqa: TRY301 - all that ends the call badly does so in one place
            response = self._served.answer_light(raw)
            if response is None:
                response = self._work(raw)
            note_answer(self._life.head, response)
            self._admission.end(self._life, OK, len(response))
        except grpc.RpcError:
            raise  # the call is over
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            end_call(context, self._end(error))
        return response

    def _work(self, raw: bytes) -> bytes:
        self._await_room(None)
        permission = self._permissions[self._served.find_work(raw)]
        self._await_permission(permission)
        try:
            self._take_up()
            return self._served.answer(raw, lambda: self._life.is_over)
        finally:
            permission.release()

    def _await_permission(self, permission: threading.Semaphore) -> None:
        """Waits until the call may use its thread: each has one of its own, but only so many work at once.

        Raises:
            LimitError: the call is given up, or over.
        """
        # A semaphore tells of nothing else, so the signals are looked at now and then: a caller that is refused hears
        # it, and a thread whose caller has gone is free.
        while not permission.acquire(timeout=_LOOK_SECONDS):
            if not self._signals.empty():
                self._await_signal()


class ThreadedStream(ThreadedCall):
    """One call of a stream: one thread receives messages and answers them, the other sends.

    So a stream can also end with a refusal while nothing arrives.
    """

    def __init__(self, stream: StreamMethod, receivers: ThreadPoolExecutor, admission: Admission) -> None:
        """Idle until `enter`; there is a thread of `receivers` for each call that has one to send."""
        super().__init__(stream.name, admission)
        self._session = stream.open(partial(admission.reserve, self._life))
        self._receivers = receivers
        # What the thread that sends waits for: None says that there are answers, a status how the call ends after them.
        self._sends: SimpleQueue[Status | None] = SimpleQueue()

    def run(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serves the call."""
        try:
            status = yield from self._serve(requests, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            status = self._end(error)
        if status is not _GOOD:
            end_call(context, status)

    def _serve(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Generator[bytes, None, Status]:
        """Yields the answers, and returns the status."""
        self.begin(context)
        self._receivers.submit(self._receive_all, requests)
        status = None
        while status is None:
            status = self._sends.get()
            while not self._life.is_over and self._life.outbox:  # where the call is over, nobody takes them
                size = len(self._life.outbox[0])
                yield self._life.outbox.popleft()
                self._has_answered = True  # grpcio asks for the next one when this one has gone
                self._admission.sent(self._life, size)
        return status

    def start_send(self) -> None:
        """Wakes the thread that sends; see `ServedCall`."""
        self._sends.put(None)

    def give_up(self, refusal: LimitError, state: State) -> None:
        """Ends the call with a refusal, which the thread that sends can send at any time; see `ServedCall`."""
        self._sends.put(choose_end(refusal, self._head).status)
        super().give_up(refusal, State.WAITING if self._context else state)

    def _on_over(self) -> None:
        super()._on_over()
        self._sends.put(_GOOD)  # there is nobody to be told

    def _receive_all(self, requests: Iterator[bytes]) -> None:
        """Receives and answers until the call ends; the other thread of the call."""
        try:
            self._admission.request_read(self._life)
            while (raw := self.receive(requests)) is not None:
                self._answer(raw)
            self._session.finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            # Where the end is decided already, the thread that sends knows it, and `error` is but what ends a wait.
            if not self._life.is_ended and not isinstance(error, grpc.RpcError):
                self._sends.put(self._end(error))
        else:
            self._admission.end(self._life, OK)
            self._sends.put(_GOOD)

    def _answer(self, raw: bytes) -> None:
        if self._session.takes_long(raw) or not self._admission.fits(self._life, len(raw)):
            self._await_room(self._session.count_room(raw))
            self._take_up()
        answers = list(self._session.receive(raw))
        note_answer(self._life.head, *answers[:1])
        moved = None if self._session.is_between_tensors else len(raw)
        self._admission.answer(self._life, answers, moved)


_GOOD = Status(grpc.StatusCode.OK, "", ())
