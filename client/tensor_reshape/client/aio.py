"""The client that awaits: the same names and arguments as `sync.Client`, which documents them."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import grpc
import grpc.aio
import numpy.typing as npt

from tensor_reshape.client import _calls
from tensor_reshape.client._calls import Answer, Call, Expected, Target
from tensor_reshape.client.errors import ServiceError, UnavailableError, build_error
from tensor_reshape.client.options import (
    DEFAULT_TARGET,
    DEFAULT_TIMEOUT_SECONDS,
    Endpoint,
    Metadata,
    build_channel_options,
)
from tensor_reshape.core.operations import DYNAMIC_RESHAPE, RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.codec import SERVICE
from tensor_reshape.wire.health import HealthStatus


class AsyncClient:
    """Reshapes arrays on a server, over one channel that belongs to the event loop it was made in."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Metadata = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Makes the channel, as `Client` does.

        Raises:
            RuntimeError: no event loop is running: the channel would belong to the wrong one.
        """
        asyncio.get_running_loop()
        self._endpoint = Endpoint(target, credentials, metadata, timeout)
        self._channel = self._open_channel(avoid_unhealthy=True)

    async def __aenter__(self) -> Self:
        """Returns the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channel."""
        await self.close()

    async def close(self) -> None:
        """Closes the channel; calls under way are cancelled."""
        self._endpoint.closed = True
        await self._channel.close()

    async def static_reshape(
        self,
        array: npt.ArrayLike,
        shape: Sequence[int],
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
    ) -> Array:
        """Executes StaticReshape-1 (oneDNN Graph); see `Client.static_reshape`."""
        call = _calls.build_static_reshape(array, shape, special_zero=special_zero, expected_shape=expected_shape)
        return await self._run(call, timeout, self._channel)

    async def dynamic_reshape(
        self,
        array: npt.ArrayLike,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
    ) -> Array:
        """Executes DynamicReshape-1 (oneAPI Graph); see `Client.dynamic_reshape`."""
        call = _calls.build_tensor_reshape(
            DYNAMIC_RESHAPE, array, shape, special_zero=special_zero, expected_shape=expected_shape
        )
        return await self._run(call, timeout, self._channel)

    async def reshape(
        self,
        array: npt.ArrayLike,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
    ) -> Array:
        """Executes Reshape-1 (OpenVINO); see `Client.reshape`."""
        call = _calls.build_tensor_reshape(
            RESHAPE, array, shape, special_zero=special_zero, expected_shape=expected_shape
        )
        return await self._run(call, timeout, self._channel)

    async def infer_shape(
        self,
        data_shape: Sequence[int],
        shape: Sequence[int],
        *,
        special_zero: bool,
        operation: str = "static_reshape",
        expected_shape: Expected = None,
        timeout: float | None = None,
    ) -> tuple[int, ...]:
        """Asks for the output shape of an operation; see `Client.infer_shape`."""
        call = _calls.build_infer_shape(
            data_shape, shape, special_zero=special_zero, operation=operation, expected_shape=expected_shape
        )
        return await self._run(call, timeout, self._channel)

    async def check_health(self, service: str = SERVICE, *, timeout: float | None = None) -> HealthStatus:
        """Asks the server for the health of a service, or of the server as a whole ("")."""
        async with self._open_channel(avoid_unhealthy=False) as channel:
            return await self._run(_calls.build_health_check(service), timeout, channel)

    async def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server that says SERVING is connected; see `Client.wait_until_ready`."""
        seconds = self._endpoint.choose_timeout(timeout)
        self._endpoint.check_open()
        try:
            await asyncio.wait_for(self._channel.channel_ready(), seconds)
        except TimeoutError:
            message = f"no server was ready within {seconds} seconds"
            raise UnavailableError(message, grpc.StatusCode.UNAVAILABLE) from None

    def _open_channel(self, *, avoid_unhealthy: bool) -> grpc.aio.Channel:
        options = build_channel_options(avoid_unhealthy=avoid_unhealthy)
        if self._endpoint.credentials is None:
            return grpc.aio.insecure_channel(self._endpoint.target, options)
        return grpc.aio.secure_channel(self._endpoint.target, self._endpoint.credentials, options)

    async def _run(self, call: Call[Answer], timeout: float | None, channel: grpc.aio.Channel) -> Answer:
        self._endpoint.check_open()
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(call.method)
        try:
            response = await method(
                call.request, timeout=self._endpoint.choose_timeout(timeout), metadata=self._endpoint.metadata
            )
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            message = "the client was closed"
            raise ServiceError(message, grpc.StatusCode.CANCELLED) from None
        except grpc.aio.AioRpcError as error:
            raise build_error(error.code(), error.details(), error.trailing_metadata() or ()) from None
        return call.decode(response)


def _is_being_cancelled() -> bool:
    """Whether it is this task that was cancelled, and not the call under it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
