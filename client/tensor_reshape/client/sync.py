"""The client that blocks.

Any number of threads may share one: grpc's channel allows that, and what a call changes beside it is its own, but for
the `RetryBudget`, which has a lock.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from os import PathLike
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload

import grpc
import numpy.typing as npt

from tensor_reshape.client.direct_calls import DirectCalls, Way, check_way, open_calls
from tensor_reshape.client.direct_streams import find_exchange
from tensor_reshape.client.errors import UnavailableError
from tensor_reshape.client.hints import HINT_SECONDS, calls_for_hint, hint_stream
from tensor_reshape.client.options import (
    DEFAULT_TARGET,
    DEFAULT_TIMEOUT_SECONDS,
    Endpoint,
    Metadata,
    build_channel_options,
    check_chunk_bytes,
)
from tensor_reshape.client.packed_tensors import PackedTensor
from tensor_reshape.client.queries import MAX_PARALLEL_CALLS, DimLike, ShapeOptions, ShapeQuery, split_queries
from tensor_reshape.client.requests import (
    Arguments,
    Call,
    Expected,
    Plan,
    Target,
    build_health_check,
    build_infer_shape,
    build_infer_shapes,
    build_server_info,
    plan_reshape,
)
from tensor_reshape.client.responses import Answer, InferredShape
from tensor_reshape.client.retries import Attempts, Deadline
from tensor_reshape.client.stock_calls import StockCalls, explain_one
from tensor_reshape.client.templates import find_call
from tensor_reshape.client.tokens import authorize
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES, Delivery, StreamTransfer, Transfer
from tensor_reshape.rules.errors import ReshapeError, TensorReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import ServerInfo
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

_Result = TypeVar("_Result")
_Answers = list[InferredShape | ReshapeError]
_Started = tuple[Call[_Answers], "grpc.Future[bytes]"]


class Client:
    """Reshapes arrays on a server, over one channel; safe to share between threads.

    An array that came in one message is read-only: it is a view of the response. Every method raises a `ReshapeError`
    for a refusal, `CallTimeoutError` when the deadline passes, `UnavailableError` when no server answers, also after
    retries, and `ServiceError` for any other end.

    A call whose server is lost, or cannot be reached, waits for one up to 10 seconds in all. Where a server has too
    much to do, it is asked again, with growing pauses, while the client's retry budget lasts. Neither goes on after the
    call's timeout.
    """

    def __init__(  # noqa: PLR0913 - options, each by its name
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        allow_plaintext_token: bool = False,
        metadata: Metadata = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        inline_max_bytes: int = DEFAULT_INLINE_MAX_BYTES,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        calls: Way = "auto",
    ) -> None:
        """Makes the channel; it connects with the first call.

        Args:
            target: `host:port`, `dns:///host:port` (calls go round all its addresses) or `unix:PATH`. As in every gRPC
                client, the environment may name a proxy for it (`grpc_proxy`, `https_proxy`, `http_proxy`, with the
                exceptions of `no_grpc_proxy` or `no_proxy`); loopback addresses, `localhost` and sockets never use one.
            credentials: for TLS, from `grpc.ssl_channel_credentials`; None connects in plain text.
            token: a bearer token that is shown with every call, over TLS.
            token_file: the file that holds one instead; it is read again when it changes, as rotated tokens do.
            allow_plaintext_token: also without TLS, where the target is this machine and nothing else.
            metadata: sent with every call.
            timeout: seconds that a call may take, retries included, where it does not say; `math.inf` waits forever.
            inline_max_bytes: arrays up to this size travel in one message, larger ones as a stream, unless `transfer`
                says otherwise.
            chunk_bytes: what one message of a stream carries.
            calls: "auto": past those objects of grpcio that a call does not need, where the installed grpcio allows it
                and nothing intercepts the channel; "stock": all by grpcio's public means. Both do the same; for whoever
                watches grpcio's own objects, or mistrusts this.
        """
        credentials, bearer = authorize(target, credentials, token, token_file, allow_plaintext=allow_plaintext_token)
        self._endpoint = Endpoint(target, credentials, metadata, timeout, bearer)
        self._inline_max_bytes = inline_max_bytes
        self._chunk_bytes = check_chunk_bytes(chunk_bytes)
        self._way = check_way(calls)
        self._channel = self._open_channel(avoid_unhealthy=True)
        self._calls = open_calls(self._channel, calls)
        self._stock_calls = StockCalls(self._channel)  # those of a batch: several are under way at once
        self._exchange = find_exchange(self._channel, calls)

    def __enter__(self) -> Self:
        """Returns the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channel."""
        self.close()

    def close(self) -> None:
        """Closes the channel; calls under way are cancelled."""
        self._endpoint.close()  # first: what ends by the rest must not be sent again
        self._channel.close()

    def static_reshape(
        self,
        array: npt.ArrayLike,
        shape: Sequence[int],
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array:
        """Executes StaticReshape-1 (oneDNN Graph): f32, f16 or bf16, rank at most 12.

        Args:
            array: any array, strided ones included.
            shape: the target; -1 (once) keeps the volume.
            special_zero: whether a 0 in `shape` copies the data dim at its index; if not, it is a dim of 0.
            expected_shape: the output shape that the caller counts on, None for a dim that may be anything.
            timeout: seconds; None: the client's.
            **how: how the elements travel, and where they land: see `Transfer`.

        Returns:
            The elements in row-major order under the new shape, with the array's type.
        """
        return self._reshape(Arguments(STATIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    def dynamic_reshape(
        self,
        array: npt.ArrayLike,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array:
        """Executes DynamicReshape-1 (oneAPI Graph): as `static_reshape`, with the target as an i32 array of rank 1.

        A plain sequence of integers is sent as i32; an array keeps the type it has.
        """
        return self._reshape(Arguments(DYNAMIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    def reshape(
        self,
        array: PackedTensor,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> PackedTensor: ...
    @overload
    def reshape(
        self,
        array: npt.ArrayLike,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array: ...
    def reshape(
        self,
        array: npt.ArrayLike | PackedTensor,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array | PackedTensor:
        """Executes Reshape-1 (OpenVINO): every served data type, any integer array of rank 1 as the target.

        Copied dims leave both sides before -1 is resolved: (4,0,2) with [-1,0] and special_zero gives (8,0). A plain
        sequence of integers is sent as i64. Arrays of ml_dtypes' types below one byte are packed and unpacked; a
        `PackedTensor` is answered with one.
        """
        arguments = Arguments(RESHAPE, array, shape, special_zero, expected_shape)
        if isinstance(array, PackedTensor):
            plan = plan_reshape(arguments)
            return plan.present(self._transfer(plan, timeout, how))
        return self._reshape(arguments, timeout, how)

    def infer_shape(
        self,
        data_shape: Sequence[DimLike] | None,
        shape: Sequence[DimLike] | None,
        *,
        special_zero: bool,
        timeout: float | None = None,
        **more: Unpack[ShapeOptions],
    ) -> InferredShape:
        """Asks for the output shape of an operation: "static_reshape", "dynamic_reshape" or "reshape".

        None is a shape of which nothing is known. Where all is known: exactly what executing would give.

        Args:
            data_shape: what is known of the data's shape.
            shape: what is known of the target.
            special_zero: whether a 0 in `shape` copies the data dim at its index.
            timeout: seconds; None: the client's.
            **more: see `ShapeOptions`.
        """
        call = build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)
        return self._run(call, self._endpoint.start_deadline(timeout))

    def infer_shapes(
        self, queries: Sequence[ShapeQuery], *, timeout: float | None = None
    ) -> list[InferredShape | ReshapeError]:
        """Asks many questions; each has its own answer, or its own refusal, which is returned; see `ShapeQuery`."""
        self._endpoint.require_open()
        deadline, answers, started = self._endpoint.start_deadline(timeout), _Answers(), deque[_Started]()
        with self._calls.guard():  # the calls are grpcio's, but this thread begins them
            try:
                for piece in split_queries(queries):
                    if len(started) == MAX_PARALLEL_CALLS:
                        answers += self._await_first(started, deadline)
                    started.append(self._start(build_infer_shapes(piece), deadline))
                while started:
                    answers += self._await_first(started, deadline)
            finally:
                for _, future in started:
                    future.cancel()  # those that are left, where one failed
        return answers

    def check_health(self, service: str = SERVICE, *, timeout: float | None = None) -> HealthStatus:
        """Asks the server for the health of a service, or of the server as a whole (""); never asks again."""
        call, deadline = build_health_check(service), self._endpoint.start_deadline(timeout)
        # A channel of its own: the client's turns away from servers that say NOT_SERVING, so it cannot ask them.
        with self._open_channel(avoid_unhealthy=False) as channel:
            return call.decode(self._send(call, deadline.remaining_seconds, calls=open_calls(channel, self._way)))

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Asks a server, one of those behind the target, for its version, its limits and what each operation takes."""
        return self._run(build_server_info(), self._endpoint.start_deadline(timeout))

    def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server that says SERVING is connected.

        Raises:
            UnavailableError: none was in time.
        """
        seconds = self._endpoint.choose_timeout(timeout)
        self._endpoint.require_open()
        # Ready is what round_robin calls so: a channel whose servers all say NOT_SERVING is not.
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(seconds)
        except grpc.FutureTimeoutError:
            ready.cancel()  # or it goes on watching the channel
            message = f"no server was ready within {seconds} seconds"
            raise UnavailableError(message, grpc.StatusCode.UNAVAILABLE) from None

    def _open_channel(self, *, avoid_unhealthy: bool) -> grpc.Channel:
        options = build_channel_options(self._endpoint.target, avoid_unhealthy=avoid_unhealthy)
        if self._endpoint.credentials is None:
            return grpc.insecure_channel(self._endpoint.target, options)
        return grpc.secure_channel(self._endpoint.target, self._endpoint.credentials, options)

    def _reshape(self, arguments: Arguments, timeout: float | None, how: Transfer) -> Array:
        call = None if how else find_call(arguments, self._inline_max_bytes)
        if call is not None:
            return self._run(call, self._endpoint.start_deadline(timeout))
        return self._transfer(plan_reshape(arguments), timeout, how)

    def _transfer(self, plan: Plan, timeout: float | None, how: Transfer) -> Array:
        delivery = Delivery(plan, how, self._inline_max_bytes)
        deadline = self._endpoint.start_deadline(timeout)
        if delivery.way == "stream":
            # A transfer of its own for each attempt: what has arrived of a stream that was lost is not to be trusted.
            attempts = Attempts(self._endpoint.budget, deadline)
            return self._repeat(
                lambda: self._stream(StreamTransfer(plan, delivery, self._chunk_bytes), attempts), attempts
            )
        if delivery.way == "view":
            return delivery.view(self._run(plan.build_infer(), deadline))
        return delivery.land(self._run(plan.build_inline(), deadline))

    def _run(self, call: Call[Answer], deadline: Deadline) -> Answer:
        try:
            raw = self._send(call, deadline.remaining_seconds)
        except TensorReshapeError as error:
            # Only now: most calls have one attempt, and need no account of them.
            attempts = Attempts(self._endpoint.budget, deadline)
            self._pause(self._hint(error, call, deadline), attempts)
        else:
            self._endpoint.budget.note_success()
            return call.decode(raw)
        return call.decode(self._repeat(lambda: self._send(call, deadline.remaining_seconds), attempts))

    def _hint(self, error: TensorReshapeError, call: Call[Answer], deadline: Deadline) -> TensorReshapeError:
        """Returns the error of a call, with a hint where what the server says of itself, asked once, explains it."""
        if calls_for_hint(error, call) and self._endpoint.server_info is None:
            with suppress(TensorReshapeError):
                self._endpoint.server_info = self.server_info(timeout=deadline.clip(HINT_SECONDS))
        return hint_stream(error, call, self._endpoint.server_info)

    def _send(
        self,
        call: Call[Answer],
        timeout: float | None,
        *,
        wait_for_ready: bool = False,
        calls: DirectCalls | StockCalls | None = None,
    ) -> bytes:
        self._endpoint.require_open()
        send, metadata = (calls or self._calls).send, self._endpoint.metadata
        # No wait for a server by default: to fail at once tells that it is lost, and `retries` waits better.
        return send(call.method, call.request, timeout, metadata, wait_for_ready=wait_for_ready)

    def _start(self, call: Call[Answer], deadline: Deadline) -> tuple[Call[Answer], "grpc.Future[bytes]"]:
        self._endpoint.require_open()
        # Started rather than awaited: several calls of a batch are under way without a thread for each.
        start, metadata = self._stock_calls.start, self._endpoint.metadata
        return call, start(call.method, call.request, deadline.remaining_seconds, metadata)

    def _await_first(self, started: deque[_Started], deadline: Deadline) -> _Answers:
        call, future = started.popleft()
        return self._await(call, future, deadline)

    def _await(self, call: Call[Answer], future: "grpc.Future[bytes]", deadline: Deadline) -> Answer:
        """Returns the answer of a started call; one that failed is sent again as any other is."""
        # The first attempt is to await what was started, every other one to send it anew.
        started = iter([future.result])

        def attempt() -> bytes:
            first = next(started, None)
            return self._send(call, deadline.remaining_seconds) if first is None else explain_one(first)

        return call.decode(self._repeat(attempt, Attempts(self._endpoint.budget, deadline)))

    def _repeat(self, attempt: Callable[[], _Result], attempts: Attempts) -> _Result:
        while True:
            try:
                result = attempt()
            except TensorReshapeError as error:
                self._pause(error, attempts)
            else:
                attempts.note_success()
                return result

    def _pause(self, error: TensorReshapeError, attempts: Attempts) -> None:
        """Waits until the next attempt may begin, after one that ended with `error`; raises where there is none."""
        pause = attempts.plan_pause(error)
        if pause is None:
            raise attempts.choose_end(error) from None
        time.sleep(pause.seconds)
        if pause.is_for_server:
            self._await_server(attempts)
        if attempts.deadline.is_within(0):
            raise error  # not "deadline exceeded", but what kept the call until then

    def _await_server(self, attempts: Attempts) -> None:
        """Waits until a server answers whatever it is; where none does, the next attempt tells why."""
        with attempts.wait_for_server() as seconds, suppress(TensorReshapeError):
            self._send(build_health_check(SERVICE), seconds, wait_for_ready=True)

    def _stream(self, transfer: StreamTransfer, attempts: Attempts) -> Array:
        self._endpoint.require_open()
        # Closed, or a stream that is given up would stay open.
        with closing(self._exchange(transfer, attempts.deadline.remaining_seconds, self._endpoint.metadata)) as answers:
            for raw in answers:
                transfer.receive(raw)
                attempts.note_progress()
        return transfer.finish()
