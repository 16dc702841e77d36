"""The handlers of the calls that gRPC's core delivers.

A handler reports the events of its call to the engine. The actions that the engine returns are methods of the handler.

The receiving thread itself processes small unary calls, chunks of dense tensors and short stream messages. Worker
threads do work that takes long, so that the receiving thread is never busy for long. A handler never holds the lock of
its call while it calls the engine.
"""

from contextlib import suppress

from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.server.calls.call_info import record_response
from tensor_reshape.server.calls.results import GONE, OK, CallResult
from tensor_reshape.server.calls.statuses import (
    STOPPING,
    Failure,
    build_failure,
    find_good_status,
    reject_empty_call,
    reject_large_message,
)
from tensor_reshape.server.engine.lifecycle import CallHandler, Lifecycle, State
from tensor_reshape.server.grpc.calls import CoreCall, NewCall
from tensor_reshape.server.grpc.services import Service
from tensor_reshape.server.service.method_tables import StreamMethod, UnaryMethod, Watch, WatchMethod, Work
from tensor_reshape.server.telemetry.call_logs import log_failure
from tensor_reshape.wire.status import Status, encode_brief_rejection

# These global names avoid the slow lookup of Enum members in the code that runs for every small call.
_RECEIVING, _TENSORS = State.RECEIVING, Work.TENSORS
# the client gets no status, because the handler that would send the status has failed
_BUG = CallResult("CANCELLED", "INTERNAL_ERROR")


class RefusedCall(CoreCall):
    """A call that ends as soon as it begins, because its method does not exist or because too many calls wait."""

    def __init__(self, method: str, new: NewCall, status: Status) -> None:
        """Makes a refused call that will end with `status`. The server then calls `begin`."""
        super().__init__(method, new)
        self._status = status

    def begin(self) -> None:
        """Ends the call (see `CoreCall`)."""
        self.finish(self._status)


class ServiceCall(CoreCall, CallHandler):
    """The base class of all handlers. It connects a call to its state in the engine and to worker threads."""

    # The default values are class attributes, because most calls never set these attributes.
    _work = _TENSORS  # the kind of work that the received message needs
    # The status OK with the trailing metadata of the call, or None if the call has no trailing metadata.
    _good: Status | None = None
    _message: bytes | None = None  # the received message while it waits for a worker thread
    # The failure of a call whose client sent no message. gRPC's core reports later whether the client has disconnected,
    # and the failure is logged only if the client has not disconnected.
    _unlogged: Failure | None = None

    def __init__(self, service: Service, method: UnaryMethod | StreamMethod | WatchMethod, new: NewCall) -> None:
        """Makes the handler of a call. The server then calls `begin`."""
        CoreCall.__init__(self, method.name, new)
        self._service = service
        self._engine = service.engine
        self._method = method
        self._life = Lifecycle(self, method.name)

    def begin(self) -> None:
        """Enters the call into the engine. The message is received as soon as there is memory (see `CoreCall`)."""
        life, engine = self._life, self._engine
        try:
            if engine.has_checks:
                engine.prepare(life, self._metadata, lambda: self.info)
            actions = engine.enter(life, self.source)
            if life.info is not None:
                self._good = find_good_status(life.info)
            if life.state is not _RECEIVING:
                self.detect_disconnect()
            engine.perform(actions)
        except ReshapeError as error:
            self._reject(error)

    start_read = CoreCall.receive
    """Starts to receive a message (see `CallHandler`)."""

    def start_work(self) -> None:
        """Queues the received message for a worker thread (see `CallHandler`)."""
        try:
            # The queue of the thread pool contains the `Lifecycle` of the call instead of its handler. If the call ends
            # while it is queued, the `Lifecycle` drops the handler. The queue therefore never keeps the message of an
            # ended call. The memory budget would no longer count this message.
            self._service.pools[self._work].submit(_work_on, self._life)
        # this error means that the thread pool has been shut down, or that the system cannot start another thread
        except RuntimeError as error:
            self.on_bug(error)

    def abort(self, rejection: LimitError) -> None:
        """Ends the call with an error, even if a message is still arriving (see `CallHandler`)."""
        failure = build_failure(rejection, self.info)
        self._log(failure.result, detail=rejection.message)
        self.finish(failure.status)

    def drop(self, rejection: LimitError | None) -> None:
        """Cancels the call at once. The status for the client has no details (see `CallHandler`)."""
        if rejection is not None:
            self._log(CallResult(rejection.code_name, str(rejection.reason)), detail=rejection.message)
            self.cancel(encode_brief_rejection(rejection))
            return
        with self.lock:
            if not self.is_sending:
                self.finish(STOPPING)
                return
        self.cancel(STOPPING)

    def do_work(self) -> None:
        """Processes the queued message on a worker thread, unless the call is over."""
        raw, self._message = self._message, None
        try:
            if self._engine.begin_work(self._life) and raw is not None:
                self._process(raw)
        except Exception as error:  # noqa: BLE001 - the pool would ignore it
            self.on_bug(error)

    def on_over(self) -> None:
        """Frees everything that the call holds (see `CoreCall`)."""
        if (failure := self._unlogged) is not None and not self.is_gone:
            self._log(failure.result, failure.field, failure.detail)
        # If gRPC's core rejected a message, the client received the core's error. The core then reports the call as
        # cancelled, although the client has not disconnected.
        self._engine.perform(self._engine.release(self._life, gone=self.is_gone and not self.is_rejected))
        # The reference to the message is deleted after `release`, because no thread begins to work on the call after
        # `release`. A thread that began to work on the call earlier already has the message, and will report the end of
        # its work.
        self._message = None

    def on_bug(self, error: Exception) -> None:
        """Ends the call after a bug (see `CoreCall`)."""
        super().on_bug(error)
        with suppress(Exception):  # if the bug is in the engine, this call of the engine also fails
            self._decide(_BUG)

    def _process(self, raw: bytes) -> None:
        """Processes a message on a worker thread.

        Watch calls do not override this method, because they queue no message.
        """

    def _reject(self, error: Exception, *, may_be_gone: bool = False) -> None:
        """Ends the call with the status of `error`, unless the end of the call is already decided.

        `may_be_gone` says whether the client has half-closed the call without a message, or has disconnected.
        """
        failure = build_failure(error, self.info)
        if self._decide(failure.result):
            if may_be_gone:
                self._unlogged = failure
            else:
                self._log(failure.result, failure.field, failure.detail)
            self._conclude(failure.status)

    def _reject_missing_message(self) -> None:
        """Ends a call whose message is too large, or whose client sent no message."""
        error = reject_large_message() if self.is_rejected else reject_empty_call()
        self._reject(error, may_be_gone=not self.is_rejected)

    def _decide(self, result: CallResult, size: int = 0) -> bool:
        """Reports the end of the call to the engine. Returns False if the end was already decided."""
        is_first, actions = self._engine.end(self._life, result, size)
        self._engine.perform(actions)
        return is_first

    def _log(self, result: CallResult, field: str = "", detail: str = "") -> None:
        log_failure(self.info, result, self._life.began, field, detail)

    def _conclude(self, status: Status | None) -> None:
        """Ends the call with `status`. A stream first sends its remaining responses."""
        self.finish(status)


def _work_on(life: Lifecycle) -> None:
    life.handler.do_work()


class UnaryCall(ServiceCall):
    """One call of a unary method."""

    _method: UnaryMethod

    def on_message(self, raw: bytes | None) -> None:
        """Processes a small message, or queues a larger message for a worker thread (see `CoreCall`)."""
        if raw is None:
            if self._engine.message_received(self._life, None):
                self._reject_missing_message()
            return
        try:
            response = self._method.respond_light(raw)
        except Exception as error:  # noqa: BLE001 - any exception ends the call with a status
            if self._engine.message_received(self._life, len(raw)):
                self._reject(error)
            return
        if response is not None:
            if self._life.info is not None:
                record_response(self._life.info, response)
            # The engine must know the end of the call before the response is sent. If the engine has already aborted
            # the call, the client gets an error instead of the response.
            is_first, actions = self._engine.end(self._life, OK, len(response), received=len(raw))
            self._engine.perform(actions)
            if is_first:
                self.finish(self._good, response)
        elif self._engine.message_received(self._life, len(raw)):
            self._message, self._work = raw, self._method.find_work(raw)
            self.detect_disconnect()
            self._engine.perform(self._engine.request_work(self._life))

    def _process(self, raw: bytes) -> None:
        try:
            response = self._method.respond(raw, lambda: self._life.is_over)
        except Exception as error:  # noqa: BLE001 - any exception ends the call with a status
            self._reject(error)
        else:
            record_response(self._life.info, response)
            if self._decide(OK, len(response)):
                self.finish(self._good, response)


class StreamCall(ServiceCall):
    """One call of a streaming method."""

    _method: StreamMethod

    def __init__(self, service: Service, stream: StreamMethod, new: NewCall) -> None:
        """Makes the handler of a call. The server then calls `begin`."""
        ServiceCall.__init__(self, service, stream, new)
        # The function that reserves memory does not refer to the handler, so the handler and its session form no
        # reference cycle.
        engine, life = self._engine, self._life
        self._session = stream.open(lambda size: engine.perform(engine.reserve(life, size)))
        # This attribute is None until the end of the stream is decided. Then it is a tuple with the status to send
        # after the last response. The status None in the tuple means OK.
        self._last: tuple[Status | None] | None = None

    def begin(self) -> None:
        """Enters the call into the engine.

        From then on, gRPC's core reports a disconnect at once, even between messages (see `ServiceCall`).
        """
        self.detect_disconnect()
        super().begin()

    def on_message(self, raw: bytes | None) -> None:
        """Processes a message, or queues it for a worker thread (see `CoreCall`)."""
        if not self._engine.message_received(self._life, None if raw is None else len(raw)):
            return
        if self.is_rejected:
            self._reject_missing_message()
        elif raw is None:
            self._finish_session()
        else:
            takes_long, needed_bytes = self._session.estimate(raw)
            if not takes_long and self._engine.fits(self._life, len(raw)):
                self._process(raw)
            else:
                self._message, self._work = raw, self._method.find_work(raw)
                self._engine.perform(self._engine.request_work(self._life, needed_bytes))

    def _process(self, raw: bytes) -> None:
        try:
            # All responses to a message may be in memory at the same time. The reserved memory is sufficient for the
            # responses and for the data that the session collects.
            responses = list(self._session.receive(raw))
        except Exception as error:  # noqa: BLE001 - any exception ends the call with a status
            self._reject(error)
            return
        record_response(self._life.info, *responses[:1])
        moved = None if self._session.is_between_tensors else len(raw)
        self._engine.perform(self._engine.respond(self._life, responses, moved))

    def start_send(self) -> None:
        """Sends the next response. After the last response, sends the status of the stream (see `CallHandler`)."""
        with self.lock:
            if self.is_sending or not self.is_active:
                return  # `on_sent` will call `start_send` again when the current message is sent
            if self._life.outbox:
                self.send(self._life.outbox.popleft())
            elif self._last:
                self.finish(*self._last)

    def on_sent(self, size: int) -> None:
        """Sends the next response (see `CoreCall`)."""
        self._engine.perform(self._engine.sent(self._life, size))
        self.start_send()

    def _finish_session(self) -> None:
        try:
            self._session.finish()
        except Exception as error:  # noqa: BLE001 - any exception ends the call with a status
            self._reject(error, may_be_gone=True)
        else:
            if self._decide(OK):
                self._conclude(self._good)

    def _conclude(self, status: Status | None) -> None:
        self._last = (status,)
        self.start_send()


class WatchCall(ServiceCall):
    """One watch call, which sends the latest status as soon as the previous status has been sent.

    A watch call has no stall timeout, because its state in the engine is WORKING after its message has arrived.
    """

    _method: WatchMethod
    _watch: Watch | None = None  # the watch that the request message opens, or None before the message arrives

    def on_message(self, raw: bytes | None) -> None:
        """Opens the watch that the message requests (see `CoreCall`)."""
        # The size that the engine gets is 0, because the handler does not keep the request message of a health watch.
        if not self._engine.message_received(self._life, None if raw is None else 0):
            return
        if raw is None:
            self._reject_missing_message()
            return
        try:
            self._watch = self._method.open(raw, self.send_update, self._life.source)
        except Exception as error:  # noqa: BLE001 - any exception ends the call with a status
            self._reject(error)
            return
        self.detect_disconnect()
        # This request for 0 bytes frees the memory that was reserved for the request message.
        self._engine.perform(self._engine.request_work(self._life, 0))

    def start_work(self) -> None:
        """Sends the first status (see `CallHandler`)."""
        if self._engine.begin_work(self._life):
            self.send_update()

    def send_update(self) -> None:
        """Sends the latest status, unless that status was already sent. Any thread may call this method."""
        with self.lock:
            if self._watch is None or self.is_sending or not self.is_active:
                return
            update = self._watch.find_update()
            if update is not None:
                self.send(update)
            if update is not None or not self._watch.is_over:
                return
        if self._decide(OK):
            self.finish(self._good)

    def on_sent(self, size: int) -> None:
        """Sends a newer status, if there is one (see `CoreCall`)."""
        del size
        self.send_update()

    def on_over(self) -> None:
        """Closes the watch of the call (see `CoreCall`)."""
        super().on_over()
        if self._watch is not None:
            self._watch.close()
            self._decide(GONE)
