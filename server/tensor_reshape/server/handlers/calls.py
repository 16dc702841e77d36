"""Calls of the service: the engine decides, and what it decides is performed here, on calls of gRPC's core.

Small unary calls are answered on the thread that received them, streams whenever a message arrives. What takes long is
left to a thread for such work, so that the thread that receives calls never works for long. No lock of a call is held
while the engine is called.
"""

from abc import abstractmethod
from contextlib import suppress
from functools import partial

from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.server.engine.call_logs import log_bad_end
from tensor_reshape.server.engine.heads import note_answer
from tensor_reshape.server.engine.lifecycle import GONE, Ending, Lifecycle, State
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.statuses import (
    OK,
    STOPPING,
    choose_end,
    find_good_status,
    refuse_empty_call,
    refuse_large_message,
)
from tensor_reshape.server.grpc_core.calls import Call, NewCall
from tensor_reshape.server.service.method_tables import Method, StreamMethod, Watch, WatchMethod
from tensor_reshape.server.service.works import FindWork, Work
from tensor_reshape.wire.status import Status

# Every small call asks for them: to look up a member of an Enum takes its time.
_RECEIVING, _TENSORS = State.RECEIVING, Work.TENSORS
_BUG = Ending("CANCELLED", "INTERNAL_ERROR")  # of what talks to the core: there is nothing left to answer with


class ServiceCall(Call):
    """What all calls of a service have: a life in the engine, and a thread where work takes long."""

    # The work that this message makes: of the class, since most calls have none.
    _work = _TENSORS
    _good: Status | None = None  # what a good end is told with; likewise
    _message: bytes | None = None  # that waits for a thread
    _has_closed = False  # whether the caller's side has ended where a message was due: or is gone, which is known later
    _unlogged: tuple[Ending, str] | None = None  # a refusal because of that, and the field to blame

    def __init__(self, service: Service, method: Method | StreamMethod | WatchMethod, new: NewCall) -> None:
        """Idle until `begin`."""
        Call.__init__(self, method.name, new)
        self._service = service
        self._engine = service.engine
        self._perform = service.perform
        self._served = method
        self._life = Lifecycle(self, method.name)

    def begin(self) -> None:
        """Enters the call, and has it receive its message when there is room; see `Call`."""
        life = self._life
        try:
            if self._engine.wants_heads:
                life.head = self.head
            effects = self._engine.enter(life, self._service.sources.find(self.peer, self._metadata))
            if life.head is not None:
                self._good = find_good_status(life.head)
            if life.state is not _RECEIVING:
                self.watch()  # it waits for room: nothing else would tell that its caller goes
            self._perform(effects)
        except ReshapeError as error:
            self._refuse(error)

    start_read = Call.receive
    """Receives a message; see `ServedCall`."""

    def start_send(self) -> None:
        """Does nothing: the answer of a unary call goes with its end; see `ServedCall`."""

    def start_work(self) -> None:
        """Has a thread answer what was received; see `ServedCall`."""
        try:
            # Not the call: its life lets go of one that is over, although this stays in the queue of the pool until a
            # thread comes by. So the queue holds nothing that no budget counts.
            self._service.pools[self._work].submit(_work_on, self._life)
        except RuntimeError as error:  # the pool has been shut down, or no thread can be had
            self.on_bug(error)

    def give_up(self, refusal: LimitError, state: State) -> None:
        """Ends the call with a refusal, which can be sent whatever it receives; see `ServedCall`."""
        del state
        end = choose_end(refusal, self.head)
        self._log(end.ending)
        self.finish(end.status)

    def drop(self, refusal: LimitError | None) -> None:
        """Ends the call at once; see `ServedCall`."""
        if refusal is not None:
            self._log(Ending(GONE.code, str(refusal.reason)))
        else:
            with self.lock:
                if not self.is_sending:
                    self.finish(STOPPING)
                    return
        self.cancel()

    def work(self) -> None:
        """Answers the message that waits for a thread, unless the call is over; on that thread."""
        raw, self._message = self._message, None
        try:
            if self._engine.take_up(self._life) and raw is not None:
                self._answer_long(raw)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self.on_bug(error)

    def on_over(self) -> None:
        """Gives back all that the call holds; see `Call`."""
        if self._unlogged is not None and not self.is_gone:
            self._log(*self._unlogged)
        # Release first: a thread that has just taken the call up already has the message, and will report its own end.
        # Where the core has refused a message, the caller has been told so, although the core counts it as cancelled.
        self._perform(self._engine.release(self._life, gone=self.is_gone and not self.is_refused))
        self._message = None

    def on_bug(self, error: Exception) -> None:
        """Ends the call; see `Call`."""
        super().on_bug(error)
        with suppress(Exception):  # the engine may be what has failed
            self._perform(self._engine.end(self._life, _BUG).effects)

    def _keep(self, raw: bytes | None, find_work: FindWork) -> None:
        """Has the message wait for a thread."""
        self._message = raw
        if raw is not None:
            self._work = find_work(raw)

    @abstractmethod
    def _answer_long(self, raw: bytes) -> None:
        """Answers on a thread."""

    def _refuse(self, error: Exception) -> None:
        """Ends the call with what `error` says, unless its end is decided already."""
        end = choose_end(error, self.head)
        if self._decide(end.ending):
            if self._has_closed:
                self._unlogged = (end.ending, end.field)
            else:
                self._log(end.ending, end.field)
            self._conclude(end.status)

    def _decide(self, ending: Ending, size: int = 0) -> bool:
        """Notes the end of the call; returns whether this is the first."""
        end = self._engine.end(self._life, ending, size)
        self._perform(end.effects)
        return end.is_first

    def _log(self, ending: Ending, field: str = "") -> None:
        log_bad_end(self.head, ending, self._life.began, field)

    def _conclude(self, status: Status | None) -> None:
        """Ends the call after what has been answered."""
        self.finish(status)


def _work_on(life: Lifecycle) -> None:
    """Has a call answer its message; nothing where it is over, and its life has let go of it."""
    call = life.served
    if isinstance(call, ServiceCall):
        call.work()


class UnaryCall(ServiceCall):
    """One call of a unary method."""

    _served: Method

    def on_message(self, raw: bytes | None) -> None:
        """Answers a small message, and leaves another to a thread; see `Call`."""
        size = None if raw is None else len(raw)
        self._has_closed = raw is None and not self.is_refused
        try:
            response = self._answer_light(raw)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            if self._engine.message_received(self._life, size):
                self._refuse(error)
            return
        if size is not None and response is not None:
            if self._life.head is not None:
                note_answer(self._life.head, response)
            # The life ends first: a call that was given up meanwhile has its refusal on the way, and gets no answer.
            is_first, effects = self._engine.answer_at_once(self._life, size, len(response))
            self._perform(effects)
            if is_first:
                self.finish(self._good, response)
        elif self._engine.message_received(self._life, size):
            self._keep(raw, self._served.find_work)
            self.watch()  # no message is awaited any more, so nothing else would tell that the caller goes
            self._perform(self._engine.request_work(self._life))

    def _answer_light(self, raw: bytes | None) -> bytes | None:
        """Answers on the thread that received the message; None where that would take long."""
        if raw is None:
            raise refuse_large_message() if self.is_refused else refuse_empty_call()
        return self._served.answer_light(raw)

    def _answer_long(self, raw: bytes) -> None:
        try:
            response = self._served.answer(raw, lambda: self._life.is_over)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
        else:
            note_answer(self._life.head, response)
            if self._decide(OK, len(response)):
                self.finish(self._good, response)


def _reserve(service: Service, life: Lifecycle, size: int) -> None:
    service.perform(service.engine.reserve(life, size))


class StreamCall(ServiceCall):
    """One call of a stream."""

    _served: StreamMethod

    def __init__(self, service: Service, stream: StreamMethod, new: NewCall) -> None:
        """Idle until `begin`."""
        ServiceCall.__init__(self, service, stream, new)
        # Not a method of the call: a call and its session that hold each other would wait for the garbage collector.
        self._session = stream.open(partial(_reserve, service, self._life))
        self._last: tuple[Status | None] | None = None  # what ends the call when all answers have gone; set once

    def begin(self) -> None:
        """Enters the call; see `ServiceCall`. Its caller may go at any time, so that is watched from the beginning."""
        self.watch()
        super().begin()

    def on_message(self, raw: bytes | None) -> None:
        """Answers a message, or leaves it to a thread; see `Call`."""
        size = None if raw is None else len(raw)
        self._has_closed = raw is None and not self.is_refused
        if not self._engine.message_received(self._life, size):
            return
        if self.is_refused:
            self._refuse(refuse_large_message())
        elif raw is None or size is None:
            self._finish_session()
        elif not self._session.takes_long(raw) and self._engine.fits(self._life, size):
            self._answer_long(raw)
        else:
            self._keep(raw, self._served.find_work)
            self._perform(self._engine.request_work(self._life, self._session.count_room(raw)))

    def _answer_long(self, raw: bytes) -> None:
        try:
            # All at once: what the session gathers, and the messages that it makes of that, are reserved.
            answers = list(self._session.receive(raw))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
            return
        note_answer(self._life.head, *answers[:1])
        moved = None if self._session.is_between_tensors else len(raw)
        self._perform(self._engine.answer(self._life, answers, moved))

    def start_send(self) -> None:
        """Sends the first of the answers that are left, or the end after the last one; see `ServedCall`."""
        with self.lock:
            if self.is_sending or not self.is_active:
                return  # `on_sent` follows, and begins again here
            if self._life.outbox:
                self.send(self._life.outbox.popleft())
            elif self._last:
                self.finish(*self._last)

    def on_sent(self, size: int) -> None:
        """Sends what is next; see `Call`."""
        self._perform(self._engine.sent(self._life, size))
        self.start_send()

    def _finish_session(self) -> None:
        try:
            self._session.finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
        else:
            if self._decide(OK):
                self._conclude(self._good)

    def _conclude(self, status: Status | None) -> None:
        self._last = (status,)
        self.start_send()


class WatchCall(ServiceCall):
    """One call that brings news: the latest goes out as soon as what was sent before has gone.

    For the engine it is WORKING from its message to its end, so it is never given up.
    """

    _served: WatchMethod
    _watch: Watch | None = None  # until the message has come

    def on_message(self, raw: bytes | None) -> None:
        """Begins to tell; see `Call`."""
        self._has_closed = raw is None and not self.is_refused
        if not self._engine.message_received(self._life, None if raw is None else 0):  # nothing of it is kept
            return
        try:
            if raw is None:
                raise refuse_large_message() if self.is_refused else refuse_empty_call()  # noqa: TRY301 - as any other
            watch = self._served.open(raw)
            watch.begin(self.look, self._life.source)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            self._refuse(error)
            return
        self._watch = watch
        self.watch()  # no message is awaited any more, so nothing else would tell that the caller goes
        self._perform(self._engine.request_work(self._life, 0))  # which gives back the room for its message

    def start_work(self) -> None:
        """Begins to tell; see `ServedCall`."""
        if self._engine.take_up(self._life):
            self.look()

    def look(self) -> None:
        """Tells the caller what it does not know yet; called on any thread."""
        with self.lock:
            if self._watch is None or self.is_sending or not self.is_active:
                return
            news = self._watch.find_news()
            if news is not None:
                self.send(news)
            if news is not None or not self._watch.is_over:
                return
        if self._decide(OK):
            self.finish()

    def on_sent(self, size: int) -> None:
        """Looks for more news; see `Call`."""
        del size
        self.look()

    def on_over(self) -> None:
        """Forgets the watcher; see `Call`."""
        super().on_over()
        if self._watch is not None:
            self._watch.close()
            self._decide(GONE)

    def _answer_long(self, raw: bytes) -> None:
        """Is never called: no message waits for a thread."""
