"""Serves a call over HTTP: admits it, reads the body, computes and sends the response, and records the call.

- Tokens, permissions and quotas apply to calls over HTTP in the same way as to calls over gRPC, because the same gates
  check both. In logs, metrics and traces, the method of a call has its gRPC name.
- Short work runs on the event loop, and long work runs on other threads. If the client disconnects or the deadline
  passes, long work stops at its next step.
- A call counts towards the limits of running calls and of memory until the client has read the response.
- In metrics and logs, the message sizes of a call are the sizes of the HTTP bodies.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.observers import CallLog, begin_observers, choose_observers
from tensor_reshape.server.calls.results import GONE, OK, EndedCall
from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.calls.statuses import STOPPING, build_failure
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.asgi import (
    ClientGoneError,
    HttpError,
    HttpRequest,
    Reply,
    Send,
    build_headers,
    find_form,
    write_failure,
)
from tensor_reshape.server.http.guards import GUARD, Guard
from tensor_reshape.server.process.pools import FAST_SWITCHES, Pool
from tensor_reshape.server.service.header_cache import Lookups
from tensor_reshape.server.service.method_tables import WORK_THREADS, IsOver, Work
from tensor_reshape.server.telemetry import metrics
from tensor_reshape.server.telemetry.call_logs import log_failure
from tensor_reshape.server.telemetry.metrics import CopiedCounters, MethodCounters, SharedCounters

_LOGGER = logging.getLogger(__name__)

CALL_SECONDS = 60.0
"""The deadline of a call after its body has arrived, in seconds. A Connect request may set a shorter one."""

LEAST_BYTES_PER_SECOND = 32 * 1024
"""The lowest rate at which a client must send a body and read a response, after the stall timeout of the server."""

MEMORY_FACTOR = 3
"""The memory for a call as a multiple of its body: the body, its parts as they arrive, and the response."""

JSON_MEMORY_FACTOR = 48
"""The memory for a call whose body is parsed as JSON, as a multiple of its body. Nested lists need up to 45 times."""

CLOSE = MappingProxyType({"connection": "close"})
"""The header of a response after which the connection cannot be used, for example in the middle of a body."""

COMMON_HEADERS = MappingProxyType(
    {
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""The default headers of every response of the application."""

_FIRST_BYTES = 4096  # for this many bytes of a chunked body, memory is reserved before the body arrives

RETRY_SECONDS = 1.0
"""The delay after which a rejected client may retry."""


@dataclass(slots=True)
class Place:
    """One running request, as it is counted by `Admission`.

    Attributes:
        host: the host from which the client called.
        size: the number of bytes of memory that are reserved for the request.
        work: the work that the request does on a thread, or None.
    """

    host: str
    size: int = 0
    work: asyncio.Future[Any] | None = None


class Admission:
    """Counts the running requests of a process and the bytes of memory that are reserved for them.

    All requests of one host together may use at most half of `max_requests` and half of `max_bytes`. If a host has only
    one request, this request may reserve three quarters of `max_bytes` (`largest_bytes`). Memory for other hosts
    therefore remains.

    Attributes:
        max_requests: the maximum number of running requests.
        max_bytes: the maximum number of bytes that all requests may reserve together.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        """Sets the limits. At first, no requests are running."""
        self.max_requests, self.max_bytes = max_requests, max_bytes
        self._requests: Counter[str] = Counter()  # by host
        self._bytes: Counter[str] = Counter()  # by host

    @property
    def used_bytes(self) -> int:
        """The number of bytes that are reserved for all running requests."""
        return self._bytes.total()

    @property
    def largest_bytes(self) -> int:
        """The maximum number of bytes that one request may reserve."""
        return max(1, self.max_bytes * 3 // 4)

    def __len__(self) -> int:
        """Returns the number of running requests."""
        return self._requests.total()

    def enter(self, host: str, size: int) -> Place:
        """Admits a request from a host and reserves `size` bytes of memory for it.

        Raises:
            LimitError: SERVER_BUSY, if too many requests are running or memory is short.
        """
        if len(self) >= self.max_requests or self._requests[host] >= max(1, self.max_requests // 2):
            raise _reject("the server serves too many requests")
        place = Place(host)
        self._requests[host] += 1
        try:
            self.grow(place, size)
        except LimitError:
            self._free(place)
            raise
        return place

    def grow(self, place: Place, size: int) -> None:
        """Reserves more memory for a request, so that it has `size` bytes in total.

        Raises:
            LimitError: SERVER_BUSY, if there is not enough memory.
        """
        more, host = size - place.size, place.host
        most = self.largest_bytes if self._requests[host] == 1 else self.max_bytes // 2
        if self.used_bytes + more > self.max_bytes or self._bytes[host] + more > most:
            raise _reject("the server has no free memory")
        self._bytes[host] += more
        place.size = size

    def leave(self, place: Place) -> None:
        """Ends a request and frees its memory, as soon as no thread works for the request any more."""
        if place.work is not None and not place.work.done():
            place.work.add_done_callback(lambda _: self._free(place))
        else:
            self._free(place)

    def _free(self, place: Place) -> None:
        self._bytes[place.host] -= place.size
        self._requests[place.host] -= 1
        if not self._requests[place.host]:
            del self._requests[place.host], self._bytes[place.host]


def _reject(text: str) -> LimitError:
    error = LimitError.of(Reason.SERVER_BUSY, text)
    error.retry_seconds = RETRY_SECONDS
    return error


class HttpCounters(MethodCounters):
    """Counts the calls over HTTP of one process. Only the thread of the event loop uses this object."""

    def __init__(self, counters: SharedCounters, lookups: Lookups) -> None:
        """Creates the metrics in the memory `counters`, which also gets the counts of the header cache (`lookups`)."""
        super().__init__(counters, metrics.list_methods())
        self._counters, self._copied = counters, CopiedCounters(counters, lookups)

    def record(self, call: EndedCall) -> None:
        """Counts a call that has ended, and adds its message sizes and its duration to the histograms."""
        row = self.find_row(call.info.method)
        if call.request_messages:
            metrics.observe(metrics.REQUEST_BYTES, row.requests, call.request_bytes)
        if call.response_messages:
            metrics.observe(metrics.RESPONSE_BYTES, row.responses, call.response_bytes)
        self.count(call.info.method, call.result or GONE, call.began)

    def update(self, admission: Admission) -> None:
        """Writes the gauges, and copies the counters that other modules keep."""
        self._counters.set(metrics.MAX_CALLS, admission.max_requests)
        self._counters.set(metrics.OPEN_CALLS, len(admission), "working")
        self._counters.set(metrics.USED_BYTES, admission.used_bytes, metrics.PROCESSING)
        self._counters.set(metrics.BUDGET_BYTES, admission.max_bytes, metrics.PROCESSING)
        self._copied.update()


class Exchange(NamedTuple):
    """How to serve a call: its method, its limits, and the function that computes its response.

    Attributes:
        method: the full path of the method.
        respond: the function that returns the response to a body. On a thread, its second argument is a function that
            returns whether the call is over, so that the work can end early. On the event loop, the second argument is
            None. The function then returns a response only if computing it takes little time, and otherwise None.
        max_bytes: the maximum number of bytes of the body.
        memory_factor: the memory that is reserved for the call, as a multiple of the size of its body.
        json_bytes: the maximum number of bytes at the beginning of the body that are parsed as JSON. JSON needs more
            memory (see `JSON_MEMORY_FACTOR`).
        seconds: the number of seconds that the call may take after its body has arrived.
        work: the kind of work, which determines the threads on which long work runs. Each kind has its own threads.
        error: an error in the headers of the request, or None. The call ends with this error after the gates have
            admitted it.
    """

    method: str
    respond: Callable[[bytes, IsOver | None], Reply | None]
    max_bytes: int
    memory_factor: int = MEMORY_FACTOR
    json_bytes: int = 0
    seconds: float = CALL_SECONDS
    work: Work = Work.TENSORS
    error: Exception | None = None

    def find_memory(self, size: int) -> int:
        """Returns the number of bytes of memory to reserve for a body of this size."""
        return size * self.memory_factor + min(size, self.json_bytes) * (JSON_MEMORY_FACTOR - MEMORY_FACTOR)


HttpRoute: TypeAlias = Callable[[HttpRequest], Exchange | Reply]
"""Returns a call that must be served, or a response."""


class CallServer:
    """Serves calls over HTTP. Only the thread of the event loop uses this object.

    Attributes:
        admission: limits the running requests of this process and their memory.
        cancelled_calls: the number of running calls that the server has cancelled because it stops.
    """

    def __init__(self, config: Config, gates: Gates, logs: Sequence[CallLog], counters: HttpCounters | None) -> None:
        """Starts a thread for each kind of long work.

        Args:
            config: the configuration, with this process's share of the memory budget.
            gates: the gates that check each call.
            logs: the logs that record each call after its end, which are the access log and tracing.
            counters: the metrics of this process, or None if it has no metrics.
        """
        self.admission = Admission(config.max_calls, config.memory_budget_bytes)
        self.cancelled_calls = 0
        self._pools = {work: Pool(count, f"http-{work.name.lower()}") for work, count in WORK_THREADS.items()}
        self._turns: WeakValueDictionary[tuple[str, Work], asyncio.Semaphore] = WeakValueDictionary()
        self._gates, self._logs, self._counters = gates, logs, counters
        self._sources, self._stall_seconds = Sources(config.trusted_proxy), config.stall_timeout_seconds

    def end(self) -> None:
        """Ends the threads without waiting for running work."""
        for pool in self._pools.values():
            pool.shutdown(wait=False)

    async def serve(self, request: HttpRequest, send: Send, exchange: Exchange) -> None:
        """Serves a call, and records it in the logs and metrics."""
        guard = find_guard(request)
        # Only the guard knows the client's certificate. If another ASGI server runs the application, there is no guard.
        read_tls = dict if guard is None else lambda: guard.certificate
        info = CallInfo(exchange.method, request.metadata, request.peer, read_tls)
        call = EndedCall(info, time.monotonic())
        begin_observers(choose_observers(self._logs, info.metadata), call)
        place: Place | None = None
        try:
            try:
                place = self._admit(info, request, exchange)
                body = await self._read(request, exchange, place)
                call.request_messages, call.request_bytes = 1, len(body)
                reply = await self._compute(request, body, exchange, place)
                info.return_request_id()
                reply = reply.add_headers(build_headers(info.trailing))
                call.result = OK
            except ClientGoneError:
                return
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the client gets no details of a bug
                # A cancelled task means that the server stops, and that the grace period for running calls is over.
                if isinstance(error, asyncio.CancelledError):
                    self.cancelled_calls += 1
                    error = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING.code, STOPPING.details, headers=CLOSE)
                    request.is_read = True
                failure = build_failure(error, info)
                call.result = failure.result
                log_failure(info, failure.result, call.began, failure.field, failure.detail)
                reply = write_failure(failure, find_form(request), error)
                # The traceback of the error refers to frames that refer to the error. This cycle would keep the parsed
                # body in memory.
                error.__traceback__ = None
            call.response_messages, call.response_bytes = 1, reply.size
            await send_reply(request, send, reply, self._stall_seconds)
        finally:
            if place is not None:
                self.admission.leave(place)
            if self._counters is not None:
                self._counters.record(call)
            try:
                info.leave()
            except Exception:
                # A gate or an observer has a bug. The error is only logged, because the response has already been sent.
                _LOGGER.exception("bug", extra={"method": info.method})

    def _admit(self, info: CallInfo, request: HttpRequest, exchange: Exchange) -> Place:
        info.address = self._sources.find(info.peer, info.metadata).address
        rejection = self._gates.find_rejection(info)
        if rejection is not None:
            raise rejection
        if request.find(b"content-encoding").lower() not in {"", "identity"}:
            text = "this server does not accept compressed bodies: omit the Content-Encoding header"
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UNIMPLEMENTED", text)
        if exchange.error is not None:
            raise exchange.error
        size = exchange.find_memory(min(request.length or _FIRST_BYTES, exchange.max_bytes))
        # In a process with a small memory budget, a large body reserves less memory than its memory factor demands.
        # Otherwise it would always be rejected.
        return self.admission.enter(info.address, min(size, self.admission.largest_bytes))

    async def _read(self, request: HttpRequest, exchange: Exchange, place: Place) -> bytes:
        """Reads the whole body of a request and returns it.

        Raises:
            LimitError: the reason is MESSAGE_TOO_LARGE or STALLED, or SERVER_BUSY if there is no memory for the rest of
                a chunked body.
            ClientGoneError: the client has disconnected.
        """
        limit, length = exchange.max_bytes, request.length
        if length is not None and length > limit:
            raise _reject_size(length, limit)
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self._stall_seconds) as deadline:
                latest = deadline.when() or 0.0
                async for part in request.stream_body():
                    size += len(part)
                    deadline.reschedule(latest + size / LEAST_BYTES_PER_SECOND)
                    if size > limit:
                        # The size in the error is the limit + 1, because the error must not depend on the size of the
                        # last part.
                        raise _reject_size(limit + 1, limit)
                    if exchange.find_memory(size) > place.size < self.admission.largest_bytes:
                        wanted = exchange.find_memory(min(2 * size, limit))
                        self.admission.grow(place, min(wanted, self.admission.largest_bytes))
                    parts.append(part)
        except TimeoutError:
            raise LimitError.of(Reason.STALLED, "the body arrived too slowly") from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _compute(self, request: HttpRequest, body: bytes, exchange: Exchange, place: Place) -> Reply:
        """Computes the response to a body, on the event loop if this takes little time, and otherwise on a thread.

        Raises:
            HttpError: the deadline of the call has passed.
            ClientGoneError: the client has disconnected.
        """
        light = exchange.respond(body, None)
        if light is not None:
            return light
        is_over = False

        def work() -> Reply:
            if is_over:  # the call ended before a thread was free for it
                raise ClientGoneError
            FAST_SWITCHES.begin()
            try:
                reply = exchange.respond(body, lambda: is_over)
            finally:
                FAST_SWITCHES.end()
            assert reply is not None  # noqa: S101 - for type checkers
            return reply

        loop = asyncio.get_running_loop()
        key, most = (place.host, exchange.work), max(1, WORK_THREADS[exchange.work] // 2)
        # A host may use half of the threads, and its further calls wait here. Threads for other hosts therefore remain.
        turns = self._turns.setdefault(key, asyncio.Semaphore(most))

        async def take_turn() -> Reply:
            async with turns:
                return await loop.run_in_executor(self._pools[exchange.work], work)

        place.work = working = loop.create_task(take_turn())
        gone, guard = loop.create_task(await_disconnect(request)), find_guard(request)
        # If the client has already sent further requests, uvicorn reports a lost connection only to the last request.
        # The task therefore also waits for the guard, which reports each lost connection.
        ends = [gone] if guard is None else [gone, guard.lost]
        try:
            await asyncio.wait((working, *ends), timeout=exchange.seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_over = True
            gone.cancel()
        if working.done():
            return working.result()
        # If the work fails later, this callback reads the error, so that asyncio does not log it.
        working.add_done_callback(lambda done: done.cancelled() or done.exception())
        if any(end.done() for end in ends):
            raise ClientGoneError
        text = f"the call took longer than {exchange.seconds:g} seconds"
        raise HttpError(HTTPStatus.GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", text)


async def send_reply(request: HttpRequest, send: Send, reply: Reply, seconds: float) -> None:
    """Reads the rest of the request's body, then sends the response, and waits until the client has read the response.

    The client must read the response within `seconds` seconds. A large response adds time (see
    `LEAST_BYTES_PER_SECOND`).
    """
    await request.discard_body()
    named = {**COMMON_HEADERS, **reply.headers, **request.reply_headers}
    if reply.content_type:
        named["content-type"] = reply.content_type
    # If the headers ask for an upgrade, the parser httptools skips further requests in the same packet. The connection
    # is therefore closed, so that the client does not wait for their responses.
    if not request.is_read or b"upgrade" in request.headers:
        named |= CLOSE
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    if reply.status != HTTPStatus.NO_CONTENT:
        headers.append((b"content-length", b"%d" % reply.size))
    await send({"type": "http.response.start", "status": int(reply.status), "headers": headers})
    parts = reply.parts or (b"",)
    last = len(parts) - 1
    for index, part in enumerate(parts):
        await send({"type": "http.response.body", "body": part, "more_body": index < last})
    guard = find_guard(request)
    if guard is not None:
        await guard.end_request(seconds + reply.size / LEAST_BYTES_PER_SECOND)


async def await_disconnect(request: HttpRequest) -> None:
    """Waits until the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def find_guard(request: HttpRequest) -> Guard | None:
    """Returns the guard of a request's connection, or None if the application does not run in an `HttpServer`."""
    guard: Guard | None = request.scope.get("state", {}).get(GUARD)
    return guard


def _reject_size(size: int, limit: int) -> LimitError:
    text = f"the body has at least {size} bytes, but the limit is {limit}"
    return LimitError.of(Reason.MESSAGE_TOO_LARGE, text, size=size, limit=limit)
