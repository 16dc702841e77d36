"""FastAPI: the tensor is the body of a POST, its new shape a parameter. uvicorn with uvloop and httptools serves it."""

from contextlib import ExitStack

import fastapi
import httpx
import numpy as np
import uvicorn

from benchmarks.sessions import Array, Call, Job, ThreadSession

app = fastapi.FastAPI()


@app.post("/reshape")  # type: ignore[untyped-decorator] # untyped
async def reshape(request: fastapi.Request, shape: str) -> fastapi.Response:
    """Reshapes with numpy."""
    array = np.frombuffer(await request.body(), np.float32).reshape([int(dim) for dim in shape.split(",")])
    headers = {"x-shape": ",".join(map(str, array.shape))}
    return fastapi.Response(array.tobytes(), media_type="application/octet-stream", headers=headers)


def serve(address: str) -> None:
    """Serves for ever."""
    host, _, port = address.rpartition(":")
    place = {"uds": port} if host == "unix" else {"host": host, "port": int(port)}
    # Connections are kept between rounds, so that no call pays for a new one.
    uvicorn.run(app, **place, log_level="warning", loop="uvloop", http="httptools", timeout_keep_alive=3600)


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens httpx clients; there is one variant."""
    del variant
    parameters = {"shape": ",".join(map(str, job.target))}

    def connect() -> Call:
        transport = httpx.HTTPTransport(uds=job.path) if job.path else None
        base = "http://server" if job.path else f"http://{job.address}"
        client = stack.enter_context(
            httpx.Client(base_url=base, transport=transport, timeout=None)  # noqa: S113 - the suite waits
        )

        def call() -> Array:
            response = client.post("/reshape", params=parameters, content=job.array.tobytes())
            response.raise_for_status()
            shape = [int(dim) for dim in response.headers["x-shape"].split(",")]
            return np.frombuffer(response.content, np.float32).reshape(shape)

        return call

    return ThreadSession(job, stack, connect, job.check)
