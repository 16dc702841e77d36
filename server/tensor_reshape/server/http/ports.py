"""The port where HTTP is spoken: an event loop on a thread of its own, beside that which receives the calls of gRPC.

- It takes `CONNECTIONS_PER_SECOND`, however many come, and has `MAX_CONNECTIONS` of them: over TLS each takes 300 KiB.
  Where there are as many, one that carries no call makes room, of the host that has most of them: so one host alone
  keeps nobody out.
- While anybody is connected, the interpreter switches between threads as fast as while anybody computes: the loop
  would otherwise keep each call of gRPC waiting for 5 ms, as often as it wakes up.
- It drains with the rest of the server: who is idle is sent away, and what is under way is answered.
- `start`, `dismiss` and `end` are for the thread that owns the server, what is asked of it for any; all else is done on
  the loop's.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from starlette.types import ASGIApp
from uvicorn.config import Config as UvicornConfig
from uvicorn.server import ServerState

from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.fair_locks import FAST_SWITCHES
from tensor_reshape.server.engine.sources import find_address, name_peer
from tensor_reshape.server.http.connections import IDLE_SECONDS, Connection
from tensor_reshape.server.transport.listeners import share, take

CONNECTIONS_PER_SECOND = 500
"""How many connections are taken: a handshake of TLS takes a millisecond of processor time."""

MAX_CONNECTIONS = 256
"""How many there are at once."""

_BACKLOG = 128
_DATE_SECONDS = 1.0

FindContext = Callable[[], ssl.SSLContext | None]
"""Returns what a connection is made with that comes now; None: in plain text."""


@dataclass(eq=False, slots=True)
class _Guest:
    """Who has been taken: its host, when it was last heard of, and the connection, once it is made."""

    name: str
    host: str
    came_at: float
    task: asyncio.Task[None] | None = None
    connection: Connection | None = None
    leaves: bool = False  # it has been sent away, for which the loop takes some turns: it is not to be chosen again

    @property
    def is_busy(self) -> bool:
        return self.connection is not None and self.connection.is_busy

    @property
    def since(self) -> float:
        return self.came_at if self.connection is None else self.connection.since

    def send_away(self) -> None:
        self.leaves = True
        if self.connection is not None:
            self.connection.abort()
        elif self.task is not None:
            self.task.cancel()


class HttpPort:
    """Serves an application on an address of its own.

    Attributes:
        address: where, with its real port.
        max_connections: that it takes.
    """

    def __init__(self, config: Config, address: str, app: ASGIApp, find_context: FindContext, *, shares: bool) -> None:
        """Binds `address`.

        Args:
            config: of the server.
            address: host:port.
            app: answers the requests.
            find_context: is asked for each connection, so that certificates may be replaced.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self.address, self._listeners = (share if shares else take)(address)
        for listener in self._listeners:
            listener.settimeout(0)  # as asyncio wants them
            # What is accepted inherits it. An answer is a head and a body: the latter would wait 40 ms for the caller's
            # system to acknowledge the former. asyncio sees to that for sockets alone that it has made itself.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.listen(_BACKLOG)  # now, or others could take the port; who comes waits for `start`
        self.max_connections = MAX_CONNECTIONS
        self._handshake_seconds = config.handshake_seconds
        self._find_context = find_context
        self._protocol = UvicornConfig(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # whoever comes may have written them
            timeout_keep_alive=IDLE_SECONDS,
            h11_max_incomplete_event_size=config.max_metadata_bytes,
        )
        self._state = ServerState()
        self._guests = set[_Guest]()
        self._loop: asyncio.AbstractEventLoop | None = None  # until it is started
        self._accepting = list[asyncio.Task[None]]()
        self._dismissed = False
        self._ended = asyncio.Event()
        self._thread = threading.Thread()

    @property
    def is_idle(self) -> bool:
        """Whether nobody is connected; from any thread."""
        return not self._guests

    @property
    def connections(self) -> int:
        """How many there are; from any thread."""
        return len(self._guests)

    @property
    def is_deaf(self) -> bool:
        """Whether its thread has ended, although nobody has ended it; from any thread."""
        has_ended = self._loop is not None and not self._thread.is_alive()
        return has_ended and not self._ended.is_set()  # asked last: who is ended ends a moment after it is set

    def start(self) -> None:
        """Starts to serve."""
        self._protocol.load()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="http", daemon=True)
        self._thread.start()

    def dismiss(self) -> None:
        """Takes nobody any more, sends away who is idle, and all others when they have been answered."""
        self._call(self._dismiss)

    def end(self) -> None:
        """Ends all that is under way."""
        self._call(self._ended.set)
        if self._loop is not None:
            self._thread.join()
        self._close_listeners()

    def _call(self, action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(action)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._serve())
        finally:
            loop.close()

    async def _serve(self) -> None:
        self._accepting = [asyncio.create_task(self._accept_all(listener)) for listener in self._listeners]
        dating = asyncio.create_task(self._tell_date())
        try:
            await self._await_end()
        finally:
            dating.cancel()
            self._dismiss()
            await self._send_all_away()

    async def _await_end(self) -> None:
        """Awaits `end`; what accepts is cancelled before, or has a bug, which ends the thread: see `is_deaf`."""
        ended = asyncio.create_task(self._ended.wait())
        watched = {ended, *self._accepting}
        try:
            while not ended.done():
                over, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                for task in over:
                    if not task.cancelled():
                        task.result()
        finally:
            ended.cancel()

    async def _send_all_away(self) -> None:
        for guest in tuple(self._guests):
            guest.send_away()
        await _settle(guest.task for guest in self._guests)
        for task in tuple(self._state.tasks):
            task.cancel()
        await _settle(self._state.tasks)

    async def _tell_date(self) -> None:
        while True:
            self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(_DATE_SECONDS)

    def _dismiss(self) -> None:
        self._dismissed = True
        for task in self._accepting:
            task.cancel()
        self._close_listeners()
        for guest in tuple(self._guests):
            if guest.connection is None:
                guest.send_away()
            else:
                guest.connection.shutdown()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def _accept_all(self, listener: socket.socket) -> None:
        while True:
            with suppress(OSError):  # no descriptors are left, or the connection is gone already
                accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
                self._admit(accepted)
            # One in a turn of the loop: a task that is cancelled before it has begun cleans nothing up.
            await asyncio.sleep(1 / CONNECTIONS_PER_SECOND)

    def _admit(self, accepted: socket.socket) -> None:
        """Takes a connection, where there is room, or somebody makes some.

        Raises:
            OSError: it is gone already.
        """
        try:
            name = name_peer(accepted)
            self._make_room()
        except OSError:
            accepted.close()
            raise
        guest = _Guest(name, find_address(name), time.monotonic())
        if not self._guests:
            FAST_SWITCHES.begin()
        self._guests.add(guest)
        guest.task = asyncio.create_task(self._host(guest, accepted))

    def _make_room(self) -> None:
        """Sends one away who is idle, where there are as many as there may be.

        Raises:
            ConnectionRefusedError: nobody is idle.
        """
        staying = [guest for guest in self._guests if not guest.leaves]
        if len(staying) < self.max_connections:
            return
        held = Counter(guest.host for guest in staying)
        idle = [guest for guest in staying if not guest.is_busy]
        if not idle:
            raise ConnectionRefusedError
        max(idle, key=lambda guest: (held[guest.host], -guest.since)).send_away()

    async def _host(self, guest: _Guest, accepted: socket.socket) -> None:
        """Has a connection served until it is closed."""
        try:
            context = self._find_context()
            _, guest.connection = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self._protocol, self._state, guest.name),
                accepted,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self._handshake_seconds,
            )
            if self._dismissed:
                guest.connection.shutdown()
            await guest.connection.closed.wait()
        except OSError:
            pass  # it is gone, or speaks no TLS that this server takes
        finally:
            accepted.close()
            self._guests.discard(guest)
            if not self._guests:
                FAST_SWITCHES.end()


async def _settle(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Awaits the end of tasks, however they end."""
    await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
