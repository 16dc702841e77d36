"""The Open Inference Protocol over REST.

A method has the name of the same method over gRPC. Tokens, permissions, quotas, metrics and logs therefore treat a call
over REST like a call over gRPC.
"""

import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.http.asgi import (
    BINARY_TYPE,
    LENGTH_HEADER,
    HttpError,
    HttpRequest,
    Reply,
    reply_json,
    write_inference,
)
from tensor_reshape.server.http.calls import JSON_MEMORY_FACTOR, MEMORY_FACTOR, Exchange
from tensor_reshape.server.http.transcoder import LIGHT_JSON_BYTES, MAX_JSON_BYTES, MAX_QUESTION_BYTES, check_encoding
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

_LENGTH = re.compile(b"[0-9]{1,10}")
_MODEL = re.compile(r"/v2/models/(?P<name>[^/]+)(/versions/(?P<version>[^/]+))?(?P<rest>|/\w+)")
_LIVE, _READY = "/v2/health/live", "/v2/health/ready"
# the HTTP method, the method of the protocol, and the field of its response that is the response over REST
_PATHS = {
    "/v2": ("GET", ("ServerMetadata", "")),
    "/v2/models/stats": ("GET", ("ModelStatistics", "")),
    "/v2/repository/index": ("POST", ("RepositoryIndex", "models")),
}
_MODEL_PATHS = {"": ("ModelMetadata", ""), "/config": ("ModelConfig", "config"), "/stats": ("ModelStatistics", "")}


class InferenceRoutes:
    """The routes of the protocol."""

    def __init__(self, inference: Inference, max_bytes: int, is_ready: Callable[[], bool]) -> None:
        """Makes the routes.

        Args:
            inference: executes the inference requests.
            max_bytes: the maximum size of a body.
            is_ready: returns whether the server accepts calls and will continue to accept calls.
        """
        self._inference, self._max_bytes, self._is_ready = inference, max_bytes, is_ready
        self._responds = list_responds(inference.statistics)

    def prepare(self, request: HttpRequest) -> Exchange | Reply:
        """Returns the call of a request, or the response if the request is a probe.

        Raises:
            HttpError: the path does not exist, or the headers are invalid.
        """
        check_encoding(request)
        path = request.path.rstrip("/")
        if path in {_LIVE, _READY}:
            _check_method(request, "GET")
            name, good = path.rpartition("/")[2], path == _LIVE or self._is_ready()
            return reply_json(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, {name: good})
        if path in _PATHS:
            method, described = _PATHS[path]
            _check_method(request, method)
            return self._describe(*described, {})
        match = _MODEL.fullmatch(path)
        if match is None:
            raise _reject_path()
        parameters = {"name": match["name"], "version": match["version"] or ""}
        rest = match["rest"]
        if rest == "/infer":
            _check_method(request, "POST")
            return self._prepare_infer(request, **parameters)
        _check_method(request, "GET")
        if rest == "/ready":
            ready = is_model_ready(find_class("ModelReadyRequest")(**parameters))
            return reply_json(HTTPStatus.OK if ready else HTTPStatus.NOT_FOUND, {"name": match["name"], "ready": ready})
        if rest not in _MODEL_PATHS:
            raise _reject_path()
        return self._describe(*_MODEL_PATHS[rest], parameters)

    def _describe(self, name: str, field: str, parameters: dict[str, str]) -> Exchange:
        """Returns the call of a method whose request has only the name and the version of a model."""

        def write(_body: bytes) -> Reply:
            response = self._responds[name](find_class(f"{name}Request")(**parameters))
            described = describe_message(
                response, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            return reply_json(HTTPStatus.OK, described[field] if field else described)

        return Exchange(find_path(name), write_inference, lambda body, _: write(body), write, MAX_QUESTION_BYTES)

    def _prepare_infer(self, request: HttpRequest, name: str, version: str) -> Exchange:
        given, error = request.headers.get(LENGTH_HEADER.encode()), None
        if given is not None and not _LENGTH.fullmatch(given):
            given, error = b"0", _reject_json_length()
        json_length = None if given is None else int(given)
        if (json_length if json_length is not None else request.length or 0) > MAX_JSON_BYTES:
            text = f"the JSON has more than {MAX_JSON_BYTES} bytes: send the elements as binary data"
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            error = HttpError(status, "RESOURCE_EXHAUSTED", text, Reason.MESSAGE_TOO_LARGE)
        exchange = _Infer(self._inference, json_length, name, version)
        is_json = json_length is None
        work = Work.NUMBERS if is_json else Work.TENSORS
        return Exchange(
            find_path("ModelInfer"),
            write_inference,
            exchange.respond,
            exchange.respond_light,
            MAX_JSON_BYTES if is_json else self._max_bytes,
            JSON_MEMORY_FACTOR if is_json else MEMORY_FACTOR,
            work=Work.QUERIES if name == INFER_SHAPE else work,
            error=error,
        )


class _Infer(NamedTuple):
    """One inference request, which has the name and the version of the model in its path."""

    inference: Inference
    json_length: int | None
    name: str
    version: str

    def respond(self, body: bytes, is_over: IsOver) -> Reply:
        """Returns the response to a body."""
        given = read_infer_request(body, self._find_json_length(body), self.name, self.version)
        return self.inference.execute(given.request, partial(_write, given.is_binary), is_over)

    def respond_light(self, body: bytes) -> Reply | None:
        """Returns the response to a body, or None if that may take long."""
        json_length = self._find_json_length(body)
        if json_length > LIGHT_JSON_BYTES or len(body) > LIGHT_BYTES:
            return None
        given = read_infer_request(body, json_length, self.name, self.version)
        return self.inference.execute_light(given.request, partial(_write, given.is_binary))

    def _find_json_length(self, body: bytes) -> int:
        if self.json_length is None:
            return len(body)
        if self.json_length > len(body):
            raise _reject_json_length()
        return self.json_length


def _write(is_binary: bool, call: InferCall, output: TensorView, answer: ShapeAnswer | None) -> Reply:  # noqa: FBT001 - bound by `partial`
    header, payload = write_infer_response(call, output, answer, is_binary=is_binary)
    if payload is None:
        return Reply(HTTPStatus.OK, (header,))
    return Reply(HTTPStatus.OK, (header, payload), BINARY_TYPE, {LENGTH_HEADER: str(len(header))})


def _check_method(request: HttpRequest, method: str) -> None:
    if request.method != method:
        text = f"this path supports only {method}"
        headers = {"allow": "GET, HEAD" if method == "GET" else method}
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "UNIMPLEMENTED", text, headers=headers)


def _reject_path() -> HttpError:
    return HttpError(HTTPStatus.NOT_FOUND, "NOT_FOUND", "this path does not exist")


def _reject_json_length() -> HttpError:
    text = "Inference-Header-Content-Length must be the number of bytes of the JSON at the beginning of the body"
    return HttpError(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", text, Reason.MESSAGE_MALFORMED)
