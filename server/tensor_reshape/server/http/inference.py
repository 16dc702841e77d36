"""The Open Inference Protocol over REST.

Each method has the same name as over gRPC. Tokens, permissions, quotas, metrics and logs therefore treat a call over
REST like a call over gRPC.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.http.asgi import BINARY_TYPE, LENGTH_HEADER, HttpRequest, Reply, reply_json
from tensor_reshape.server.http.calls import Exchange, HttpRoute
from tensor_reshape.server.http.transcoder import LIGHT_JSON_BYTES, MAX_JSON_BYTES, MAX_QUERY_BODY_BYTES
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.json_bodies import read_infer_request, write_infer_response
from tensor_reshape.server.oip.messages import find_class, find_path
from tensor_reshape.server.oip.methods import is_model_ready, list_responds
from tensor_reshape.server.oip.models import INFER_SHAPE
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.server.service.method_tables import IsOver, Work
from tensor_reshape.server.service.methods import LIGHT_BYTES
from tensor_reshape.wire.json_messages import describe_message
from tensor_reshape.wire.tensors import TensorView

_MODEL = re.compile(r"/v2/models/(?P<name>[^/]+)(/versions/(?P<version>[^/]+))?(?P<rest>|/\w+)")
_ANY = "any model"  # in `_PATHS`, this text stands for the path of any model
_PATHS = {
    "/v2": ("GET", "ServerMetadata", ""),
    "/v2/models/stats": ("GET", "ModelStatistics", ""),
    "/v2/repository/index": ("POST", "RepositoryIndex", "models"),
    _ANY: ("GET", "ModelMetadata", ""),
    f"{_ANY}/config": ("GET", "ModelConfig", "config"),
    f"{_ANY}/stats": ("GET", "ModelStatistics", ""),
}
"""The HTTP method, the method of the protocol, and the field of its response that is the response over REST."""


def split_path(path: str) -> tuple[str, dict[str, str]]:
    """Returns the key under which the routes list a path, and the name and the version of the model in the path."""
    if path.startswith("/v2"):
        path = path.rstrip("/")
    match = None if path in _PATHS else _MODEL.fullmatch(path)
    if match is None:
        return path if path.startswith("/") else "", {}
    return _ANY + match["rest"], {"name": match["name"], "version": match["version"] or ""}


class InferenceRoutes:
    """The routes of the Open Inference Protocol.

    Attributes:
        routes: maps each key that `split_path` returns to an HTTP method and a route. A route is a function that
            returns the call or the response.
    """

    def __init__(self, inference: Inference, max_bytes: int, is_ready: Callable[[], bool]) -> None:
        """Creates the routes.

        Args:
            inference: the object that executes inference requests.
            max_bytes: the maximum number of bytes of a body with binary data.
            is_ready: a function that returns whether the server accepts calls and will continue to accept them.
        """
        self._inference, self._max_bytes = inference, max_bytes
        self._responds = list_responds(inference.statistics)
        self.routes: dict[str, tuple[str, HttpRoute]] = {
            "/v2/health/live": ("GET", lambda _: reply_json(HTTPStatus.OK, {"live": True})),
            "/v2/health/ready": ("GET", lambda _: _report(is_ready(), HTTPStatus.SERVICE_UNAVAILABLE)),
            f"{_ANY}/ready": ("GET", _probe_model),
            f"{_ANY}/infer": ("POST", self._prepare_infer),
        }
        for path, (method, name, field) in _PATHS.items():
            self.routes[path] = (method, partial(self._describe, name, field))

    def _describe(self, name: str, field: str, request: HttpRequest) -> Exchange:
        """Returns the call of a method whose request has only the name and the version of a model."""

        def write(_body: bytes, _is_over: IsOver | None) -> Reply:
            message = find_class(f"{name}Request")(**request.model)
            described = describe_message(
                self._responds[name](message),
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            return reply_json(HTTPStatus.OK, described[field] if field else described)

        return Exchange(find_path(name), write, MAX_QUERY_BODY_BYTES)

    def _prepare_infer(self, request: HttpRequest) -> Exchange:
        is_json, error = LENGTH_HEADER.encode() not in request.headers, None
        json_length = request.length or 0 if is_json else request.find_number(LENGTH_HEADER.encode())
        if json_length > MAX_JSON_BYTES:
            text = f"the JSON has more than {MAX_JSON_BYTES} bytes: send the elements as binary data"
            error = LimitError.of(Reason.MESSAGE_TOO_LARGE, text)
        model = request.model
        work = Work.NUMBERS if is_json or json_length > MAX_QUERY_BODY_BYTES else Work.TENSORS
        return Exchange(
            find_path("ModelInfer"),
            partial(self._infer, model, None if is_json else json_length),
            MAX_JSON_BYTES if is_json else self._max_bytes,
            json_bytes=MAX_JSON_BYTES if is_json else max(0, json_length),
            work=Work.QUERIES if model["name"] == INFER_SHAPE else work,
            error=error,
        )

    def _infer(
        self, model: Mapping[str, str], json_length: int | None, body: bytes, is_over: IsOver | None
    ) -> Reply | None:
        if json_length is None:
            json_length = len(body)
        if not 0 <= json_length <= len(body):
            text = f"{LENGTH_HEADER} must be the number of bytes of the JSON at the beginning of the body"
            raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
        if is_over is None and (json_length > LIGHT_JSON_BYTES or len(body) > LIGHT_BYTES):
            return None
        given = read_infer_request(body, json_length, **model)
        return self._inference.execute(given.request, partial(_write, given.is_binary), is_over)


def _report(is_ready: bool, otherwise: HTTPStatus, **more: str) -> Reply:  # noqa: FBT001 - the result of a probe
    return reply_json(HTTPStatus.OK if is_ready else otherwise, {**more, "ready": is_ready})


def _probe_model(request: HttpRequest) -> Reply:
    model = request.model
    return _report(is_model_ready(find_class("ModelReadyRequest")(**model)), HTTPStatus.NOT_FOUND, name=model["name"])


def _write(is_binary: bool, call: InferCall, output: TensorView, answer: ShapeAnswer | None) -> Reply:  # noqa: FBT001 - bound by `partial`
    header, payload = write_infer_response(call, output, answer, is_binary=is_binary)
    if payload is None:
        return Reply(HTTPStatus.OK, (header,))
    return Reply(HTTPStatus.OK, (header, payload), BINARY_TYPE, {LENGTH_HEADER: str(len(header))})
