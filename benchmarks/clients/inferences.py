"""tritonclient over gRPC, for Triton and for MLServer, which speaks the same protocol."""

import time

import numpy as np
import tritonclient.grpc as tc  # type: ignore[import-not-found, import-untyped, unused-ignore]

from benchmarks.clients.sessions import Array, Job, ThreadSession

MODEL = "reshape"
_READY_SECONDS = 60


class InferenceConnection:
    """One client."""

    def __init__(self, job: Job) -> None:
        """Connects, and waits until the model is loaded.

        Raises:
            TimeoutError: it is not.
        """
        self._client = tc.InferenceServerClient(job.address)
        self._array = job.array
        self._shape = np.array(job.target, np.int64)
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            if time.monotonic() > deadline:
                message = "the model was not ready"
                raise TimeoutError(message)
            time.sleep(0.1)

    def call(self) -> Array:
        """One call."""
        data = tc.InferInput("data", self._array.shape, "FP32")
        data.set_data_from_numpy(self._array)
        shape = tc.InferInput("shape", self._shape.shape, "INT64")
        shape.set_data_from_numpy(self._shape)
        array: Array = self._client.infer(MODEL, [data, shape]).as_numpy("output")
        return array

    def read(self, answer: Array) -> Array:
        """The answer is the array."""
        return answer

    def close(self) -> None:
        """Disconnects."""
        self._client.close()

    def _is_ready(self) -> bool:
        try:
            return bool(self._client.is_server_ready() and self._client.is_model_ready(MODEL))
        except tc.InferenceServerException:
            return False


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens clients; the variants differ in their server alone."""
    del variant
    return ThreadSession(job, lambda: InferenceConnection(job))
