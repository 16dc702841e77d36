"""The ASGI application: routes, the checks of Host and Origin, the common headers, and the page of the explorer.

- The page of the explorer loads nothing from other servers, and its content security policy forbids such loads.
- A request for a drawing counts as a call of the method InferShape, so the permissions, metrics and limits of
  InferShape apply to it.
- A call of a method needs permission, and the limits of the server apply to it. Requests to other routes, such as the
  health probes, need no permission. These requests have a bounded cost, and their responses reveal nothing about
  clients.
- With DNS rebinding, an attacker's host name resolves to this machine, so the attacker's pages have the same origin as
  the server. A server that only this machine can reach therefore requires a local name in the Host header.
- A page of another origin can only send JSON to this server if the server allows the origin, because browsers ask the
  server first. The server allows only the origins of `--http-allow-origin`.
- The common headers prevent browsers from treating a response as a page, a script or a frame.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePath

from tensor_reshape.drawings.svg import draw_question
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.calls.gates import Gate, Gates, build_quotas
from tensor_reshape.server.calls.statuses import INTERNAL, INTERNAL_ERROR, Failure
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.asgi import (
    HttpError,
    HttpRequest,
    Receive,
    Reply,
    Scope,
    Send,
    find_form,
    repeat,
    reply_json,
    write_failure,
)
from tensor_reshape.server.http.calls import (
    CLOSE,
    CallServer,
    Exchange,
    HttpCounters,
    HttpRoute,
    find_guard,
    send_reply,
)
from tensor_reshape.server.http.inference import InferenceRoutes, split_path
from tensor_reshape.server.http.transcoder import MAX_QUERY_BODY_BYTES, build_rpcs, decode_json
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.process.pools import FairLock
from tensor_reshape.server.security.access import Access
from tensor_reshape.server.security.reloads import RELOAD_SECONDS
from tensor_reshape.server.server_info import describe_server
from tensor_reshape.server.service.method_tables import IsOver, Work
from tensor_reshape.server.service.methods import ReshapeService, build_info_method
from tensor_reshape.server.telemetry.call_logs import CallLogs, log_outside
from tensor_reshape.server.telemetry.metrics import REFLECTION_METHODS, SharedCounters, list_methods
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import read_question
from tensor_reshape.wire.json_messages import parse_json, read_message
from tensor_reshape.wire.methods import INFER_SHAPE

DRAWING_PATH, OPENAPI_PATH = "/explore/drawing", "/openapi.json"

_PAGE = "index.html"
_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The host names that local pages and programs use for this machine."""

# With these headers, browsers let a page of an allowed origin read a response.
_ALLOWED = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type, connect-protocol-version, connect-timeout-ms, "
    "x-request-id, traceparent, inference-header-content-length",
    "access-control-expose-headers": "x-request-id, retry-after, inference-header-content-length, "
    "tensor-reshape-reason",
    "vary": "origin",
}
_PORT = re.compile(":[0-9]{0,5}$")
_CHUNK_FACTOR = 6  # in a chunked body, a chunk with one byte of data has six bytes
_LOGGER = logging.getLogger(__name__)


def read_files() -> dict[str, HttpRoute]:
    """Returns the routes for the files of the explorer's page.

    The responses have no ETag and no modification date, so browsers load the files again at each visit.
    """
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
    replies = {
        file.name: Reply(HTTPStatus.OK, (file.read_bytes(),), _TYPES[suffix], headers)
        for file in (files("tensor_reshape.explorer") / "static").iterdir()
        if (suffix := PurePath(file.name).suffix) in _TYPES
    }
    return {
        "/" if name == _PAGE else f"/explore/{name}": lambda _, reply=reply: reply  # type: ignore[misc]
        for name, reply in replies.items()
    }


class Application:
    """The ASGI application. Only the thread of the event loop calls the application.

    Attributes:
        is_serving: whether the server will continue to accept calls.
        admission: limits the running requests of this process and their memory.
        access: checks the certificates, tokens and permissions of callers.
        tasks: functions that the event loop calls again and again, with their intervals in seconds.
    """

    def __init__(
        self,
        config: Config,
        *,
        counters: SharedCounters | None = None,
        service: ReshapeService | None = None,
        gates: Sequence[Gate] = (),
        scrape: Callable[[], Reply] | None = None,
    ) -> None:
        """Reads the files of the configuration, and starts a thread for each kind of long work.

        Args:
            config: the configuration, with this process's share of the memory budget.
            counters: the memory that stores the metrics, or None if the process has no metrics.
            service: the service to use instead of the default service, for tests.
            gates: checks of a call that run after authentication, in addition to the default checks.
            scrape: a function that returns the response for the path `/metrics`. If `scrape` is None, the path
                `/metrics` does not exist.

        Raises:
            ConfigError: a configured file is invalid.
        """
        self._config = config
        self.is_serving = True
        self._service = service = service or ReshapeService(config.limits, make_turns=FairLock)
        self.access = Access(config, (*list_methods(), *REFLECTION_METHODS))
        self._call_logs = CallLogs(config)
        self._counters = None if counters is None else HttpCounters(counters, service.lookups)
        passed = Gates((*self.access.gates, *gates, *build_quotas(config)))
        self._calls = CallServer(config, passed, self._call_logs.logs, self._counters)
        self.admission = self._calls.admission
        self.tasks: list[tuple[float, Callable[[], object]]] = [(RELOAD_SECONDS, self._keep_house)]
        self._running: list[asyncio.Task[None]] = []  # asyncio itself does not keep a running task alive
        listen = config.http_listen
        # This set contains the host names that the Host header may have. An empty set allows any name.
        self._hosts = frozenset[str]()
        if listen is not None and is_local(listen):
            self._hosts = LOCAL_HOSTS | {listen.rpartition(":")[0].lower()}
        self._origins = frozenset(config.http_allow_origin)
        unary = (*service.methods.unary, build_info_method(describe_server(config)))
        max_bytes = config.max_message_bytes
        inference = InferenceRoutes(Inference(service, config.limits), max_bytes, lambda: self.is_serving)
        # This dict maps each path to its HTTP method and its route.
        self._routes: dict[str, tuple[str, HttpRoute]] = {
            **{path: ("POST", rpc.prepare) for path, rpc in build_rpcs(unary, max_bytes).items()},
            DRAWING_PATH: ("POST", self._prepare_drawing),
            **inference.routes,
            **{path: ("GET", route) for path, route in read_files().items()},
            "/healthz": ("GET", lambda _: reply_json(HTTPStatus.OK, {"status": "SERVING"})),
            "/readyz": ("GET", lambda _: self._report_readiness()),
        }
        # If the server requires tokens or client certificates, callers without them must not see its methods and its
        # metrics. These paths do not check callers, so they do not exist on such a server.
        if not config.authenticates:
            openapi = files(__package__) / "openapi.json"
            self._routes[OPENAPI_PATH] = ("GET", lambda _: Reply(HTTPStatus.OK, (openapi.read_bytes(),)))
            if scrape is not None:
                self._routes["/metrics"] = ("GET", lambda _: scrape())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an HTTP request, or the start and the end of the process (ASGI's lifespan protocol)."""
        if not self._running:
            self._running = [asyncio.ensure_future(repeat(*task)) for task in self.tasks]
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(HttpRequest(scope, receive), send)

    @property
    def cancelled_calls(self) -> int:
        """The number of running calls that the server has cancelled because it stops."""
        return self._calls.cancelled_calls

    def end(self) -> None:
        """Sends the last spans of the trace, and ends the threads without waiting for running work."""
        self._call_logs.end()
        self._calls.end()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        finally:  # an ASGI server that does not wait for running calls cancels this task instead of sending an event
            self.end()
        await send({"type": "lifespan.shutdown.complete"})

    def _keep_house(self) -> None:
        """Reloads changed files and updates the gauges. The event loop calls this method once a second."""
        self.access.reload_changed_files()
        if self._counters is not None:
            self._counters.update(self.admission)

    async def _serve(self, request: HttpRequest, send: Send) -> None:
        origin = request.find(b"origin")
        if origin.lower() in self._origins:
            request.reply_headers = {"access-control-allow-origin": origin, **_ALLOWED}
        answer: Exchange | Reply
        try:
            answer = self._find_answer(request)
        except HttpError as error:
            answer = self._reject(request, error)
        except Exception:
            _LOGGER.exception("bug")
            answer = self._reject(request, HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL, INTERNAL_ERROR))
        if isinstance(answer, Reply):
            await send_reply(request, send, answer, self._config.stall_timeout_seconds)
        else:
            await self._calls.serve(request, send, answer)

    def _reject(self, request: HttpRequest, error: HttpError) -> Reply:
        """Counts and logs the error of a request that does not begin a call, and returns the response."""
        if self._counters is not None:
            self._counters.count_other(error.status.code)
        log_outside(request.path, error.status.code, request.peer, error.status.details)
        return write_failure(Failure(error.status, error.result), find_form(request), error)

    def _find_answer(self, request: HttpRequest) -> Exchange | Reply:
        """Returns the call that the request begins, or the response if it does not begin a call.

        Raises:
            HttpError: the request is rejected before a call begins.
        """
        guard = find_guard(request)
        length = request.length
        if guard is not None:
            is_chunked = length is None
            most = _CHUNK_FACTOR * self._config.max_message_bytes if length is None else length
            guard.begin_request(request.head_size + most, is_chunked=is_chunked)
        if request.method == "CONNECT" or (b"upgrade" in request.headers and length != 0):
            text = "a request with a body must not have an Upgrade header, and there is no method CONNECT: use HTTP/1.1"
            # Otherwise the parser httptools would read the body as further requests.
            raise HttpError(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", text, headers=CLOSE)
        self._check_origin(request)
        if request.method == "OPTIONS" and request.find(b"origin").lower() in self._origins:
            return Reply(HTTPStatus.NO_CONTENT, (b"",), "")
        path, request.model = split_path(request.path)
        if path not in self._routes:
            raise HttpError(HTTPStatus.NOT_FOUND, "UNIMPLEMENTED", "this server has no such path")
        method, route = self._routes[path]
        if request.method != method:
            allowed = "GET, HEAD" if method == "GET" else method
            text = f"this path supports only {allowed}"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "UNIMPLEMENTED", text, headers={"allow": allowed})
        return route(request)

    def _check_origin(self, request: HttpRequest) -> None:
        """Checks that the Host and Origin headers have allowed values.

        Raises:
            HttpError: the value of one of these headers is not allowed.
        """
        host = request.find(b"host").lower()
        if sum(name == b"host" for name, _ in request.scope["headers"]) != 1:
            raise HttpError(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", "the request must have one Host header")
        if self._hosts and _PORT.sub("", host) not in self._hosts:
            text = f"the Host header must be one of {', '.join(sorted(self._hosts))}"
            raise HttpError(HTTPStatus.MISDIRECTED_REQUEST, "PERMISSION_DENIED", text)
        origin = request.find(b"origin").lower()
        if origin and origin.partition("://")[2] != host and origin not in self._origins:
            text = "pages of other origins may not use this server"
            raise HttpError(HTTPStatus.FORBIDDEN, "PERMISSION_DENIED", text)

    def _report_readiness(self) -> Reply:
        status = HTTPStatus.OK if self.is_serving else HTTPStatus.SERVICE_UNAVAILABLE
        # The statuses have the same names as in gRPC's HealthCheckResponse.
        return reply_json(status, {"status": "SERVING" if self.is_serving else "NOT_SERVING"})

    def _prepare_drawing(self, request: HttpRequest) -> Exchange:
        """Returns the call that computes a drawing.

        The body of the request must be the JSON of an InferShapeRequest.
        """
        del request
        size = MAX_QUERY_BODY_BYTES
        return Exchange(INFER_SHAPE.path, self._draw, size, json_bytes=size, work=Work.QUERIES)

    def _draw(self, body: bytes, is_over: IsOver | None) -> Reply | None:
        if is_over is None:
            return None
        question = read_question(read_message(reshape_pb2.InferShapeRequest, parse_json(decode_json(body))))
        drawing = draw_question(
            question, lambda asked: self._service.infer(lambda: asked, lambda answer: answer, is_over)
        )
        return Reply(HTTPStatus.OK, (drawing.encode(),), _TYPES[".svg"])
