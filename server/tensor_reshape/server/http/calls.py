"""Calls over HTTP, which have the same admission control, limits, observers and shutdown as calls over gRPC.

- The engine treats an HTTP call like a gRPC call. The admission checks (gates) check the headers of an HTTP call. An
  HTTP call takes a concurrency slot and a part of the memory budget, and observers, metrics and the log receive its
  events. The events of an HTTP call contain the gRPC name of the method.
- One task on the event loop of the HTTP port serves a call. Long work runs on threads that gRPC does not use, so HTTP
  and gRPC do not block each other. There are as many threads for long work of HTTP calls as for gRPC calls.
- In metrics and logs, the message sizes of an HTTP call are the sizes of its JSON.
- An HTTP call is complete when the connection has accepted the whole response. As with gRPC, the server aborts an HTTP
  call if the client does not read the response. If the client disconnects while a thread works on an HTTP call, the
  call ends at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Send

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.call_logs import log_failure
from tensor_reshape.server.calls.statuses import GONE, OK, CallResult, build_failure
from tensor_reshape.server.engine.lifecycle import Lifecycle
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.http.connections import find_connection
from tensor_reshape.server.http.requests import await_disconnect, get_message_size, read_message, read_metadata
from tensor_reshape.server.http.responses import JSON_FORM, Form
from tensor_reshape.server.service.method_tables import Method

_Result = TypeVar("_Result")


class HttpCall:
    """One HTTP call, which is served by one asyncio task.

    An `HttpCall` does not store its request, because a stored request would keep the message in memory.
    """

    def __init__(self, service: Service, method: Method, request: Request, form: Form = JSON_FORM) -> None:
        """Creates a call, which `serve` then starts. `service` must use the thread pools of the HTTP port."""
        self._form = form
        self._engine, self._perform, self._pools = service.engine, service.perform, service.pools
        self._method = method
        self._connection = connection = find_connection(request)
        self._life = Lifecycle(self, method.name)
        self._info = CallInfo(method.name, read_metadata(request), connection.name, lambda: connection.certificate)
        self._life.info = self._info
        self._info.return_request_id()
        self._source = service.sources.find(connection.name, self._info.metadata)
        self._loop = asyncio.get_running_loop()
        self._is_reading = False  # whether the message is arriving, or was arriving when the call was aborted
        self._message: bytes | None = None  # the request message while the call waits for a thread
        self._may_continue = asyncio.Event()
        self._rejected: asyncio.Future[LimitError] = self._loop.create_future()

    async def serve(self, request: Request, send: Send) -> None:
        """Serves the call."""
        is_gone = True
        try:
            response = await self._compute(request)
            is_gone = False
            if self._is_reading and self._rejected.done():
                response.headers["connection"] = "close"  # the client will not send the rest of its message
            await response(request.scope, request.receive, send)
            await self._connection.flow.drain()
        except ClientDisconnect:
            pass
        finally:
            self._perform(self._engine.release(self._life, gone=is_gone))
            # the reference to the message is deleted last, because a thread that has just started needs the message
            self._message = None

    def start_read(self) -> None:
        """Wakes the task of the call when memory is available (see `ServedCall`)."""
        self._do(self._may_continue.set)

    start_work = start_read  # the task of a call first waits for memory, and later for a thread

    def start_send(self) -> None:
        """Does nothing, because the response is sent when the call ends (see `ServedCall`)."""

    def abort(self, rejection: LimitError) -> None:
        """Ends the call with an error (see `ServedCall`)."""
        self._log(CallResult(rejection.code_name, str(rejection.reason)), detail=rejection.message)
        self._do(lambda: self._reject(rejection))

    def drop(self, rejection: LimitError | None) -> None:
        """Ends the call at once, without a response (see `ServedCall`)."""
        if rejection is not None:
            self._log(CallResult(GONE.code, str(rejection.reason)), detail=rejection.message)
        self._do(self._connection.abort)

    async def _compute(self, request: Request) -> Response:
        """Returns the response for the client.

        Raises:
            ClientDisconnect: the client has disconnected.
        """
        try:
            self._engine.prepare(self._life, self._info.metadata, lambda: self._info)
            self._perform(self._engine.enter(self._life, self._source, get_message_size(request)))
            await self._unless_rejected(self._may_continue.wait())
            self._may_continue.clear()
            self._is_reading = True
            message = await self._unless_rejected(read_message(request))
            self._is_reading = False
            if not self._engine.message_received(self._life, len(message)):
                return self._end(await self._rejected)
            response = self._conclude(lambda: self._method.respond_light(message))
            if response is not None:
                return response
            self._perform(self._engine.request_work(self._life))
            return await self._unless_rejected(self._await_work(message, request))
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - the client gets no details of a bug
            return self._end(error)

    async def _unless_rejected(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns the result of `work`.

        Raises:
            LimitError: the call was aborted before `work` ended.
        """
        task = self._loop.create_task(work)
        try:
            await asyncio.wait((task, self._rejected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()  # does nothing if the task is done; the deadline of a call cancels this coroutine
        if task.done():
            return task.result()
        raise self._rejected.result()

    async def _await_work(self, message: bytes, request: Request) -> Response:
        """Runs the gRPC method on the next free worker thread.

        Stops waiting for the result if the client disconnects.
        """
        await self._may_continue.wait()
        # The request message is not an argument of the function that the thread pool runs. The queue of the pool would
        # keep the message after the client has disconnected, and the memory budget would not count the message.
        self._message = message
        working = self._loop.run_in_executor(self._pools[self._method.find_work(message)], self._work)
        gone = self._loop.create_task(await_disconnect(request))
        try:
            await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not working.done():
            raise ClientDisconnect
        response = working.result()
        if response is None:
            return self._end(await self._rejected)  # the call was aborted while it waited for a thread
        return response

    def _work(self) -> Response | None:
        """Runs the method on a worker thread. Returns None if the call has already ended."""
        message, self._message = self._message, None
        if not self._engine.begin_work(self._life) or message is None:
            return None
        return self._conclude(lambda: self._method.respond(message, lambda: self._life.is_over))

    def _conclude(self, compute: Callable[[], bytes | None]) -> Response | None:
        """Runs `compute`, records that the call ends, and returns the response. Any thread may call this method.

        If `compute` returns None, this method also returns None. A worker thread must then run the gRPC method.
        """
        try:
            body = compute()
            if body is None:
                return None
            self._perform(self._engine.end(self._life, OK, len(body)).effects)
            return self._form.build_response(body, self._info.trailing)
        except Exception as error:  # noqa: BLE001 - the client gets no details of a bug
            return self._end(error)

    def _end(self, error: Exception) -> Response:
        """Records that the call ends with `error`, and returns the response for the client."""
        failure = build_failure(error, self._info)
        ended = self._engine.end(self._life, failure.result)
        self._perform(ended.effects)
        if ended.is_first:  # this is false if the call has already been aborted or ended
            self._log(failure.result, failure.field, failure.detail)
        return self._form.build_rejection(failure)

    def _reject(self, rejection: LimitError) -> None:
        if not self._rejected.done():
            self._rejected.set_result(rejection)

    def _do(self, action: Callable[[], object]) -> None:
        """Runs an action on the thread of the event loop. Any thread may call this method."""
        with suppress(RuntimeError):  # the event loop raises RuntimeError if it has stopped
            self._loop.call_soon_threadsafe(action)

    def _log(self, result: CallResult, field: str = "", detail: str = "") -> None:
        log_failure(self._info, result, self._life.began, field, detail)


async def serve_call(service: Service, method: Method, request: Request, send: Send, form: Form = JSON_FORM) -> None:
    """Serves a request as a call of the server. `partial(serve_call, service)` is a `ServeCall`."""
    await HttpCall(service, method, request, form).serve(request, send)
