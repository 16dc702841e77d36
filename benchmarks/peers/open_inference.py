"""tritonclient over gRPC, for Triton and for MLServer, which speaks the same protocol."""

import time
from contextlib import ExitStack

import numpy as np
import tritonclient.grpc as tc

from benchmarks.sessions import Array, Job, ThreadSession

_MODEL = "reshape"
_READY_SECONDS = 60


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens a client, which all threads share, once the model is loaded; there is one variant."""
    del variant
    target = np.array(job.target, np.int64)
    client = stack.enter_context(tc.InferenceServerClient(job.address))
    _await_model(client)  # the port is open before the model is loaded

    def call() -> Array:
        data = tc.InferInput("data", job.array.shape, "FP32")
        data.set_data_from_numpy(job.array)
        shape = tc.InferInput("shape", target.shape, "INT64")
        shape.set_data_from_numpy(target)
        array: Array = client.infer(_MODEL, [data, shape]).as_numpy("output")
        return array

    return ThreadSession(job, stack, lambda: call, job.check)


def _await_model(client: tc.InferenceServerClient) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready(client):
        if time.monotonic() > deadline:
            message = "the model was not ready"
            raise TimeoutError(message)
        time.sleep(0.1)


def _is_ready(client: tc.InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready() and client.is_model_ready(_MODEL))
    except tc.InferenceServerException:
        return False
