"""JSON over HTTP: a client for the REST port of this project, and for an echo of the same JSON with Starlette."""

import base64
import http.client
import json
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from benchmarks.sessions import Array, Call, Job, ThreadSession

_PATH = "/tensor_reshape.v1.ReshapeService/StaticReshape"
_HEADERS = {"Content-Type": "application/json"}


def serve(address: str) -> None:
    """Serves forever."""
    # Only this environment has these packages, and its clients do not need them.
    import uvicorn  # noqa: PLC0415
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.requests import Request  # noqa: PLC0415
    from starlette.responses import JSONResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    async def echo(request: Request) -> JSONResponse:
        return JSONResponse(await request.json())

    host, _, port = address.rpartition(":")
    application = Starlette(routes=[Route(_PATH, echo, methods=["POST"])])
    uvicorn.run(application, host=host, port=int(port), log_level="warning", access_log=False)


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens a connection for each client; the variant is "ours", or "echo" for a server that returns the request."""

    def connect() -> Call:
        connection = stack.enter_context(closing(http.client.HTTPConnection(job.address)))

        def call() -> Array:
            data = base64.b64encode(job.array.tobytes()).decode()
            tensor = {"dataType": "DATA_TYPE_F32", "dims": job.array.shape, "data": data}
            request = {"specialZero": False, "shape": {"items": job.target}, "data": tensor}
            connection.request("POST", _PATH, json.dumps(request), _HEADERS)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            output, dims = (answer["data"], job.target) if variant == "echo" else (answer["output"], None)
            array = np.frombuffer(base64.b64decode(output["data"]), np.float32)
            return array.reshape(dims or [int(dim) for dim in output["dims"]])

        return call

    return ThreadSession(job, stack, connect, job.check)
