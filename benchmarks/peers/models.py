"""ModelInfer of the Open Inference Protocol on a stock grpcio channel: what the server costs behind any client."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import numpy as np

from benchmarks.peers.stock import OPTIONS
from benchmarks.sessions import Array, Job, ThreadSession
from tensor_reshape.server.oip.messages import find_class, find_path


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one channel for all clients; the target is a "parameter" or an "input"."""
    request = encode(variant, job)
    channel = stack.enter_context(grpc.insecure_channel(job.address, OPTIONS))
    send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(find_path("ModelInfer"))
    return ThreadSession(job, stack, lambda: partial(send, request), lambda answer: job.check(decode(answer)))


def encode(variant: str, job: Job) -> bytes:
    """Returns the request."""
    parameter = find_class("InferParameter")
    parameters = {"special_zero": parameter(bool_param=False)}
    inputs = [{"name": "data", "datatype": "FP32", "shape": job.array.shape}]
    contents = [job.array.tobytes()]
    if variant == "input":
        target = np.array(job.target, "<i8")
        inputs.append({"name": "shape", "datatype": "INT64", "shape": target.shape})
        contents.append(target.tobytes())
    else:
        parameters["shape"] = parameter(string_param=str(list(job.target)))
    request = find_class("ModelInferRequest")(
        model_name="static_reshape", parameters=parameters, inputs=inputs, raw_input_contents=contents
    )
    return request.SerializeToString()


def decode(raw: bytes) -> Array:
    """Returns the array of a response."""
    response: Any = find_class("ModelInferResponse").FromString(raw)
    return np.frombuffer(response.raw_output_contents[0], np.float32).reshape(response.outputs[0].shape)
