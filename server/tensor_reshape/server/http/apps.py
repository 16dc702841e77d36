"""The ASGI application: a table of routes, each a path with its handler, behind one guard.

- `build_app` is independent of the routes that it is given. Another protocol over HTTP adds routes to the table:
  handlers of methods (`MethodApp`), or any other ASGI application.
- A method has the same path as over gRPC, `/tensor_reshape.v1.ReshapeService/InferShape`, so that authorization files,
  metrics, logs and HTTP use one name. Gateways (grpc-gateway, Envoy's transcoder) also use that path for methods
  without an annotation, so a gateway can replace this port.
- The `Asker` of a method checks permissions and limits. Other routes reveal nothing about clients, and their cost is
  bounded.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensor_reshape.server.engine.statuses import INTERNAL_ERROR
from tensor_reshape.server.http.answers import COMMON_HEADERS, JSON_TYPE, Answer, build_error, send_answer
from tensor_reshape.server.http.askers import Asker
from tensor_reshape.server.http.descriptions import HEALTH_PATH, OPENAPI_PATH, describe
from tensor_reshape.server.http.json_methods import MAX_BATCH_BYTES, MAX_QUESTION_BYTES
from tensor_reshape.server.http.requests import find_fault, find_stranger, has_body
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE

_LOGGER = logging.getLogger(__name__)
_COMMON_HEADERS = [(name.encode(), value.encode()) for name, value in COMMON_HEADERS.items()]
_CLOSE = (b"connection", b"close")
_PATH_FAULTS = {
    404: ("NOT_FOUND", "there is nothing of that name"),
    405: ("UNIMPLEMENTED", "this path takes other methods of HTTP"),
}


class MethodApp:
    """Serves requests to a method: the message of a GET is its query string, that of a POST its body."""

    def __init__(self, method: Method, ask: Asker, max_bytes: int = MAX_QUESTION_BYTES) -> None:
        """Accepts bodies of up to `max_bytes`."""
        self._method = method
        self._ask = ask
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        fault = find_fault(scope, self._max_bytes)
        if fault is not None:
            await send_answer(fault, send)
        else:
            await self._ask(self._method, scope, receive, send)


def build_method_routes(ask: Asker, methods: Iterable[Method]) -> list[BaseRoute]:
    """Returns the routes of the JSON methods (`json_methods`)."""
    sizes = {BATCH_INFER_SHAPE.path: MAX_BATCH_BYTES}
    return [
        Route(method.name, MethodApp(method, ask, sizes.get(method.name, MAX_QUESTION_BYTES)), methods=["POST"])
        for method in methods
    ]


def build_health_route(is_serving: Callable[[], bool]) -> BaseRoute:
    """Returns the health route, which responds with 503 while `is_serving` returns False."""

    async def tell_health(_request: Request) -> Response:  # starlette would run a plain function on another thread
        serves = is_serving()
        body = json.dumps({"status": "SERVING" if serves else "NOT_SERVING"})  # as in gRPC's HealthCheckResponse
        return Response(body, 200 if serves else 503, media_type=JSON_TYPE)

    return Route(HEALTH_PATH, tell_health)


def build_contract_route() -> BaseRoute:
    """Returns the route of the OpenAPI description of the JSON methods."""

    async def tell_contract(_request: Request) -> Response:
        return Response(describe(), media_type=JSON_TYPE)

    return Route(OPENAPI_PATH, tell_contract)


def build_app(routes: Iterable[BaseRoute], hosts: Collection[str] = ()) -> ASGIApp:
    """Returns the application.

    Args:
        routes: the routes; the first match serves a request.
        hosts: the host names of the server; empty: any name.
    """
    handlers = {HTTPException: _reject_path, Exception: _hide_bug}
    app = Starlette(routes=list(routes), exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, hosts)


class Guard:
    """Rejects requests before they reach a route, and completes the headers of every response."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """Guards `app`; see `find_stranger` for `hosts`."""
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        if scope["type"] != "http":  # the application supports neither lifespan events nor web sockets
            return
        is_read = not has_body(scope)

        async def receive_noted() -> Message:
            nonlocal is_read
            event = await receive()
            is_read = is_read or not event.get("more_body", False)
            return event

        async def send_completed(event: Message) -> None:
            if event["type"] == "http.response.start":
                told = [*event.get("headers", ())]
                names = {name.lower() for name, _ in told}
                told += [pair for pair in _COMMON_HEADERS if pair[0] not in names]
                # The unread rest of a body could be endless, or be parsed as the next request.
                event = {**event, "headers": told if is_read else [*told, _CLOSE]}
            await send(event)

        rejection = find_stranger(scope, self._hosts)
        try:
            if rejection is not None:
                await send_answer(rejection, send_completed)
            else:
                await self._app(scope, receive_noted, send_completed)
        except asyncio.CancelledError:
            pass  # the server stops, and the connection is closed
        except Exception:  # the client already has the response
            _LOGGER.exception("bug")


def _reject_path(_request: Request, error: Exception) -> Response:
    """Responds to a request without a route: the path is unknown, or supports other HTTP methods."""
    found = error if isinstance(error, HTTPException) else HTTPException(404)
    name, text = _PATH_FAULTS.get(found.status_code, ("UNKNOWN", "this request is none"))
    return _make_response(build_error(found.status_code, name, text, found.headers or {}))


def _hide_bug(_request: Request, _error: Exception) -> Response:
    return _make_response(build_error(500, "INTERNAL", INTERNAL_ERROR))


def _make_response(answer: Answer) -> Response:
    return Response(answer.body, answer.code, answer.headers)
