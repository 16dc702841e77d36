"""One interface for the blocking client and the asyncio client, so that one test covers both."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TextIO

from tensor_reshape.client import AsyncClient, Client, HealthStatus, InferredShape, ReshapeError, ServerInfo
from tensor_reshape.wire.arrays import Array
from waits import WAIT_SECONDS

CLIENTS = ("Client", "AsyncClient")
CALLERS = (*CLIENTS, "StockClient")
"""Also has the blocking client with grpcio's public API, for tests of the events of a call."""

_INTERRUPTED = """
import math, signal, sys
import numpy as np
from tensor_reshape.client import Client

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background inherit an ignored SIGINT
with Client(sys.argv[1], grpc_api=sys.argv[2], timeout=math.inf) as client:
    try:
        {call}
    except (KeyboardInterrupt, RuntimeError) as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A signal that arrives while a condition releases its lock raises "cannot release un-acquired lock".
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            print("interrupted")
"""


class AnyClient:
    """A client of either kind. Every call blocks."""

    reshape: Callable[..., Array]
    static_reshape: Callable[..., Array]
    dynamic_reshape: Callable[..., Array]
    infer_shape: Callable[..., InferredShape]
    infer_shapes: Callable[..., list[InferredShape | ReshapeError]]
    check_health: Callable[..., HealthStatus]
    server_info: Callable[..., ServerInfo]
    wait_until_ready: Callable[..., None]

    def __init__(self, client: Client | AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner
        for name in type(self).__annotations__:
            setattr(self, name, partial(self._call, name))

    def _call(self, name: str, *arguments: Any, **fields: Any) -> Any:  # noqa: ANN401 - the result of any call
        defaults = {"special_zero": False} if name.endswith("shape") else {}
        called = getattr(self._client, name)(*arguments, **{**defaults, **fields})
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


def interrupt_call(
    address: str, grpc_api: str, call: str, entered: threading.Event, *, stderr: TextIO | None = None
) -> str:
    """Makes a call of `client` in a process, and sends SIGINT to it until it ends. Returns its standard output.

    Python ignores an interruption that arrives in a finalizer or in a callback from C, so a single signal may have no
    effect.
    """
    command = [sys.executable, "-c", _INTERRUPTED.format(call=call), address, grpc_api]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            assert entered.wait(WAIT_SECONDS)
            deadline = time.monotonic() + WAIT_SECONDS
            while True:
                process.send_signal(signal.SIGINT)
                try:
                    written = process.communicate(timeout=5)[0]
                except subprocess.TimeoutExpired:
                    assert time.monotonic() < deadline
                else:
                    assert process.returncode == 0
                    return written
        finally:
            process.kill()
