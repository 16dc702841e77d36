"""What is answered over HTTP: bytes with a status and headers, and how they are sent.

- A refusal is a `google.rpc.Status` as JSON, with the details that it has over gRPC, and the status of HTTP that
  `google/rpc/code.proto` has for its code; a body that is larger than it may be is 413, as HTTP has it.
- What gRPC says in trailing metadata is a header: the request's id by its name, and when to come again as Retry-After.
- No page of another origin is let in, and nothing that is answered is taken for a page, a script or a frame.
- A long answer is sent in pieces, each when the one before is on its way: so what a caller does not read stays the
  call's, which is given up, and is no buffer of the connection's.
"""

import json
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from google.protobuf import json_format
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status as StatusMessage
from grpc import StatusCode
from starlette.types import Send

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.engine.statuses import End
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY
from tensor_reshape.wire.status import DETAILS_KEY, PUSHBACK_KEY

JSON_TYPE = "application/json"

HTTP_CODES: Mapping[str, int] = MappingProxyType(
    {
        "OK": 200,
        "CANCELLED": 499,
        "UNKNOWN": 500,
        "INVALID_ARGUMENT": 400,
        "DEADLINE_EXCEEDED": 504,
        "NOT_FOUND": 404,
        "ALREADY_EXISTS": 409,
        "PERMISSION_DENIED": 403,
        "RESOURCE_EXHAUSTED": 429,
        "FAILED_PRECONDITION": 400,
        "ABORTED": 409,
        "OUT_OF_RANGE": 400,
        "UNIMPLEMENTED": 501,
        "INTERNAL": 500,
        "UNAVAILABLE": 503,
        "DATA_LOSS": 500,
        "UNAUTHENTICATED": 401,
    }
)
"""The status of HTTP for each code of gRPC, as google/rpc/code.proto has them."""

COMMON_HEADERS = MappingProxyType(
    {
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""What every answer has that does not say otherwise itself."""

_STATUSES = {str(Reason.MESSAGE_TOO_LARGE): 413}
"""Where HTTP says more than the code."""

_PIECE_BYTES = 64 * 1024


class Answer(NamedTuple):
    """One answer.

    Attributes:
        code: of HTTP.
        body: its bytes.
        headers: besides those that every answer has, in lower case.
    """

    code: int
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


def build_answer(body: bytes, told: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """Returns a good answer of JSON; `told` is what else its caller is told."""
    return Answer(HTTP_CODES["OK"], body, {"content-type": JSON_TYPE, **told})


def build_refusal(end: End) -> Answer:
    """Returns what the caller of a call that ends badly is told."""
    trailing = dict(end.status.trailing_metadata)
    packed = trailing.get(DETAILS_KEY)
    message = StatusMessage(code=end.status.code.value[0], message=end.status.details)
    if isinstance(packed, bytes):
        message.ParseFromString(packed)
    code = _STATUSES.get(end.ending.reason, HTTP_CODES[end.status.code.name])
    headers = {"content-type": JSON_TYPE, **list_told(end.status.trailing_metadata)}
    if PUSHBACK_KEY in trailing:
        headers["retry-after"] = str(math.ceil(int(trailing[PUSHBACK_KEY]) / 1000))
    if code == HTTP_CODES["UNAUTHENTICATED"]:
        headers["www-authenticate"] = "Bearer"
    return Answer(code, _write(message), headers)


def build_error(code: int, name: str, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """Returns the answer to what is no call.

    Args:
        code: of HTTP.
        name: of the code of gRPC.
        text: a sentence for people, without anything that the caller has sent.
        headers: besides the usual ones.
    """
    message = StatusMessage(code=StatusCode[name].value[0], message=text)
    return Answer(code, _write(message), {"content-type": JSON_TYPE, **headers})


def list_told(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Returns what of the metadata at the end of a call is a header."""
    return {key: str(value) for key, value in metadata if key == REQUEST_ID_KEY}


async def send_answer(answer: Answer, send: Send) -> None:
    """Sends an answer whole."""
    headers = {**COMMON_HEADERS, **answer.headers, "content-length": str(len(answer.body))}
    encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.code, "headers": encoded})
    view = memoryview(answer.body)
    for begin in range(0, len(view), _PIECE_BYTES):
        await send({"type": "http.response.body", "body": bytes(view[begin : begin + _PIECE_BYTES]), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _write(message: StatusMessage) -> bytes:
    return json.dumps(json_format.MessageToDict(message, descriptor_pool=_POOL), separators=(",", ":")).encode()


_POOL = error_details_pb2.DESCRIPTOR.pool  # in which the details of a refusal are
