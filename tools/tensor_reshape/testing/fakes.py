"""Fake clients that need no server.

Fake clients are the SDK's clients, but this process answers their calls by the same rules.

Invariants:

- A call has the same result or error as with a server with default limits. A fake client opens no connection.
- If a test requests a failure, the next call that the SDK would send ends with this failure. If the SDK rejects a call
  locally, the requested failure remains for the next call. A fake client neither retries nor waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from itertools import chain

from grpc import StatusCode

from tensor_reshape.client.aio import AsyncClient
from tensor_reshape.client.aio_calls import AioCalls, require_loop
from tensor_reshape.client.contexts import ClientContext
from tensor_reshape.client.errors import UnavailableError
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.grpc_core import GrpcApi
from tensor_reshape.client.hints import advise
from tensor_reshape.client.options import ChannelSettings, Endpoint
from tensor_reshape.client.queries import ShapeQuery, split_queries
from tensor_reshape.client.requests import Call, ShapeAnswers, build_infer_shapes
from tensor_reshape.client.responses import Answer
from tensor_reshape.client.sync import Client
from tensor_reshape.client.sync_calls import SyncCalls
from tensor_reshape.client.transfers import StreamTransfer
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.testing.responses import respond, respond_to_stream


class FakeClient(Client):
    """A `Client` that needs no server, because it applies the server's rules itself.

    A FakeClient accepts the same arguments as a `Client`, and ignores arguments about connections.

    >>> client = FakeClient()
    >>> client.reshape([[1, 2], [3, 4]], [4], special_zero=False)
    array([1, 2, 3, 4])
    >>> client.fail_next()
    >>> client.infer_shape((2, 3), (-1,), special_zero=False)
    Traceback (most recent call last):
        ...
    tensor_reshape.client.errors.UnavailableError: UNAVAILABLE: failure requested by fail_next
    """

    _calls: "_FakeCalls"

    def fail_next(self, error: Exception | None = None, *, times: int = 1) -> None:
        """Makes the next calls fail.

        Args:
            error: the error. By default, the calls fail with an `UnavailableError`, as without a server.
            times: the number of calls that fail.

        >>> from tensor_reshape.client import LimitError, Reason
        >>> client = FakeClient()
        >>> client.fail_next(LimitError.of(Reason.SERVER_BUSY, "too many calls"))
        >>> client.check_health()
        Traceback (most recent call last):
            ...
        tensor_reshape.rules.errors.LimitError: too many calls
        >>> client.check_health()
        <HealthStatus.SERVING: 1>
        """
        self._calls.fail_next(error, times)

    def _open_calls(self, settings: ChannelSettings, grpc_api: GrpcApi) -> "_FakeCalls":
        del settings, grpc_api  # a fake client has no channel, so it ignores these options
        return _FakeCalls(self._endpoint)


class AsyncFakeClient(AsyncClient):
    """`FakeClient` for asyncio.

    >>> import asyncio
    >>> async def infer():
    ...     async with AsyncFakeClient() as client:
    ...         return await client.infer_shape(["N", 4], [0, -1], special_zero=True)
    >>> asyncio.run(infer())
    InferredShape([N, 4])
    """

    _calls: "_AsyncFakeCalls"

    def fail_next(self, error: Exception | None = None, *, times: int = 1) -> None:
        """Makes the next calls fail; see `FakeClient.fail_next`.

        >>> import asyncio
        >>> async def infer():
        ...     async with AsyncFakeClient() as client:
        ...         client.fail_next(TimeoutError("too late"))
        ...         await client.check_health()
        >>> asyncio.run(infer())
        Traceback (most recent call last):
            ...
        TimeoutError: too late
        """
        self._calls.fakes.fail_next(error, times)

    def _open_calls(self, settings: ChannelSettings, grpc_api: GrpcApi) -> "_AsyncFakeCalls":
        require_loop()
        del settings, grpc_api  # a fake client has no channel, so it ignores these options
        return _AsyncFakeCalls(self._endpoint)


class _FakeCalls(SyncCalls):
    """The calls of a fake client.

    Several threads may make calls at the same time, because operations of a deque are atomic.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._failures = deque[Exception]()

    def fail_next(self, error: object, times: int) -> None:
        if error is None:
            text = "failure requested by fail_next"
            error = UnavailableError(text, StatusCode.UNAVAILABLE)
        if not isinstance(error, Exception):
            message = f"error is {error!r}: write an exception, such as LimitError.of(Reason.SERVER_BUSY, 'busy')"
            raise TypeError(message)
        self._failures.extend([error] * times)

    def close(self) -> None:
        self._endpoint.close()

    def run(self, call: Call[Answer], context: ClientContext) -> Answer:
        with context:
            self._begin()
            try:
                return call.decode(respond(call.method, call.request))
            except TensorReshapeError as error:
                raise advise(error, call.method) from error.__cause__

    def run_batch(self, queries: Iterable[ShapeQuery], context: ClientContext) -> ShapeAnswers:
        self._endpoint.require_open()  # this check is made even if a batch has no queries
        return [one for batch in split_queries(queries) for one in self.run(build_infer_shapes(batch), context)]

    def stream(self, make_transfer: Callable[[], StreamTransfer], context: ClientContext) -> Output:
        with context:
            self._begin()
            transfer = make_transfer()
            for raw in respond_to_stream(chain([transfer.begin], transfer.build_chunks())):
                transfer.receive(raw)
            return transfer.finish()

    def call_once(self, call: Call[Answer], context: ClientContext) -> Answer:
        return self.run(call, context)

    def wait_until_ready(self, seconds: float | None) -> None:
        del seconds  # a fake client is always ready, unless a failure was requested
        self._begin()

    def _begin(self) -> None:
        self._endpoint.require_open()
        if self._failures:
            failure = self._failures.popleft()
            # The error is copied, because a failing call stores its request id in the error.
            raise copy(failure) if isinstance(failure, TensorReshapeError) else failure


class _AsyncFakeCalls(AioCalls):
    """The calls of a fake client for asyncio. Each call lets other tasks run once, as a call to a server would."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.fakes = _FakeCalls(endpoint)

    async def close(self) -> None:
        self.fakes.close()

    async def run(self, call: Call[Answer], context: ClientContext) -> Answer:
        await asyncio.sleep(0)
        return self.fakes.run(call, context)

    async def run_batch(self, queries: Iterable[ShapeQuery], context: ClientContext) -> ShapeAnswers:
        await asyncio.sleep(0)
        return self.fakes.run_batch(queries, context)

    async def stream(self, make_transfer: Callable[[], StreamTransfer], context: ClientContext) -> Output:
        await asyncio.sleep(0)
        return self.fakes.stream(make_transfer, context)

    async def call_once(self, call: Call[Answer], context: ClientContext) -> Answer:
        return await self.run(call, context)

    async def wait_until_ready(self, seconds: float | None) -> None:
        await asyncio.sleep(0)
        self.fakes.wait_until_ready(seconds)
