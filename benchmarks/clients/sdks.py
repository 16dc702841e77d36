"""The SDK of this project, as a user calls it."""

import math
from typing import Any

import numpy as np

from benchmarks.clients.sessions import Array, Job, ThreadSession
from tensor_reshape.client import Client


class SdkConnection:
    """One `Client`, with what a variant passes besides the array and the shape."""

    def __init__(self, job: Job, **options: object) -> None:
        """Makes the client."""
        self._array, self._target = job.array, job.target
        self._options: dict[str, Any] = options
        self._client = Client(job.address, timeout=math.inf)

    def call(self) -> Array:
        """One call."""
        return self._client.static_reshape(self._array, self._target, special_zero=False, **self._options)

    def read(self, answer: Array) -> Array:
        """The answer is the array."""
        return answer

    def close(self) -> None:
        """Disconnects."""
        self._client.close()


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens clients; a variant is a way of `transfer`, "stream" into an array of the caller's.

    "empty" sends an empty tensor, whatever the cell's size: what a call costs that moves nothing.
    """
    if variant == "empty":
        job = Job.of(job.address, 0, job.clients)
        return ThreadSession(job, lambda: SdkConnection(job))
    if variant == "stream":
        return ThreadSession(job, lambda: SdkConnection(job, transfer="stream", out=np.zeros(job.target, np.float32)))
    options = {} if variant == "auto" else {"transfer": variant}
    return ThreadSession(job, lambda: SdkConnection(job, **options))
