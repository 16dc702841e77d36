"""Serves the unary methods of the API over HTTP: JSON, protobuf messages, and the Connect protocol (connectrpc.com).

- A method has the same path as over gRPC, for example `/tensor_reshape.v1.ReshapeService/InferShape`. Gateways such as
  grpc-gateway and Envoy's transcoder use the same paths.
- A body is JSON in protobuf's mapping (`application/json`) or a protobuf message (`application/proto`). The response
  has the same content type as the request.
- If a request has the header `connect-protocol-version`, errors have Connect's form. The header `connect-timeout-ms`
  sets a shorter deadline for the call.
- A request with duplicate names, unknown names or text that is not UTF-8 is rejected. In a response, 64-bit numbers are
  strings, because JavaScript cannot represent all of them as numbers.
"""

import re
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.http.asgi import CONNECT_VERSION, JSON_TYPE, PROTO_TYPE, HttpError, HttpRequest, Reply
from tensor_reshape.server.http.calls import CALL_SECONDS, MEMORY_FACTOR, Exchange
from tensor_reshape.server.service.method_tables import IsOver, UnaryMethod
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.json_messages import decode_text, parse_json, read_message, write_message
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, SERVER_INFO

MAX_QUERY_BODY_BYTES = 64 * 1024
"""The maximum size of a query in bytes. The JSON of a query of rank 64 with long names and bounds has about 30 KiB."""

MAX_BATCH_BODY_BYTES = 1024 * 1024
"""The maximum size of a batch in bytes."""

LIGHT_JSON_BYTES = 1024
"""The maximum size of JSON that the event loop parses, in bytes. This takes a few milliseconds at most."""

MAX_JSON_BYTES = 1024 * 1024
"""The size in bytes above which JSON may have only `MAX_JSON_PARTS` parts, such as JSON that contains a tensor."""

MAX_JSON_PARTS = 16 * 1024
"""The maximum number of commas and opening brackets of long JSON."""

_TIMEOUT = b"connect-timeout-ms"
_LONG_MILLISECONDS = 10**9  # if the header is missing, this value lets the server's own deadline apply
_LARGE_JSON_MEMORY_FACTOR = 6  # long JSON is mostly one base64 text, which the server copies and decodes
_SMALL = {INFER_SHAPE.path: MAX_QUERY_BODY_BYTES, SERVER_INFO.path: MAX_QUERY_BODY_BYTES}
_SMALL |= {BATCH_INFER_SHAPE.path: MAX_BATCH_BODY_BYTES}
_CHARSET = re.compile(r';\s*charset\s*=\s*"?+(?!utf-?8\b)', re.IGNORECASE)


class Rpc(NamedTuple):
    """A unary method with the classes of its messages. A message with a tensor has at most `max_bytes`."""

    method: UnaryMethod
    request: type[Message]
    response: type[Message]
    max_bytes: int

    def respond(self, is_json: bool, body: bytes, is_over: IsOver | None) -> Reply | None:  # noqa: FBT001 - bound by `partial`
        """Returns the response to a body (see `Exchange`)."""
        if is_json:
            if is_over is None and len(body) > LIGHT_JSON_BYTES:
                return None
            body = read_message(self.request, parse_json(decode_json(body))).SerializeToString()
        response = self.method.respond_light(body) if is_over is None else self.method.respond(body, is_over)
        if response is None:
            return None
        if is_json:
            return Reply(HTTPStatus.OK, (write_message(self.response.FromString(response)),))
        return Reply(HTTPStatus.OK, (response,), PROTO_TYPE)

    def prepare(self, request: HttpRequest) -> Exchange:
        """Returns how to serve a request as a call of this method."""
        is_json, error, path = request.content_type == JSON_TYPE, _find_error(request), self.method.name
        seconds = min(CALL_SECONDS, request.find_number(_TIMEOUT, _LONG_MILLISECONDS) / 1000)
        max_bytes = _SMALL.get(path, self.max_bytes if not is_json else 4 * self.max_bytes // 3 + MAX_QUERY_BODY_BYTES)
        return Exchange(
            path,
            partial(self.respond, is_json),
            max_bytes,
            _LARGE_JSON_MEMORY_FACTOR if is_json and path not in _SMALL else MEMORY_FACTOR,
            json_bytes=max_bytes if is_json and path in _SMALL else 0,
            seconds=seconds,
            work=self.method.find_work(b""),
            error=error,
        )


def build_rpcs(methods: Iterable[UnaryMethod], max_bytes: int) -> dict[str, Rpc]:
    """Returns the unary methods of the API by path. Messages with tensors have at most `max_bytes`."""
    served = {method.name: method for method in methods}
    return {
        path: Rpc(served[path], GetMessageClass(found.input_type), GetMessageClass(found.output_type), max_bytes)
        for found in reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"].methods
        if (path := f"/{found.containing_service.full_name}/{found.name}") in served
    }


def _find_error(request: HttpRequest) -> HttpError | None:
    """Returns an error if the headers of a request are not valid, and otherwise None."""
    is_text = request.content_type == JSON_TYPE and not _CHARSET.search(request.find(b"content-type"))
    if not is_text and request.content_type != PROTO_TYPE:
        text = f"the content type must be {JSON_TYPE} in UTF-8 or {PROTO_TYPE}"
        return HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "INVALID_ARGUMENT", text)
    text = ""
    if request.headers.get(CONNECT_VERSION, b"1") != b"1":
        text = f"{CONNECT_VERSION.decode()} must be 1"
    elif request.find_number(_TIMEOUT) < 0:
        text = f"{_TIMEOUT.decode()} must be a number of at most ten digits"
    return HttpError(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", text) if text else None


def decode_json(body: bytes) -> str:
    """Returns the text of a JSON body.

    Rejects long JSON with many parts, because parsing it would take too much memory.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED, because the body is not UTF-8.
        LimitError: the reason is MESSAGE_TOO_LARGE, because long JSON has too many parts.
    """
    if len(body) > MAX_JSON_BYTES and sum(map(body.count, (b",", b"[", b"{"))) > MAX_JSON_PARTS:
        text = f"JSON of more than {MAX_JSON_BYTES} bytes may have at most {MAX_JSON_PARTS} commas and brackets"
        raise LimitError.of(Reason.MESSAGE_TOO_LARGE, text, limit=MAX_JSON_PARTS)
    return decode_text(body)
