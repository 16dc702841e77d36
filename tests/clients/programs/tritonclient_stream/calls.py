"""Calls with tritonclient's streams, which return each response on the stream of its request."""

from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from inference_calls import Json
from triton_requests import build_arguments, run, write_error, write_result


def ask(client: triton.InferenceServerClient, request: Json, seconds: float) -> Json:
    results: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    # Each call has its own stream, because each has a deadline, and a rejection by status ends the stream.
    client.start_stream(lambda result, error: results.put((result, error)), stream_timeout=seconds)
    with suppress(InferenceServerException):  # the deadline has passed, and the queue has the error
        client.async_stream_infer(**build_arguments(request))
    result, error = results.get()
    client.stop_stream()
    return write_result(result) if error is None else write_error(error)


if __name__ == "__main__":
    run(ask)
