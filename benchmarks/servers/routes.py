"""FastAPI: the tensor is the body of a POST, its new shape a parameter. uvicorn with uvloop and httptools serves it."""

import sys

import fastapi  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import uvicorn  # type: ignore[import-not-found, unused-ignore]

app = fastapi.FastAPI()


@app.post("/reshape")  # type: ignore[untyped-decorator, unused-ignore]
async def reshape(request: fastapi.Request, shape: str) -> fastapi.Response:
    """Reshapes with numpy."""
    dims = [int(dim) for dim in shape.split(",")]
    array = np.frombuffer(await request.body(), np.float32).reshape(dims)
    headers = {"x-shape": ",".join(map(str, array.shape))}
    return fastapi.Response(array.tobytes(), media_type="application/octet-stream", headers=headers)


def main() -> None:
    """Serves on the address that is the argument."""
    host, _, port = sys.argv[1].rpartition(":")
    place = {"uds": port} if host == "unix" else {"host": host, "port": int(port)}
    uvicorn.run(app, **place, log_level="warning", loop="uvloop", http="httptools", timeout_keep_alive=3600)


if __name__ == "__main__":
    main()
