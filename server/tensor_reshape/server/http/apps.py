"""The application: which paths there are, and what each of them answers.

- A method has the path that it has over gRPC, `/tensor_reshape.v1.ReshapeService/InferShape`: one name for it in
  authorization files, metrics, logs and here. It is also where gateways put a method that has no annotation
  (grpc-gateway, Envoy's transcoder), so one of these may stand in for this port.
- Which caller may ask for what, and what it costs, is the asker's to say; what is answered without it tells nothing of
  a caller, and costs nothing that grows.
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
from tensor_reshape.server.http.requests import find_fault, find_stranger
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE

_LOGGER = logging.getLogger(__name__)


class MethodApp:
    """Has an asker answer the requests of one path by a method.

    A GET asks with what is behind the question mark, a POST with its body.
    """

    def __init__(self, method: Method, ask: Asker, max_bytes: int = MAX_QUESTION_BYTES) -> None:
        """Takes bodies of so many bytes."""
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


def build_app(
    ask: Asker,
    methods: Iterable[Method],
    *,
    is_serving: Callable[[], bool] = lambda: True,
    hosts: Collection[str] = (),
    tells_contract: bool = True,
    routes: Iterable[BaseRoute] = (),
) -> ASGIApp:
    """Returns the application.

    Args:
        ask: answers what is asked of a method.
        methods: of JSON; see `json_methods`.
        is_serving: whether the server is one to be sent calls.
        hosts: by which the server is known; empty: by any.
        tells_contract: whether anybody may ask how the methods are asked.
        routes: what else there is.
    """

    async def tell_health(_request: Request) -> Response:  # not on a thread of its own, as a plain function would be
        return _tell_health(is_serving=is_serving())

    asked = [Route(method.name, MethodApp(method, ask, _find_limit(method)), methods=["POST"]) for method in methods]
    described = [Route(OPENAPI_PATH, _tell_contract)] if tells_contract else []
    app = Starlette(
        routes=[*asked, *described, Route(HEALTH_PATH, tell_health), *routes],
        exception_handlers={HTTPException: _refuse_path, Exception: _hide_bug},
    )
    app.router.redirect_slashes = False
    return Guard(app, hosts)


class Guard:
    """Lets no page of another origin ask, and no answer leave without the headers that every one has."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """Stands before `app`; see `find_stranger`."""
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        if scope["type"] != "http":  # nothing is started or stopped here, and there are no web sockets
            return
        stranger = find_stranger(scope, self._hosts)
        if stranger is not None:
            await send_answer(stranger, send)
            return

        async def send_guarded(event: Message) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": _complete(event.get("headers", ()))}
            await send(event)

        try:
            await self._app(scope, receive, send_guarded)
        except asyncio.CancelledError:
            pass  # the server stops, and there is nobody any more to be told
        except Exception:  # of which the caller has been told
            _LOGGER.exception("bug")


def _complete(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = {name.lower() for name, _ in headers}
    return [*headers, *((name, value) for name, value in _COMMON if name not in named)]


_COMMON = [(name.encode(), value.encode()) for name, value in COMMON_HEADERS.items()]


def _find_limit(method: Method) -> int:
    return MAX_BATCH_BYTES if method.name == BATCH_INFER_SHAPE.path else MAX_QUESTION_BYTES


def _tell_health(*, is_serving: bool) -> Response:
    body = json.dumps({"status": "SERVING" if is_serving else "NOT_SERVING"})  # as HealthCheckResponse of gRPC's
    return Response(body, 200 if is_serving else 503, media_type=JSON_TYPE)


async def _tell_contract(_request: Request) -> Response:
    return Response(describe(), media_type=JSON_TYPE)


def _refuse_path(_request: Request, error: Exception) -> Response:
    """Answers what the routes refuse: a path that is none, or a method of HTTP that the path does not take."""
    found = error if isinstance(error, HTTPException) else HTTPException(404)
    name, text = _PATH_FAULTS.get(found.status_code, ("UNKNOWN", "this request is none"))
    answer = build_error(found.status_code, name, text, found.headers or {})
    return _make_response(answer)


def _hide_bug(_request: Request, _error: Exception) -> Response:
    return _make_response(build_error(500, "INTERNAL", INTERNAL_ERROR))


def _make_response(answer: Answer) -> Response:
    return Response(answer.body, answer.code, answer.headers)


_PATH_FAULTS = {
    404: ("NOT_FOUND", "there is nothing of that name"),
    405: ("UNIMPLEMENTED", "this path takes other methods of HTTP"),
}
