"""HTTP: the tensor is the body of a POST."""

import httpx  # type: ignore[import-not-found, unused-ignore]
import numpy as np

from benchmarks.clients.sessions import Array, Job, ThreadSession


class PostConnection:
    """One httpx client."""

    def __init__(self, job: Job) -> None:
        """Makes the client."""
        transport = httpx.HTTPTransport(uds=job.path) if job.path else None
        base = "http://server" if job.path else f"http://{job.address}"
        self._client = httpx.Client(base_url=base, transport=transport, timeout=None)  # noqa: S113 - the suite waits
        self._array = job.array
        self._parameters = {"shape": ",".join(map(str, job.target))}

    def call(self) -> Array:
        """One call."""
        response = self._client.post("/reshape", params=self._parameters, content=self._array.tobytes())
        response.raise_for_status()
        shape = [int(dim) for dim in response.headers["x-shape"].split(",")]
        return np.frombuffer(response.content, np.float32).reshape(shape)

    def read(self, answer: Array) -> Array:
        """The answer is the array."""
        return answer

    def close(self) -> None:
        """Disconnects."""
        self._client.close()


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens clients; there is one variant."""
    del variant
    return ThreadSession(job, lambda: PostConnection(job))
