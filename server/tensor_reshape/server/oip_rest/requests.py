"""Checks the headers of inference requests over REST."""

import asyncio
import re
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.http.requests import CLOSE, is_compressed
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER, build_error

MAX_JSON_BYTES = 1024 * 1024
"""Maximum size of the JSON of a request in bytes.

The parser of JSON holds the interpreter lock, for about 10 ms if the JSON has this size.
"""

_DISCARD_SECONDS = 5.0
_LENGTH = re.compile("[0-9]{1,10}")


def find_infer_error(request: HttpRequest, max_bytes: int) -> Response | None:
    """Checks the headers about the body. Returns an error response, or None if they are valid.

    Args:
        request: the HTTP request.
        max_bytes: the maximum size of a body.
    """
    length, json_length = request.headers.get("content-length", ""), request.headers.get(LENGTH_HEADER)
    # A chunked body may be longer than its Content-Length.
    if not _LENGTH.fullmatch(length) or "transfer-encoding" in request.headers:
        text = "the request needs a Content-Length header of at most ten digits, and no Transfer-Encoding header"
        return build_error(411, Reason.MESSAGE_MALFORMED, text, CLOSE)
    if int(length) > max_bytes:
        text = f"the body has {length} bytes, but the limit is {max_bytes}"
        return build_error(413, Reason.MESSAGE_TOO_LARGE, text, CLOSE)
    if is_compressed(request):
        text = "this server does not accept compressed bodies: omit the Content-Encoding header"
        return build_error(415, Reason.MESSAGE_MALFORMED, text, CLOSE)
    if json_length is not None and not (_LENGTH.fullmatch(json_length) and int(json_length) <= int(length)):
        text = "Inference-Header-Content-Length must be the number of bytes of the JSON at the beginning of the body"
        return build_error(400, Reason.MESSAGE_MALFORMED, text, CLOSE)
    if int(json_length or length) > MAX_JSON_BYTES:
        text = f"the JSON has more than {MAX_JSON_BYTES} bytes: send the elements as binary data"
        return build_error(413, Reason.MESSAGE_TOO_LARGE, text, CLOSE)
    return None


async def discard_body(request: HttpRequest) -> None:
    """Reads a rejected body for some seconds. A client that still sends would otherwise lose the error response."""
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_DISCARD_SECONDS):
            async for _ in request.stream():
                pass
