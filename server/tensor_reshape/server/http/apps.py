"""The ASGI application: a table of routes, each a path with its handler, and a guard in front of all of them.

- `build_app` is independent of the routes that it is given. Another protocol over HTTP adds routes to the table:
  handlers of methods (`MethodApp`), or any other ASGI application.
- A method has the same path as over gRPC, `/tensor_reshape.v1.ReshapeService/InferShape`, so that authorization files,
  metrics, logs and HTTP use one name. Gateways (grpc-gateway, Envoy's transcoder) also use that path for methods
  without an annotation, so a gateway can replace this port.
- The calls of methods have permissions and limits. Other routes reveal nothing about clients, and their cost is
  bounded.
- Pages of other origins get no access, and browsers do not treat a response as a page, a script or a frame.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensor_reshape.server.engine.statuses import INTERNAL_ERROR
from tensor_reshape.server.http.descriptions import HEALTH_PATH, OPENAPI_PATH, describe
from tensor_reshape.server.http.json_methods import MAX_BATCH_BYTES, MAX_QUESTION_BYTES
from tensor_reshape.server.http.requests import find_body_error, find_origin_error
from tensor_reshape.server.http.responses import JSON_TYPE, build_error
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE

ServeCall: TypeAlias = Callable[[Method, Request, Send], Awaitable[None]]
"""Runs a method on the message of a request, and sends the response or the error."""

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

_LOGGER = logging.getLogger(__name__)


class MethodApp:
    """Serves requests to a method: the message of a GET is its query string, that of a POST its body."""

    def __init__(self, method: Method, serve_call: ServeCall, max_bytes: int = MAX_QUESTION_BYTES) -> None:
        """Accepts bodies of up to `max_bytes`."""
        self._method = method
        self._serve_call = serve_call
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        request = Request(scope, receive)
        error = find_body_error(request, self._max_bytes)
        if error is not None:
            await error(scope, receive, send)
        else:
            await self._serve_call(self._method, request, send)


def build_method_routes(serve_call: ServeCall, methods: Iterable[Method]) -> list[BaseRoute]:
    """Returns the routes of the JSON methods (`json_methods`)."""
    sizes = {BATCH_INFER_SHAPE.path: MAX_BATCH_BYTES}
    return [
        Route(method.name, MethodApp(method, serve_call, sizes.get(method.name, MAX_QUESTION_BYTES)), methods=["POST"])
        for method in methods
    ]


def build_health_route(is_serving: Callable[[], bool]) -> BaseRoute:
    """Returns the health route, which responds with 503 while `is_serving` returns False."""

    async def report_health(_request: Request) -> Response:  # starlette would run a plain function on another thread
        serves = is_serving()
        body = json.dumps({"status": "SERVING" if serves else "NOT_SERVING"})  # as in gRPC's HealthCheckResponse
        return Response(body, 200 if serves else 503, media_type=JSON_TYPE)

    return Route(HEALTH_PATH, report_health)


def build_openapi_route() -> BaseRoute:
    """Returns the route of the OpenAPI description of the JSON methods."""

    async def send_description(_request: Request) -> Response:
        return Response(describe(), media_type=JSON_TYPE)

    return Route(OPENAPI_PATH, send_description)


def build_app(routes: Iterable[BaseRoute], hosts: Collection[str] = ()) -> ASGIApp:
    """Returns the application.

    Args:
        routes: the routes; the first match serves a request.
        hosts: the host names of the server; empty: any name.
    """
    handlers = {404: _reject_path, 405: _reject_path, Exception: _hide_bug}
    app = Starlette(routes=list(routes), exception_handlers=handlers)
    app.router.redirect_slashes = False

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_completed(event: Message) -> None:
            if event["type"] == "http.response.start":
                headers = MutableHeaders(scope=event)
                for name, value in COMMON_HEADERS.items():
                    headers.setdefault(name, value)
            await send(event)

        served = find_origin_error(Request(scope), frozenset(hosts)) or app
        await served(scope, receive, send_completed)

    return guard


def _reject_path(_request: Request, error: Exception) -> Response:
    """Responds to a request without a route: the path is unknown, or supports other HTTP methods."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        text = "this path supports other HTTP methods, which the header allow lists"
        return build_error(HTTPStatus.METHOD_NOT_ALLOWED, "UNIMPLEMENTED", text, error.headers or {})
    return build_error(404, "NOT_FOUND", "this path does not exist")


def _hide_bug(_request: Request, error: Exception) -> Response:
    _LOGGER.error("bug", exc_info=error)
    return build_error(500, "INTERNAL", INTERNAL_ERROR)
