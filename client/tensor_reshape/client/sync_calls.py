"""Makes the calls of the blocking client, with retries and explanations of errors.

Any thread may make calls with the same client. Threads share the channel, which grpc allows, and the `RetryBudget`,
which a lock protects.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import NamedTuple, TypeVar

import grpc

from tensor_reshape.client.connections import (
    FAULT_SECONDS,
    describe_fault,
    describe_wait,
    explain_loss,
    explain_timeout,
    has_failed,
)
from tensor_reshape.client.contexts import ClientContext
from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.client.errors import CallTimeoutError, UnavailableError
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.grpc_core import GrpcApi, open_transport
from tensor_reshape.client.hints import advise
from tensor_reshape.client.options import ChannelSettings, Endpoint, build_channel_options
from tensor_reshape.client.other_addresses import find_better_error
from tensor_reshape.client.queries import MAX_PARALLEL_CALLS, ShapeQuery, split_queries
from tensor_reshape.client.requests import Call, ShapeAnswers, build_health_check, build_infer_shapes
from tensor_reshape.client.responses import Answer
from tensor_reshape.client.retries import Attempts
from tensor_reshape.client.transfers import StreamTransfer
from tensor_reshape.client.transports import StartedCall, Transport
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE

_Result = TypeVar("_Result")
_PAUSE_SECONDS = 0.05  # if the server was lost during a readiness check, the next check starts after this pause


class _Started(NamedTuple):
    call: Call[ShapeAnswers]
    pending: StartedCall


class SyncCalls:
    """The calls of one client over one channel.

    Attributes:
        transport: the object that makes the calls. This object also applies the caller's interceptors.
    """

    def __init__(self, endpoint: Endpoint, settings: ChannelSettings, grpc_api: GrpcApi) -> None:
        """Creates the channel, which connects with the first call."""
        self._endpoint = endpoint
        self._settings = settings
        self._grpc_api = grpc_api
        self.transport = self._open_transport(avoid_unhealthy=True)

    def close(self) -> None:
        """Closes the channel and cancels running calls."""
        # the endpoint is closed before the channel, so that calls that fail when the channel closes are not retried
        self._endpoint.close()
        # After a fork, the channel belongs to the parent process, so this process does not close it. The child process
        # has no gRPC threads that could close the channel.
        if not self._endpoint.is_foreign:
            self.transport.close()

    def run(self, call: Call[Answer], context: ClientContext) -> Answer:
        """Makes a call and returns its response, with retries."""
        # The error context is entered only after an error, because entering it would cost every call a part of a
        # microsecond.
        try:
            return call.decode(self._answer(call, context))
        except TensorReshapeError as error:
            with context:
                raise advise(error, call.method) from error.__cause__

    def run_batch(self, queries: Iterable[ShapeQuery], context: ClientContext) -> ShapeAnswers:
        """Makes the calls of a batch, several at a time, and returns the results in order."""
        self._endpoint.require_open()
        with context:
            pieces = [*split_queries(queries)]
        # The caller's own thread sends a single piece, because another thread takes longer to start than the call.
        if len(pieces) == 1:
            return self.run(build_infer_shapes(pieces[0]), context)
        answers, started = ShapeAnswers(), deque[_Started]()
        with context:
            try:
                for piece in pieces:
                    if len(started) == MAX_PARALLEL_CALLS:
                        answers += self._await(started.popleft(), context)
                    started.append(self._start(build_infer_shapes(piece), context))
                while started:
                    answers += self._await(started.popleft(), context)
            finally:
                for _, pending in started:
                    pending.cancel()  # if one call has failed, the remaining calls are cancelled
        return answers

    def stream(self, make_transfer: Callable[[], StreamTransfer], context: ClientContext) -> Output:
        """Makes a stream call, with a new transfer for each attempt."""
        attempts = Attempts(self._endpoint.budget, context.deadline)

        def attempt() -> Output:
            transfer = make_transfer()
            try:
                return self._exchange_all(transfer, context, attempts)
            except TensorReshapeError as error:
                pauses = None if self._endpoint.budget.is_closed else transfer.pauses
                raise advise(error, STREAM_RESHAPE.path, pauses) from error.__cause__

        with context:
            return self._repeat(attempt, attempts)

    def call_once(self, call: Call[Answer], context: ClientContext) -> Answer:
        """Makes a call without retries. The server may have any health status, even NOT_SERVING."""
        # This call needs a separate channel, because the client's own channel avoids servers that report NOT_SERVING.
        with context, closing(self._open_transport(avoid_unhealthy=False)) as transport:
            try:
                return call.decode(self._send(call, context, transport=transport))
            except UnavailableError as error:
                raise self._explain_loss(error) from error.__cause__
            except CallTimeoutError as error:
                raise explain_timeout(error, context.deadline.seconds) from error.__cause__

    def wait_until_ready(self, seconds: float | None) -> None:
        """Waits until a server with health status SERVING is connected.

        Raises:
            UnavailableError: no server was ready in time.
        """
        deadline = Deadline(seconds)
        while not self._is_ready(deadline):
            if deadline.is_within(_PAUSE_SECONDS):
                message = f"no server was ready within {seconds} seconds"
                message = "; ".join(filter(None, (message, self._find_fault())))
                raise UnavailableError(message, grpc.StatusCode.UNAVAILABLE)
            time.sleep(_PAUSE_SECONDS)

    def _is_ready(self, deadline: Deadline) -> bool:
        """Waits for a server that reports SERVING.

        The method returns False if the deadline passed, or if the server was lost during the check.
        """
        try:
            # The channel sends no call before a server reports SERVING, so a server is also ready if it rejects the
            # health call.
            self._check_health(deadline.remaining_seconds, wait_for_ready=True)
        except (CallTimeoutError, UnavailableError):
            return False
        except TensorReshapeError:
            self._endpoint.require_open()  # another thread may have closed the client
        return True

    def _open_transport(self, *, avoid_unhealthy: bool) -> Transport:
        target, credentials = self._endpoint.target, self._endpoint.credentials
        options, compression, interceptors = self._settings
        merged = build_channel_options(target, options, avoid_unhealthy=avoid_unhealthy)
        if credentials is None:
            channel = grpc.insecure_channel(target, merged, compression)
        else:
            channel = grpc.secure_channel(target, credentials, merged, compression)
        return open_transport(channel, self._grpc_api, interceptors)

    def _answer(self, call: Call[Answer], context: ClientContext) -> bytes:
        try:
            raw = self._send(call, context)
        except TensorReshapeError as error:
            # `Attempts` is created only after a failure, because most calls need only one attempt.
            attempts = Attempts(self._endpoint.budget, context.deadline)
            self._pause(error, attempts)
        else:
            self._endpoint.budget.record_success()
            return raw
        return self._repeat(lambda: self._send(call, context), attempts)

    def _send(self, call: Call[Answer], context: ClientContext, *, transport: Transport | None = None) -> bytes:
        self._endpoint.require_open()
        metadata = self._endpoint.metadata + context.metadata
        # An attempt does not wait for a connection to a server. If no server is connected, the attempt fails at once,
        # and `retries` plans how long to wait.
        transport = transport or self.transport
        return transport.send(call.method, call.request, context.deadline.remaining_seconds, metadata)

    def _start(self, call: Call[ShapeAnswers], context: ClientContext) -> _Started:
        self._endpoint.require_open()
        # The call is started without waiting for its response, so several calls of a batch run at the same time without
        # a thread for each.
        start, metadata = self.transport.start, self._endpoint.metadata + context.metadata
        return _Started(call, start(call.method, call.request, context.deadline.remaining_seconds, metadata))

    def _await(self, started: _Started, context: ClientContext) -> ShapeAnswers:
        """Returns the result of a started call, with retries."""
        # The first attempt waits for the call that has been started. If the first attempt fails, each later attempt
        # sends the request again.
        first = iter([started.pending.finish])

        def attempt() -> bytes:
            finish = next(first, None)
            return self._send(started.call, context) if finish is None else finish()

        return started.call.decode(self._repeat(attempt, Attempts(self._endpoint.budget, context.deadline)))

    def _repeat(self, attempt: Callable[[], _Result], attempts: Attempts) -> _Result:
        while True:
            try:
                result = attempt()
            except TensorReshapeError as error:
                self._pause(error, attempts)
            else:
                attempts.record_success()
                return result

    def _pause(self, error: TensorReshapeError, attempts: Attempts) -> None:
        """Waits before the next attempt, after an attempt has failed with `error`.

        If `error` ended the last attempt, the method raises the error of the call.
        """
        pause = attempts.plan_pause(error)
        if pause is None:
            raise self._explain(attempts.choose_end(error), attempts.deadline.seconds) from None
        time.sleep(pause.seconds)
        if pause.is_for_server:
            self._await_server(attempts)
        if attempts.deadline.is_within(0):
            # If a server was lost before the deadline, its error is raised, because it is more helpful than "deadline
            # exceeded".
            raise self._explain_loss(error)

    def _await_server(self, attempts: Attempts) -> None:
        """Waits until a server is connected. If no server connects in time, the next attempt reports the cause."""
        with attempts.wait_for_server() as seconds, suppress(TensorReshapeError):
            self._check_health(seconds, wait_for_ready=True)

    def _check_health(self, seconds: float | None, *, wait_for_ready: bool) -> None:
        self._endpoint.require_open()
        call = build_health_check(SERVICE)
        send = self.transport.send_when_ready if wait_for_ready else self.transport.send
        send(call.method, call.request, seconds, self._endpoint.metadata)

    def _explain(self, error: TensorReshapeError, seconds: float | None) -> TensorReshapeError:
        """Returns the error of a call with this timeout, with the cause if no server is connected."""
        if isinstance(error, CallTimeoutError):
            return explain_timeout(error, seconds, self._find_fault())
        return self._explain_loss(error)

    def _explain_loss(self, error: TensorReshapeError) -> TensorReshapeError:
        if isinstance(error, UnavailableError):
            error = find_better_error(error, self._endpoint, self._settings.options)
        return explain_loss(error, self._endpoint.target)

    def _find_fault(self) -> str:
        """Returns the reason why no server is connected.

        The text is empty if a server is connected or the client was closed.
        """
        if self._endpoint.budget.is_closed:
            return ""
        state = self.transport.find_state()
        if state is None or has_failed(state):
            try:
                self._check_health(FAULT_SECONDS, wait_for_ready=False)
            except TensorReshapeError as error:
                return describe_fault(self._explain_loss(error))
        return describe_wait(state, self._endpoint.target)

    def _exchange_all(self, transfer: StreamTransfer, context: ClientContext, attempts: Attempts) -> Output:
        self._endpoint.require_open()
        seconds, metadata = context.deadline.remaining_seconds, self._endpoint.metadata + context.metadata
        with closing(
            self.transport.exchange(transfer, seconds, metadata)
        ) as answers:  # without `closing`, a stream that the caller does not read to its end would stay open
            for raw in answers:
                transfer.receive(raw)
                attempts.record_progress()
        return transfer.finish()
