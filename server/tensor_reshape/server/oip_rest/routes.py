"""The paths of the Open Inference Protocol over REST.

A method has the name of the same method over gRPC. Admission control, authorization, quotas, metrics and logs therefore
treat a call over REST like a call over gRPC.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPMethod

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.engine.call_info import Metadata
from tensor_reshape.server.http.apps import ServeCall, build_probe_route
from tensor_reshape.server.http.requests import CLOSE
from tensor_reshape.server.http.responses import build_headers
from tensor_reshape.server.oip import metadata
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.json_requests import InferBody, read_infer_request
from tensor_reshape.server.oip.json_responses import describe_message, write_infer_response, write_json
from tensor_reshape.server.oip.messages import InferMessage, Respond, find_class, find_path
from tensor_reshape.server.oip.models import INFER_SHAPE
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.server.oip_rest.requests import MAX_JSON_BYTES, discard_body, find_infer_error
from tensor_reshape.server.oip_rest.responses import BINARY_TYPE, LENGTH_HEADER, RestForm, build_error
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import LIGHT_BYTES
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.wire.tensors import TensorView

_LIGHT_JSON_BYTES = 16 * 1024  # the event loop parses JSON up to this size in less than a millisecond
_MODELS = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")


class InferExchange(RestForm):
    """One inference request and its response."""

    def __init__(self, inference: Inference, request: Request) -> None:
        """Reads the path and the headers of a request that `find_infer_error` accepts."""
        self._inference = inference
        self._name = request.path_params["name"]
        self._version = request.path_params.get("version", "")
        self._json_length = int(request.headers.get(LENGTH_HEADER, request.headers["content-length"]))
        self._reply_length: int | None = None  # the number of bytes of the JSON of a response with binary elements
        work = Work.TENSORS if LENGTH_HEADER in request.headers else Work.NUMBERS
        work = Work.QUERIES if self._name == INFER_SHAPE else work
        self.method = Method(find_path("ModelInfer"), self._respond, self._respond_light, always(work))

    def build_response(self, body: bytes, metadata: Metadata = ()) -> Response:
        """Returns the response of a successful call."""
        if self._reply_length is None:
            return super().build_response(body, metadata)
        headers = {**build_headers(metadata), LENGTH_HEADER: str(self._reply_length)}
        return Response(body, headers=headers, media_type=BINARY_TYPE)

    def _respond(self, body: bytes, is_over: IsOver) -> bytes:
        given = self._read(body)
        return self._inference.execute(given.request, partial(self._write, given.is_binary), is_over)

    def _respond_light(self, body: bytes) -> bytes | None:
        if self._json_length > _LIGHT_JSON_BYTES or len(body) > LIGHT_BYTES:
            return None
        given = self._read(body)
        return self._inference.execute_light(given.request, partial(self._write, given.is_binary))

    def _read(self, body: bytes) -> InferBody:
        return read_infer_request(body, self._json_length, self._name, self._version)

    def _write(self, is_binary: bool, call: InferCall, output: TensorView, answer: ShapeAnswer | None) -> bytes:  # noqa: FBT001 - bound by `partial`
        header, payload = write_infer_response(call, output, answer, is_binary=is_binary)
        if payload is None:
            return header
        self._reply_length = len(header)
        return header + payload  # the only copy of the elements, as over gRPC


class _InferApp:
    """An ASGI application that serves inference requests."""

    def __init__(self, serve: ServeCall, inference: Inference, max_bytes: int) -> None:
        self._serve = serve
        self._inference = inference
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        error = find_infer_error(request, self._max_bytes)
        if error is not None:
            await discard_body(request)
            await error(scope, receive, send)
        else:
            exchange = InferExchange(self._inference, request)
            await self._serve(exchange.method, request, send, form=exchange)


class _DescriptionApp:
    """An ASGI application that serves a method whose request has only the name and the version of a model."""

    def __init__(self, serve: ServeCall, method: str, respond: Respond, field: str = "") -> None:
        """Serves the response of `respond`, or only one field of it."""
        self._serve = serve
        self._method = method
        self._respond = respond
        self._field = field

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        write = partial(self._write, find_class(f"{self._method}Request")(**request.path_params))
        method = Method(find_path(self._method), lambda body, _is_over: write(body), write)
        error = find_infer_error(request, MAX_JSON_BYTES) if request.method == "POST" else None
        if error is not None:
            await error(scope, receive, send)
        else:
            await self._serve(method, request, send, form=RestForm())

    def _write(self, message: InferMessage, _body: bytes) -> bytes:
        described = describe_message(self._respond(message))
        return write_json(described[self._field] if self._field else described)


def build_rest_routes(
    serve: ServeCall, inference: Inference, max_bytes: int, is_ready: Callable[[], bool]
) -> list[BaseRoute]:
    """Returns the routes of the protocol.

    Args:
        serve: function that serves a request as a call of a method.
        inference: executes the inference requests.
        max_bytes: the maximum size of a body.
        is_ready: returns whether the server accepts calls and will continue to accept calls.
    """

    def report_ready(_request: Request) -> tuple[int, bytes]:
        ready = is_ready()
        return 200 if ready else 503, write_json({"ready": ready})

    describe = partial(_DescriptionApp, serve)
    statistics = describe("ModelStatistics", partial(metadata.describe_statistics, inference.statistics))
    apps = {
        "": describe("ModelMetadata", metadata.describe_model),
        "/config": describe("ModelConfig", metadata.configure_model, "config"),
        "/stats": statistics,
    }
    infer = _InferApp(serve, inference, max_bytes)
    return [
        Route("/v2", describe("ServerMetadata", metadata.describe_server)),
        build_probe_route("/v2/health/live", lambda _: (200, write_json({"live": True}))),
        build_probe_route("/v2/health/ready", report_ready),
        Route("/v2/models/stats", statistics),
        Route("/v2/repository/index", describe("RepositoryIndex", metadata.list_models, "models"), methods=["POST"]),
        *(build_probe_route(f"{path}/ready", _report_model) for path in _MODELS),
        *(Route(f"{path}/infer", infer, methods=["POST"]) for path in _MODELS),
        *(Route(f"{path}{end}", app, methods=["GET"]) for path in _MODELS for end, app in apps.items()),
        Route("/v2/{rest:path}", _reject_path, methods=[*HTTPMethod]),
    ]


def _report_model(request: Request) -> tuple[int, bytes]:
    ready = metadata.is_model_ready(find_class("ModelReadyRequest")(**request.path_params))
    return 200 if ready else 404, write_json({"name": request.path_params["name"], "ready": ready})


async def _reject_path(_request: Request) -> Response:
    return build_error(404, "", "this path does not exist, or does not support this HTTP method", CLOSE)
