"""The HTTP port where Prometheus asks: GET /metrics, and nothing else.

- Whoever reaches the port is a stranger: it is in plain text, and asks nobody who he is. So it is for a network of the
  operator's own; and what strangers can bring about there all the same is bounded.
- One thread serves all. It takes CONNECTIONS_PER_SECOND, however many come: to take more would keep the calls of the
  service from the interpreter. The others wait in the system's queue.
- Each connection has REQUEST_SECONDS for its one request and its one answer, and is closed then, whatever it does. So
  no more are open than come in that time, and who says nothing keeps nobody else waiting.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tensor_reshape.server.config import Config
from tensor_reshape.server.metrics.expositions import Exposition, Source
from tensor_reshape.server.metrics.tallies import Layout
from tensor_reshape.server.transport.listeners import take

CONNECTIONS_PER_SECOND = 50
"""How many connections are taken. A server is asked by a few, every few seconds."""

REQUEST_SECONDS = 2.0
"""How long a connection has for its request and its answer."""

_MAX_REQUEST_BYTES = 8192
_BACKLOG = 64
_END = b"\r\n\r\n"
_LOGGER = logging.getLogger(__name__)


@contextmanager
def serve_metrics(config: Config, layout: Layout, list_sources: Callable[[], Sequence[Source]]) -> Iterator[str]:
    """Shows the metrics of a server at `config.metrics_listen` during the block; yields the address, by its real port.

    Args:
        config: of the server.
        layout: of the tallies.
        list_sources: returns the processes that serve.

    Raises:
        ConfigError: the address cannot be bound.
    """
    exposition = Exposition(config, layout, list_sources)
    port = MetricsPort(config.metrics_listen or "", exposition.content_type, exposition.render)
    port.start()
    _LOGGER.info("listening for metrics", extra={"address": port.address})
    try:
        yield port.address
    finally:
        port.stop()


class MetricsPort:
    """Answers on an address of its own.

    Attributes:
        address: where, with its real port.
    """

    def __init__(self, address: str, content_type: str, render: Callable[[], bytes]) -> None:
        """Binds `address`.

        Args:
            address: host:port.
            content_type: of what is rendered.
            render: returns the page; called on the thread of this port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self._content_type = content_type
        self._render = render
        self.address, self._sockets = take(address)
        for listener in self._sockets:
            listener.settimeout(0)  # as asyncio wants them
            listener.listen(_BACKLOG)  # now, or others could take the port; who comes waits for `start`
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps none
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Starts to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all that is under way, and gives the port back."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve_all())
        finally:
            self._loop.close()
            for listener in self._sockets:
                listener.close()

    async def _serve_all(self) -> None:
        for listener in self._sockets:
            self._begin(self._accept_all(listener))
        await self._stopped.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept_all(self, listener: socket.socket) -> None:
        while True:
            with suppress(OSError):  # no descriptors are left, or the connection is gone already
                connection, _ = await self._loop.sock_accept(listener)
                self._begin(self._serve(connection))
            await asyncio.sleep(1 / CONNECTIONS_PER_SECOND)

    async def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(TimeoutError, OSError):
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await self._receive(connection)
                await self._loop.sock_sendall(connection, self._answer(request))

    async def _receive(self, connection: socket.socket) -> bytes:
        request = b""
        while _END not in request and len(request) < _MAX_REQUEST_BYTES:
            received = await self._loop.sock_recv(connection, _MAX_REQUEST_BYTES)
            if not received:
                break
            request += received
        return request

    def _answer(self, request: bytes) -> bytes:
        """Returns the answer to what was received, whole or not."""
        line, _, _ = request.partition(b"\r\n")
        method, _, target = line.partition(b" ")
        path = target.partition(b" ")[0].partition(b"?")[0]
        if _END not in request:
            return _build_answer("400 Bad Request")
        if path != b"/metrics":
            return _build_answer("404 Not Found")
        if method not in {b"GET", b"HEAD"}:
            return _build_answer("405 Method Not Allowed")
        try:
            page = self._render()
        except Exception:
            _LOGGER.exception("bug")
            return _build_answer("500 Internal Server Error")
        head = _build_answer("200 OK", self._content_type, len(page))
        return head if method == b"HEAD" else head + page


def _build_answer(status: str, content_type: str = "text/plain", size: int = 0) -> bytes:
    """Returns the head of an answer; without a size there is nothing behind it."""
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {size}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + _END
