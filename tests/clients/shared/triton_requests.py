"""Converts requests and responses for tritonclient."""

from collections.abc import Callable
from functools import partial

import grpc
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from calls_of_python import describe_error
from inference_calls import (
    Json,
    Tensor,
    answer_calls,
    read_calls,
    read_parameters,
    read_tensors,
    write_response,
    write_status,
)


def run(ask: Callable[[triton.InferenceServerClient, Json, float], Json]) -> None:
    """Makes the calls on stdin with one client."""
    address, calls = read_calls()
    with triton.InferenceServerClient(address) as client:
        answer_calls(calls, partial(ask, client))


def build_arguments(request: Json) -> Json:
    """Returns the common arguments of `infer` and `async_stream_infer`."""
    return {
        "model_name": request["model_name"],
        "inputs": [_build_input(tensor) for tensor in read_tensors(request)],
        "model_version": request.get("model_version", ""),
        "outputs": [triton.InferRequestedOutput(output["name"]) for output in request.get("outputs", [])] or None,
        "request_id": request.get("id", ""),
        "parameters": read_parameters(request["parameters"]),
    }


def write_result(result: triton.InferResult) -> Json:
    """Returns a response."""
    name = result.get_response().outputs[0].name
    return write_response(result.get_response(), result.get_output(name), result.as_numpy(name))


def write_error(error: InferenceServerException) -> Json:
    """Returns the outcome of a failed call."""
    # The error keeps only the text. The gRPC error that caused it has the details.
    return describe_error(error.__context__) if isinstance(error.__context__, grpc.RpcError) else write_status(error)


def _build_input(tensor: Tensor) -> triton.InferInput:
    made = triton.InferInput(tensor.name, tensor.array.shape, tensor.datatype)
    made.set_data_from_numpy(tensor.array)
    return made
