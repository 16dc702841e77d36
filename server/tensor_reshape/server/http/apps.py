"""The ASGI application of the HTTP port, which consists of routes and a guard function.

A route connects a path with a handler. The guard function checks each request before a route receives the request, and
adds the common headers to each response.

- `build_app` accepts any routes. To serve another protocol over HTTP, pass the routes of the protocol to `build_app`. A
  handler may be a `MethodApp` or any other ASGI application.
- A method has the same path over HTTP as over gRPC, for example `/tensor_reshape.v1.ReshapeService/InferShape`.
  Authorization files, metrics and logs therefore use the same method name for HTTP and gRPC.
- Gateways such as grpc-gateway and Envoy's transcoder use the same path for methods without an annotation. Such a
  gateway can therefore replace the HTTP port.
- A call of a method over HTTP needs permission, and the limits of the server apply to it. Other routes, such as the
  health route, reveal nothing about clients, and the cost of a request to such a route is bounded.
- The guard rejects requests from web pages of other origins. The common response headers prevent browsers from treating
  a response as a page, a script or a frame.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensor_reshape.server.calls.statuses import INTERNAL_ERROR
from tensor_reshape.server.http.connect import (
    PROTO_TYPE,
    ConnectForm,
    build_connect_error,
    find_connect_error,
    find_error_builder,
    is_connect,
    serve_in_time,
)
from tensor_reshape.server.http.descriptions import HEALTH_PATH, OPENAPI_PATH, describe
from tensor_reshape.server.http.json_methods import MAX_BATCH_BYTES, MAX_QUESTION_BYTES
from tensor_reshape.server.http.requests import find_body_error, find_origin_error, read_content_type
from tensor_reshape.server.http.responses import JSON_FORM, JSON_TYPE, Form, build_error
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY


class ServeCall(Protocol):
    """Function that runs a method on the message of a request, and sends the response or the error in a form."""

    async def __call__(self, method: Method, request: Request, send: Send, *, form: Form = JSON_FORM) -> None:
        """Serves a call."""


COMMON_HEADERS = MappingProxyType(
    {
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""The default headers of every response."""

_ALLOWED_HEADERS = (
    *("authorization", "content-type", "connect-protocol-version", "connect-timeout-ms"),
    *(REQUEST_ID_KEY, "traceparent", "inference-header-content-length"),
)
"""The headers that a page of an allowed origin may send."""

_EXPOSED_HEADERS = (REQUEST_ID_KEY, "retry-after", "inference-header-content-length", "tensor-reshape-reason")
"""The headers that a page of an allowed origin may read."""

_LOGGER = logging.getLogger(__name__)


class MethodApp:
    """An ASGI application that serves one method.

    The request message is the query string of a GET or the body of a POST.
    """

    def __init__(
        self,
        method: Method,
        serve_call: ServeCall,
        max_bytes: int = MAX_QUESTION_BYTES,
        binary: Method | None = None,
    ) -> None:
        """Accepts bodies of up to `max_bytes`.

        Args:
            method: the method whose messages are JSON.
            serve_call: serves a call.
            max_bytes: the maximum size of a body.
            binary: the same method with protobuf messages, for Connect requests.
        """
        self._method = method
        self._serve_call = serve_call
        self._max_bytes = max_bytes
        self._binary = binary

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        request = Request(scope, receive)
        if self._binary is not None and is_connect(request):
            await self._serve_connect(self._binary, request, send)
            return
        error = find_body_error(request, self._max_bytes)
        if error is not None:
            await error(scope, receive, send)
        else:
            await self._serve_call(self._method, request, send)

    async def _serve_connect(self, binary: Method, request: Request, send: Send) -> None:
        error = find_connect_error(request, self._max_bytes)
        if error is not None:
            await error(request.scope, request.receive, send)
            return
        content_type, _ = read_content_type(request)
        method = binary if content_type == PROTO_TYPE else self._method
        form = ConnectForm(content_type)
        await serve_in_time(request, send, lambda watched: self._serve_call(method, request, watched, form=form))


def build_method_routes(
    serve_call: ServeCall, methods: Iterable[Method], binary: Iterable[Method] = ()
) -> list[BaseRoute]:
    """Returns a route for each method.

    Args:
        serve_call: serves a call.
        methods: the methods with JSON messages (see `json_methods`).
        binary: the methods with protobuf messages. A method of the same name also serves Connect requests.
    """
    sizes, named = {BATCH_INFER_SHAPE.path: MAX_BATCH_BYTES}, {method.name: method for method in binary}
    return [
        Route(
            method.name,
            MethodApp(method, serve_call, sizes.get(method.name, MAX_QUESTION_BYTES), named.get(method.name)),
            methods=["POST"],
        )
        for method in methods
    ]


def build_health_route(is_serving: Callable[[], bool]) -> BaseRoute:
    """Returns the health route, which responds with 503 while `is_serving` returns False."""

    def report(_request: Request) -> tuple[int, str]:
        serves = is_serving()
        # The names of the health statuses are those of gRPC's HealthCheckResponse.
        return 200 if serves else 503, json.dumps({"status": "SERVING" if serves else "NOT_SERVING"})

    return build_probe_route(HEALTH_PATH, report)


def build_probe_route(path: str, report: Callable[[Request], tuple[int, str | bytes]]) -> BaseRoute:
    """Returns a route for a probe, which is not a call.

    Args:
        path: the path.
        report: returns the HTTP status and the JSON of the response.
    """

    # The handler is async, because starlette would run a function that is not async on another thread.
    async def probe(request: Request) -> Response:
        code, body = report(request)
        return Response(body, code, media_type=JSON_TYPE)

    return Route(path, probe)


def build_openapi_route() -> BaseRoute:
    """Returns the route of the OpenAPI description of the JSON methods."""

    async def send_description(_request: Request) -> Response:
        return Response(describe(), media_type=JSON_TYPE)

    return Route(OPENAPI_PATH, send_description)


def build_app(routes: Iterable[BaseRoute], hosts: Collection[str] = (), origins: Collection[str] = ()) -> ASGIApp:
    """Returns the application.

    Args:
        routes: the routes. The first route that matches a request serves it.
        hosts: the names that the Host header may have. An empty collection allows any name.
        origins: the other origins whose pages may send requests (CORS).
    """
    handlers = {404: _reject_path, 405: _reject_path, Exception: _hide_bug}
    app = Starlette(routes=list(routes), exception_handlers=handlers)
    app.router.redirect_slashes = False
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[*origins],
            allow_methods=["GET", "POST"],
            allow_headers=_ALLOWED_HEADERS,
            expose_headers=_EXPOSED_HEADERS,
        )

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_completed(event: Message) -> None:
            if event["type"] == "http.response.start":
                headers = MutableHeaders(scope=event)
                for name, value in COMMON_HEADERS.items():
                    headers.setdefault(name, value)
            await send(event)

        request = Request(scope)
        build = find_error_builder(request)
        served = find_origin_error(request, frozenset(hosts), frozenset(origins), build) or app
        await served(scope, receive, send_completed)

    return guard


def _reject_path(request: Request, error: Exception) -> Response:
    """Returns the error response if the path of a request is unknown or does not support the HTTP method."""
    if is_connect(request):
        return build_connect_error(404, "UNIMPLEMENTED", "this server has no such method over HTTP")
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        text = "this path does not support this HTTP method: use a method that the Allow header lists"
        return build_error(HTTPStatus.METHOD_NOT_ALLOWED, "UNIMPLEMENTED", text, error.headers or {})
    return build_error(404, "NOT_FOUND", "this path does not exist")


def _hide_bug(request: Request, error: Exception) -> Response:
    _LOGGER.error("bug", exc_info=error)
    return find_error_builder(request)(500, "INTERNAL", INTERNAL_ERROR)
