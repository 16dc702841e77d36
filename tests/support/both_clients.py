"""One interface for the blocking client and the asyncio client, so that one test covers both."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from tensor_reshape.client import AsyncClient, Client, HealthStatus, InferredShape, ReshapeError, ServerInfo
from tensor_reshape.wire.arrays import Array

CLIENTS = ("Client", "AsyncClient")
CALLERS = (*CLIENTS, "StockClient")
"""Also has the blocking client with grpcio's public API, for tests of the events of a call."""

_Answer = TypeVar("_Answer")


class AnyClient:
    """A client of either kind. Every call blocks."""

    def __init__(self, client: Client | AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def reshape(self, *arguments: Any, **fields: Any) -> Array:
        return self._call("reshape", *arguments, **fields)

    def static_reshape(self, *arguments: Any, **fields: Any) -> Array:
        return self._call("static_reshape", *arguments, **fields)

    def dynamic_reshape(self, *arguments: Any, **fields: Any) -> Array:
        return self._call("dynamic_reshape", *arguments, **fields)

    def server_info(self) -> ServerInfo:
        told: ServerInfo = self._await(self._client.server_info())
        return told

    def infer_shape(self, *arguments: Any, **fields: Any) -> InferredShape:
        inferred: InferredShape = self._await(self._client.infer_shape(*arguments, **{"special_zero": False, **fields}))
        return inferred

    def infer_shapes(self, *arguments: Any, **fields: Any) -> list[InferredShape | ReshapeError]:
        answers: list[InferredShape | ReshapeError] = self._await(self._client.infer_shapes(*arguments, **fields))
        return answers

    def check_health(self, *arguments: Any, **fields: Any) -> HealthStatus:
        status: HealthStatus = self._await(self._client.check_health(*arguments, **fields))
        return status

    def wait_until_ready(self, **fields: Any) -> None:
        self._await(self._client.wait_until_ready(**fields))

    def _call(self, name: str, *arguments: Any, **fields: Any) -> Array:
        output: Array = self._await(getattr(self._client, name)(*arguments, **{"special_zero": False, **fields}))
        return output

    def _await(self, called: _Answer | Coroutine[Any, Any, _Answer]) -> _Answer:
        # In the context of this call. Otherwise a runner would keep the context of its first call.
        return self._runner.run(called, context=copy_context()) if isinstance(called, Coroutine) else called


@contextmanager
def open_client(kind: str, target: str, **settings: Any) -> Iterator[AnyClient]:
    """Opens a client of a kind in `CALLERS`."""
    with asyncio.Runner() as runner:
        if not kind.startswith("Async"):
            with Client(target, grpc_api="public" if kind == "StockClient" else "auto", **settings) as client:
                yield AnyClient(client, runner)
            return

        async def make() -> AsyncClient:
            return AsyncClient(target, **settings)

        async_client = runner.run(make())
        try:
            yield AnyClient(async_client, runner)
        finally:
            runner.run(async_client.close())
