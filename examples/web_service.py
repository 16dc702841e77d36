"""A web service that calls tensor-reshape. It receives images over HTTP, reshapes them to rows and runs a model.

Do the same in your own service:

- Create one `AsyncClient` for the application in its lifespan. Its channel serves all requests at once.
- Pass on the deadline of the request: subtract the time that has passed, and use the rest as timeout.
- If the request is wrong, return the reason. If the error is on the side of the service, return no details.

Run it with `python examples/web_service.py [SERVER [PORT]]`, then send a request:

    head -c 96 /dev/zero | curl --data-binary @- 'http://127.0.0.1:8000/means?shape=2,3,4'
"""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    InvalidRequestError,
    LimitError,
    TensorReshapeError,
    UnavailableError,
)

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_SHAPE_CHARACTERS = 256
DEFAULT_SECONDS, MAX_SECONDS = 10.0, 30.0


def build_app(server: str) -> Starlette:
    """Returns the application.

    Args:
        server: the address of tensor-reshape.
    """

    @asynccontextmanager
    async def run_client(app: Starlette) -> AsyncIterator[None]:
        # Created here, because a client belongs to the event loop in which it was created.
        async with AsyncClient(server) as client:
            app.state.client = client
            yield

    routes = [Route("/means", answer_means, methods=["POST"]), Route("/shape", answer_shape)]
    return Starlette(routes=routes, lifespan=run_client, exception_handlers={TensorReshapeError: answer_error})


async def answer_means(request: Request) -> JSONResponse:
    """Returns the mean of each image. The body has the float32 elements, and `?shape=` the shape of all images."""
    deadline = read_deadline(request)
    shape = read_shape(request)
    body = await read_body(request)
    if len(body) % np.dtype("<f4").itemsize:
        raise HTTPException(400, "the body is not a sequence of float32 elements")
    client: AsyncClient = request.app.state.client
    # The reshape finds a wrong shape, so the service need not compare the shape with the body.
    images = await client.static_reshape(
        np.frombuffer(body, "<f4"), shape, special_zero=False, timeout=find_rest(deadline)
    )
    rows = await client.static_reshape(images, [0, -1], special_zero=True, timeout=find_rest(deadline))
    return JSONResponse({"means": rows.mean(axis=1).tolist()})  # the model


async def answer_shape(request: Request) -> JSONResponse:
    """Returns the shape of the rows for images of a shape (`?shape=2,3,4`), without any image."""
    client: AsyncClient = request.app.state.client
    rows = await client.infer_shape(
        read_shape(request), [0, -1], special_zero=True, timeout=find_rest(read_deadline(request))
    )
    return JSONResponse({"rows": list(rows.known)})


async def answer_error(_request: Request, error: Exception) -> JSONResponse:
    """Returns the response for a failed call."""
    retry_seconds = error.retry_seconds if isinstance(error, LimitError) else None
    headers = {} if retry_seconds is None else {"retry-after": str(max(1, round(retry_seconds)))}
    if isinstance(error, InvalidRequestError):
        return JSONResponse({"error": error.message, "reason": error.reason, "field": error.field}, 422)
    status, text = find_status(error)
    return JSONResponse({"error": text}, status, headers)


def find_status(error: Exception) -> tuple[int, str]:
    """Returns the status and the public text of an error that the request did not cause."""
    if isinstance(error, LimitError):
        return (413, "too large") if error.retry_seconds is None else (429, "too busy")
    if isinstance(error, CallTimeoutError):
        return 504, "the deadline passed"
    return (503, "not available") if isinstance(error, UnavailableError) else (502, "internal error")


def read_deadline(request: Request) -> float:
    """Returns the deadline of the request on the monotonic clock, from the seconds in `x-request-timeout`."""
    try:
        seconds = float(request.headers.get("x-request-timeout", DEFAULT_SECONDS))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:  # also rejects NaN
        raise HTTPException(400, f"x-request-timeout must be a number of seconds up to {MAX_SECONDS:g}")
    return time.monotonic() + seconds


def find_rest(deadline: float) -> float:
    """Returns the seconds until the deadline."""
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise HTTPException(504, "the deadline passed")
    return rest


def read_shape(request: Request) -> list[int]:
    """Returns the shape in the query string."""
    text = request.query_params.get("shape", "")
    if len(text) > MAX_SHAPE_CHARACTERS:
        raise HTTPException(400, f"shape must have at most {MAX_SHAPE_CHARACTERS} characters")
    try:
        return [int(item) for item in text.split(",")]
    except ValueError:
        raise HTTPException(400, "shape must be numbers separated by commas") from None


async def read_body(request: Request) -> bytes:
    """Returns the body. Reads at most as many bytes as the service accepts."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body must have at most {MAX_BODY_BYTES} bytes")
    return bytes(body)


def main(server: str = "localhost:50051", port: str = "8000") -> None:
    """Runs the service until it is interrupted."""
    uvicorn.run(build_app(server), host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
