"""Calls over HTTP: admitted, worked on, watched and ended as those of gRPC are, beside them and within the same limits.

- Each is a call of the engine: gates are asked for it by its head, it has a place and its part of the budget, and
  observers, metrics and the log see its life. It has the name of the method that it asks, and of its connection.
- All of a call is done on the thread of the port's loop, but what is said to be called elsewhere, and work that takes
  long: that has threads of its own, as many as over gRPC, so that neither side keeps the other from a thread.
- Its sizes are those of JSON, of a request's body and an answer's.
- A call counts as answered when the last piece of its answer is the connection's. Who does not read is given up as over
  gRPC, and who has gone is found out at once while the server works.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.engine.call_logs import log_bad_end
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.lifecycle import GONE, Ending, Lifecycle, State
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.statuses import OK, choose_end
from tensor_reshape.server.http.answers import Answer, build_answer, build_refusal, list_told, send_answer
from tensor_reshape.server.http.peers import Peer, find_peer
from tensor_reshape.server.http.requests import DisconnectedError, find_most_bytes, read_message, read_metadata
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.server.service.works import Work

Pools = Mapping[Work, Executor]
"""The threads for each kind of work."""


class HttpCall:
    """One call, in the task that serves its request."""

    def __init__(self, method: Method, service: Service, pools: Pools, peer: Peer, scope: Scope) -> None:
        """Idle until `serve`."""
        self._method = method
        self._engine, self._perform = service.engine, service.perform
        self._pools = pools
        self._peer = peer
        self._scope = scope
        self._life = Lifecycle(self, method.name)
        self._life.head = self._head = CallHead(method.name, read_metadata(scope))
        self._head.name_caller(peer.name, peer.ask_tls)
        self._head.tell_request_id()
        self._source = service.sources.find(peer.name, self._head.metadata)
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._task = asyncio.current_task()
        self._room = asyncio.Event()
        self._refusal: LimitError | None = None  # that ends all waiting
        self._is_decided = False  # whether the answer is known: nothing ends the task any more

    async def serve(self, receive: Receive, send: Send) -> None:
        """Serves the call."""
        answer = None
        try:
            answer = await self._answer(receive)
            if answer is not None:
                await send_answer(answer, send)
        finally:
            self._perform(self._engine.release(self._life, gone=answer is None))

    def start_read(self) -> None:
        """Goes on, for which there is room; see `ServedCall`."""
        self._do(self._room.set)

    start_work = start_read  # there is one task, and it knows what it waits for

    def start_send(self) -> None:
        """Does nothing: the answer goes with the end; see `ServedCall`."""

    def give_up(self, refusal: LimitError, state: State) -> None:
        """Ends the call with a refusal; see `ServedCall`."""
        del state
        self._log(Ending(refusal.code_name, str(refusal.reason)))
        self._do(lambda: self._interrupt(refusal))

    def drop(self, refusal: LimitError | None) -> None:
        """Ends the call at once; see `ServedCall`."""
        if refusal is not None:
            self._log(Ending(GONE.code, str(refusal.reason)))
        self._do(self._peer.abort)

    async def _answer(self, receive: Receive) -> Answer | None:
        """Returns what the caller is told; None: he has gone."""
        try:
            return await self._attempt(receive)
        except DisconnectedError:
            return None
        except asyncio.CancelledError:
            if self._refusal is None or self._task is None:
                raise  # the server stops
            self._task.uncancel()
            return self._end(self._refusal)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            return self._end(error)

    async def _attempt(self, receive: Receive) -> Answer:
        size = find_most_bytes(self._scope)
        self._perform(self._engine.enter(self._life, self._source, size))
        await self._await_room()
        message = await read_message(self._scope, receive)
        if not self._engine.message_received(self._life, len(message)):
            await self._await_room()  # until the refusal: nothing else can have moved the call
        answer = self._conclude(lambda: self._method.answer_light(message))
        if answer is not None:
            return answer
        self._perform(self._engine.request_work(self._life))
        await self._await_room()
        return await self._await_work(message, receive)

    async def _await_room(self) -> None:
        await self._room.wait()
        self._room.clear()

    async def _await_work(self, message: bytes, receive: Receive) -> Answer:
        """Has a thread answer; leaves it alone with that when the caller goes."""
        working = self._loop.run_in_executor(self._pools[self._method.find_work(message)], self._work, message)
        gone = self._loop.create_task(_await_end(receive))
        either: tuple[asyncio.Future[Any], ...] = (working, gone)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if working.done() and working.result() is None:
                await gone  # or the refusal interrupts, which was decided before, but may be on its way to the loop
        finally:
            gone.cancel()
        answer = working.result() if working.done() else None
        if answer is None:
            raise DisconnectedError
        return answer

    def _work(self, message: bytes) -> Answer | None:
        """Answers, on a thread of the pool; None: the call has ended before."""
        if not self._engine.take_up(self._life):
            return None
        return self._conclude(lambda: self._method.answer(message, lambda: self._life.is_over))

    def _conclude(self, compute: Callable[[], bytes | None]) -> Answer | None:
        """Answers, if that is not for another thread, and notes how the call ends; on any thread."""
        try:
            body = compute()
            if body is None:
                return None
            answer = build_answer(body, list_told(self._head.trailing))
            self._perform(self._engine.end(self._life, OK, len(body)).effects)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            return self._end(error)
        self._is_decided = True
        return answer

    def _end(self, error: Exception) -> Answer:
        """Notes that the call ends with what `error` says, and returns what its caller is told."""
        self._is_decided = True
        end = choose_end(error, self._head)
        ended = self._engine.end(self._life, end.ending)
        self._perform(ended.effects)
        if ended.is_first:  # else it has been given up, for `error`, or is over
            self._log(end.ending, end.field)
        return build_refusal(end)

    def _interrupt(self, refusal: LimitError) -> None:
        if not self._is_decided and self._task is not None:
            self._refusal = refusal
            self._task.cancel()

    def _do(self, action: Callable[[], object]) -> None:
        """Does something on the loop's thread."""
        if threading.get_ident() == self._thread:
            action()
            return
        with suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(action)

    def _log(self, ending: Ending, field: str = "") -> None:
        log_bad_end(self._head, ending, self._life.began, field)


async def _await_end(receive: Receive) -> None:
    """Awaits that the caller goes."""
    while (await receive())["type"] != "http.disconnect":
        pass


class CallAsker:
    """Has methods answer requests as calls of a server: an `Asker`."""

    def __init__(self, service: Service, pools: Pools) -> None:
        """Makes calls of `service`, with these threads."""
        self._service = service
        self._pools = pools

    async def __call__(self, method: Method, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        call = HttpCall(method, self._service, self._pools, find_peer(scope), scope)
        await call.serve(receive, send)
